import DecartProtocol

/// Conditions of `GET /control/wait`; a session meets all of them.
struct SessionQuery: Sendable, Equatable {
    var sessionID: String?
    var state: SessionRecord.State?
    /// Frames sent; with `look`, since the look began.
    var frames: Int?
    /// A prompt or an image's prompt that the client has sent.
    var prompt: String?
    /// Name of the present look's style.
    var look: String?
    /// Seconds.
    var timeout = 10.0

    static let maximumTimeout = 600.0

    init(_ items: [(name: String, value: String)]) throws(StandInError) {
        for (name, value) in items {
            switch name {
            case "session": sessionID = value
            case "state":
                guard let state = SessionRecord.State(rawValue: value) else {
                    throw StandInError("state is \(Self.list(SessionRecord.State.allCases.map(\.rawValue)))")
                }
                self.state = state
            case "frames":
                guard let number = Int(value), (0...1_000_000_000).contains(number) else {
                    throw StandInError("frames is a number from 0 to 1000000000")
                }
                frames = number
            case "prompt":
                guard value.utf8.count <= 16_384 else { throw StandInError("prompt is longer than 16384 bytes") }
                prompt = value
            case "look":
                let style = Look.styleWords.first { $0.word == value }?.style.name ?? value
                guard Look.styleNames.contains(style) else {
                    throw StandInError("look is \(Self.list(Look.styleNames + Look.styleWords.map(\.word)))")
                }
                look = style
            case "timeout":
                guard let seconds = Double(value), seconds.isFinite, (0...Self.maximumTimeout).contains(seconds) else {
                    throw StandInError("timeout is a number of seconds from 0 to 600")
                }
                timeout = seconds
            default:
                throw StandInError(
                    "there is no \"\(LogText.clean(name))\": it is session, state, frames, prompt, look or timeout")
            }
        }
    }

    private static func list(_ words: [String]) -> String {
        words.dropLast().joined(separator: ", ") + " or " + (words.last ?? "")
    }

    /// Viewers are sessions of their own only if the query names them.
    private func selects(_ record: SessionRecord) -> Bool {
        sessionID.map { $0 == record.sessionID } ?? !record.isViewer
    }

    func isMet(by record: SessionRecord) -> Bool {
        guard selects(record), state.map({ $0 == record.state }) ?? true,
            look.map({ $0 == record.look?.style.name }) ?? true,
            prompt.map({ record.prompts.contains($0) }) ?? true
        else { return false }
        return frames.map { (look == nil ? record.frames.sent : record.sentWithLook) >= $0 } ?? true
    }

    /// The latest session that meets the conditions.
    func first(in records: [SessionRecord]) -> SessionRecord? { records.last(where: isMet) }

    /// The latest session that the query can mean.
    func candidate(in records: [SessionRecord]) -> SessionRecord? { records.last(where: selects) }
}
