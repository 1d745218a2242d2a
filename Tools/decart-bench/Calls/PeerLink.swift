import Dispatch
import Glibc
import Synchronization

/// A signalling message between the two peers of a call.
struct PeerMessage: Sendable {
    enum Kind: String, Sendable { case offer, answer, candidate, stop }

    var kind: Kind
    var text: String

    init(_ kind: Kind, _ text: String = "") { (self.kind, self.text) = (kind, text) }

    /// Encodes the message as one line: call number, word, and text with escaped line ends.
    func line(call: Int) -> String {
        let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        return "\(call) \(kind.rawValue) \(lines.joined(separator: "\u{1}"))\n"
    }

    static func parse(_ line: Substring) -> (call: Int, message: PeerMessage)? {
        let parts = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let call = Int(parts[0]), let kind = Kind(rawValue: String(parts[1])) else {
            return nil
        }
        let lines = parts[2].split(separator: "\u{1}", omittingEmptySubsequences: false)
        return (call, PeerMessage(kind, lines.joined(separator: "\r\n")))
    }
}

/// Reads lines from a file descriptor on the caller's thread until end of file.
func readLines(from descriptor: Int32, _ body: (Substring) -> Void) {
    guard let file = fdopen(descriptor, "r") else { return }
    defer { fclose(file) }
    var line: UnsafeMutablePointer<CChar>?
    var capacity = 0
    defer { free(line) }
    while true {
        let count = getline(&line, &capacity, file)
        guard count > 0, let line else { return }
        let bytes = UnsafeRawBufferPointer(start: line, count: count)
        let text = Substring(decoding: bytes, as: UTF8.self)
        body(text.last == "\n" ? text.dropLast() : text)
    }
}

/// The process of the remote peers, and the calls of this process with them.
final class FarSide: Sendable {
    private let child: Child
    private let calls = Mutex<[Int: @Sendable (PeerMessage) -> Void]>([:])
    private let counter = Atomic(0)

    init(_ implementation: Implementation) throws {
        child = try Child(["peer", "--far", implementation.rawValue])
        DispatchQueue(label: "decart-bench.peer").async { [weak self, descriptor = child.output] in
            readLines(from: descriptor) { line in
                guard let (call, message) = PeerMessage.parse(line) else { return }
                self?.calls.withLock { $0[call] }?(message)
            }
        }
    }

    /// Returns a new call's number, and a function that sends messages to its remote peer.
    func newCall() -> (number: Int, send: @Sendable (PeerMessage) -> Void) {
        let number = counter.wrappingAdd(1, ordering: .relaxed).newValue
        return (number, { [child] message in child.write(message.line(call: number)) })
    }

    func listen(to call: Int, _ handler: (@Sendable (PeerMessage) -> Void)?) { calls.withLock { $0[call] = handler } }

    /// Kills a process that does not end: webrtcbin can block for good while it stops.
    func end() {
        child.closeInput()
        let begun = ContinuousClock.now
        while !child.hasEnded {
            guard .now - begun < .seconds(10) else {
                kill(child.pid, SIGKILL)
                break
            }
            pause(.milliseconds(20))
        }
        child.wait()
    }
}
