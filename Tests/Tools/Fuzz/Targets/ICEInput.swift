// What the servers and the peer of ICE send: the stream of a TURN server over TCP, frames of an ICE-TCP connection,
// answers of STUN and TURN servers, and candidates. The first byte selects the parser.
import ICE
import Signalling

func iceInput(_ bytes: [UInt8]) {
    guard let first = bytes.first else { return }
    let input = bytes.dropFirst()
    switch first % 4 {
    case 0: turnStream(input)
    case 1: frames(input, isOfUse: first & 4 == 0)
    case 2: answers(input, isTURN: first & 4 == 0)
    default: candidate(input)
    }
}

/// As a whole, in parts whose sizes depend on the bytes, and one by one.
private func splits(_ bytes: ArraySlice<UInt8>) -> [[ArraySlice<UInt8>]] {
    var parts: [ArraySlice<UInt8>] = []
    var rest = bytes
    while let first = rest.first {
        let size = 1 + Int((first &+ UInt8(truncatingIfNeeded: rest.count)) % 23)
        parts.append(rest.prefix(size))
        rest = rest.dropFirst(size)
    }
    return [[bytes], parts] + (bytes.count <= 4096 ? [bytes.indices.map { bytes[$0...$0] }] : [])
}

// MARK: TURN over TCP

/// Where the headers of a stream's frames end, and where it is not TURN any more.
private func turnHeaders(_ bytes: ArraySlice<UInt8>) -> (ends: [Int], junk: Int?) {
    var (ends, at): ([Int], Int) = ([], bytes.startIndex)
    while at < bytes.endIndex {
        guard bytes[at] < 0x80 else { return (ends, at) }
        let isChannel = bytes[at] >= 0x40
        let end = at + (isChannel ? 4 : 8)
        guard end <= bytes.endIndex else { break }
        let length = Int(bytes[at + 2]) * 256 + Int(bytes[at + 3])
        if !isChannel, length % 4 != 0 || Array(bytes[at + 4..<end]) != [0x21, 0x12, 0xA4, 0x42] {
            return (ends, end - 1)
        }
        ends.append(end - 1)
        at += isChannel ? 4 + (length + 3) / 4 * 4 : 20 + length
    }
    return (ends, nil)
}

private func turnStream(_ bytes: ArraySlice<UInt8>) {
    let (ends, junk) = turnHeaders(bytes)
    for parts in splits(bytes) {
        var frames = TURNFrames()
        for part in parts {
            let isTURN = junk.map { part.endIndex <= $0 } ?? true
            let begun = ends.count { part.indices.contains($0) }
            precondition(frames.follow(part) == (isTURN ? begun : nil))
        }
        precondition(junk == nil || frames.follow([0x40, 0, 0, 0]) == nil)
    }
}

// MARK: ICE-TCP

private func frames(_ bytes: ArraySlice<UInt8>, isOfUse: Bool) {
    var outcomes: [[[UInt8]]] = []
    for parts in splits(bytes) {
        var (reader, read) = (FrameReader(), [[UInt8]]())
        for part in parts {
            // A copy in a separate allocation, so that AddressSanitizer sees its end.
            _ = Array(part).withUnsafeBytes { part in
                reader.read(part) {
                    precondition((1...FrameReader.largestFrame).contains($0.count))
                    read.append(Array($0))
                    return isOfUse
                }
            }
        }
        precondition(isOfUse || read.count <= FrameReader.maximumUseless)
        outcomes.append(read)
    }
    precondition(outcomes.allSatisfy { $0 == outcomes[0] })
}

// MARK: STUN and TURN servers

/// Messages behind their length in two bytes. Each gets the cookie and the transaction of the latest request.
private func answers(_ bytes: ArraySlice<UInt8>, isTURN: Bool) {
    guard let server = try? ICEServer(url: isTURN ? "turn:user:password@192.0.2.1" : "stun:192.0.2.1") else {
        fatalError("the fuzzer's server is invalid")
    }
    let client = STUNClient(server: server)
    var request = client.start()
    precondition(request.count >= 20)
    var rest = bytes
    for _ in 0..<6 where rest.count > 2 {
        let length = Int(rest.removeFirst()) << 8 | Int(rest.removeFirst())
        var message = Array(rest.prefix(length))
        rest = rest.dropFirst(length)
        if let size = STUNClient.size(of: message) { precondition((20...65_555).contains(size)) }
        if message.count >= 20 { message.replaceSubrange(4..<20, with: request[4..<20]) }
        switch client.received(message) {
        case .none: break
        case .send(let next):
            precondition(isTURN && (20...2048).contains(next.count))
            request = next
        case .done(.relayed(let release)): precondition(isTURN && (20...2048).contains(release.count))
        case .done(.mapped): precondition(!isTURN)
        case .done(.failed(let code, _)): precondition((300...799).contains(code))
        case .done: break
        }
    }
}

// MARK: Candidates

/// What libnice gets reads as the same candidate again.
private func candidate(_ bytes: ArraySlice<UInt8>) {
    let text = String(decoding: bytes, as: UTF8.self)
    _ = CandidateLine.usernameFragment(in: text)
    guard let line = try? CandidateLine.parse(text) else { return }
    precondition(line.port > 0 && line.sdpAttribute.utf8.allSatisfy { (0x20..<0x7F).contains($0) })
    precondition((try? CandidateLine.parse(line.sdpAttribute))?.sdpAttribute == line.sdpAttribute)
}
