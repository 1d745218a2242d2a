import FoundationEssentials
import Glibc
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// One line of an independent peer's protocol; Tests/System/Peers/peer_common.py lists them.
struct PeerLine: Codable, Sendable {
    var type: String
    var sdp: String?
    var candidate: String?
    var sdpMid: String?
    var sdpMLineIndex: Int?
    var message: String?
    var connectionState: String?
    var framesDecoded: Int?
    var audioPitch: Double?
    var width: Int?
    var height: Int?
    var meanRGB: [Double]?
    var packetsReceived: Int?
    var pli: Int?
    var rembReceived: Int?
    var rembBitrate: Double?
    var targetBitrate: Double?

    init(_ type: String) { self.type = type }
}

enum Referee: String, Sendable, CaseIterable, CustomTestStringConvertible {
    case aiortc, webrtcbin
    var codecs: [VideoCodec] { self == .aiortc ? [.vp8, .h264] : [.vp8, .h264, .vp9] }
    var testDescription: String { rawValue }
}

/// An independent WebRTC peer, written in Python, in a child process.
final class PythonPeer: Sendable {
    static let interpreter: String? = getenv("DECART_TEST_PYTHON").map { String(cString: $0) }
    static let isAvailable = interpreter.map { access($0, X_OK) == 0 } ?? false
    static let reason: Comment = "DECART_TEST_PYTHON does not name a Python with Tests/System/Peers/requirements.txt"

    struct Seen: Sendable {
        var description: String?
        var candidates: [ICECandidate?] = []
        var stats: [PeerLine] = []
        var state = "new"
        var problems: [String] = []
    }
    let seen = Watched(Seen())
    private let process: ChildProcess
    private let sinks = Watched<[@Sendable (ICECandidate?) -> Void]>([])

    init(_ referee: Referee, _ role: String, _ codec: VideoCodec, _ options: [String] = []) throws {
        let script =
            String(#filePath.split(separator: "/").dropLast(3).map { "/" + $0 }.joined())
            + "/System/Peers/\(referee.rawValue)_peer.py"
        process = try ChildProcess(
            [Self.interpreter ?? "", script, role, codec.rawValue, "--address", "127.0.0.1", "--lifetime", "110"]
                + options)
        process.readLines { [seen, sinks] bytes in
            guard let line = try? JSONDecoder().decode(PeerLine.self, from: Data(bytes)) else { return }
            var candidate: ICECandidate??
            seen.change { seen in
                switch line.type {
                case "offer", "answer": seen.description = line.sdp
                case "candidate":
                    let made = line.candidate.map {
                        ICECandidate(candidate: $0, sdpMid: line.sdpMid, sdpMLineIndex: line.sdpMLineIndex)
                    }
                    seen.candidates.append(made)
                    candidate = .some(made)
                case "stats": seen.stats.append(line)
                case "state": seen.state = line.connectionState ?? ""
                case "error": seen.problems.append(line.message ?? "")
                default: break
                }
            }
            if let candidate { for sink in sinks.value { sink(candidate) } }
        }
    }

    func say(_ line: PeerLine) {
        guard let data = try? JSONEncoder().encode(line) else { return }
        process.write(Array(data) + [10])
    }

    func say(description: String, as type: String) {
        var line = PeerLine(type)
        line.sdp = description
        say(line)
    }

    func say(candidate: ICECandidate?) {
        var line = PeerLine("candidate")
        (line.candidate, line.sdpMid, line.sdpMLineIndex) = (
            candidate?.candidate, candidate?.sdpMid, candidate?.sdpMLineIndex
        )
        say(line)
    }

    /// Sends a later offer and returns the peer's answer.
    func answer(to offer: String) -> String? {
        seen.change { $0.description = nil }
        say(description: offer, as: "offer")
        return description()
    }

    /// Returns the peer's offer or answer. Starting Python and aiortc takes a second or two.
    func description(within limit: Duration = .seconds(40)) -> String? {
        _ = seen.wait(limit) { $0.description != nil }
        return seen.value.description
    }

    /// Passes all candidates, earlier and later ones, to `sink`. Call it once, after `description`.
    func trickle(to sink: @escaping @Sendable (ICECandidate?) -> Void) {
        // A line that is read at this moment may be passed twice; a duplicate candidate does no harm.
        sinks.change { $0.append(sink) }
        for candidate in seen.value.candidates { sink(candidate) }
    }

    func stats(within limit: Duration = .seconds(20)) -> PeerLine? {
        let before = seen.value.stats.count
        say(PeerLine("stats"))
        _ = seen.wait(limit) { $0.stats.count > before }
        return seen.value.stats.dropFirst(before).first
    }

    /// Requests statistics, at most 20 times a second, until `condition` holds.
    func stats(within limit: Duration, until condition: (PeerLine) -> Bool) -> PeerLine? {
        let end = ContinuousClock.now + limit
        var last: PeerLine?
        while ContinuousClock.now < end {
            last = stats()
            if let last, condition(last) { return last }
            // No local event announces a remote frame: pause without spinning.
            _ = seen.staysFalse(.milliseconds(50)) { _ in false }
        }
        return last
    }

    /// Ends the process. 0: it exited normally by itself.
    @discardableResult func stop() -> Int32 {
        say(PeerLine("quit"))
        return process.end(within: .seconds(20))
    }
}
