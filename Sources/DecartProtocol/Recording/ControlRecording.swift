// The control channel of a session without secrets: `decart-check --record` writes it, `decart-standin --replay` reads
// it. A recording is a text with one JSON object a line.

package struct ControlRecording: Sendable, Equatable {
    /// Largest text, in bytes.
    package static let maximumSize = 16 << 20
    package static let maximumEntryCount = 20_000
    /// Bytes of the reason of a failure.
    package static let maximumReasonSize = 4096
    package static let maximumAttempt = 10_000
    /// Milliseconds: one week.
    package static let maximumTime = 7 * 24 * 3600 * 1000

    package enum Event: Sendable, Equatable {
        /// The service has accepted the channel.
        case opened
        /// The client sent a message; only its type is recorded.
        case sent(type: String)
        case received(Message)
        /// The service closed the channel; nil: without a code.
        case closed(code: Int?, reason: String)
        /// The channel failed, or was refused with this HTTP status; the reason is a text for people.
        case failed(httpStatus: Int?, reason: String)
        /// The client closed the channel.
        case left
    }

    package enum Message: Sendable, Equatable {
        /// Everything but secrets. The prompt of an acknowledgement is a `PromptName`.
        case plain(ServerMessage)
        /// A message whose content belongs to one session: a replay makes it again.
        case made(Kind)
        /// Text that is no message.
        case malformed

        package enum Kind: String, Sendable, CaseIterable {
            case offer, answer
            case candidate = "ice-candidate"
            case roomInfo = "livekit_room_info"
            case sessionID = "session_id"
            case turnConfig = "turn_config"
        }
    }

    package struct Entry: Sendable, Equatable {
        /// Counted from 1: a reconnect opens another channel.
        package var attempt: Int
        /// Milliseconds since the start of the recording.
        package var time: Int
        package var event: Event

        package init(attempt: Int, time: Int, event: Event) {
            self.attempt = attempt
            self.time = time
            self.event = event
        }
    }

    package var entries: [Entry]

    package init(_ entries: [Entry]) { self.entries = entries }
}

/// The name that stands for the text of a prompt in a recording: the number of the prompt in its channel.
package enum PromptName {
    package static let other = "another-prompt"

    package static func name(_ number: Int) -> String { "prompt-\(number)" }

    /// The number of the prompt, from 1; nil for `other` and anything else.
    package static func number(_ name: String) -> Int? {
        guard name.hasPrefix("prompt-") else { return nil }
        return Int(name.dropFirst("prompt-".count)).flatMap { $0 > 0 ? $0 : nil }
    }
}

/// The first line that is not as it should be.
package struct ControlRecordingError: Error, Sendable, Equatable, CustomStringConvertible {
    package let line: Int
    package let reason: String

    package init(line: Int, reason: String) {
        self.line = line
        self.reason = reason
    }

    package var description: String { "line \(line): \(reason)" }
}

extension ControlRecording {
    private static let kind = "decart-control"
    private static let format = 1

    package func encoded() throws(ProtocolError) -> String {
        var text = try Self.line(Header(recording: Self.kind, format: Self.format))
        for entry in entries { text += try Self.line(Line(entry)) }
        return text
    }

    private static func line(_ value: some Encodable) throws(ProtocolError) -> String {
        String(decoding: try JSONText.encode(value), as: UTF8.self) + "\n"
    }

    package init(parsing bytes: [UInt8]) throws(ControlRecordingError) {
        entries = []
        var number = 0
        var hasHeader = false
        for bytes in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            number += 1
            if bytes.allSatisfy({ $0 == 0x20 || $0 == 0x0D || $0 == 0x09 }) { continue }
            func fail(_ reason: String) -> ControlRecordingError { ControlRecordingError(line: number, reason: reason) }
            do throws(ProtocolError) {
                if hasHeader {
                    entries.append(try Self.entry([UInt8](bytes)))
                } else {
                    try Self.checkHeader([UInt8](bytes))
                    hasHeader = true
                }
            } catch {
                throw fail(error.message)
            }
            guard entries.count <= Self.maximumEntryCount else {
                throw fail("there are more than \(Self.maximumEntryCount) entries")
            }
        }
        guard hasHeader, !entries.isEmpty else {
            throw ControlRecordingError(line: max(number, 1), reason: "there is no entry")
        }
    }

    private static func checkHeader(_ bytes: [UInt8]) throws(ProtocolError) {
        let header = try? JSONText.decode(Header.self, from: bytes, maximumSize: ServerMessage.maximumSize)
        guard let header, header.recording == kind else {
            throw invalid("this is no recording of decart-check --record")
        }
        guard header.format == format else {
            throw invalid("the format is \(header.format), and this version reads \(format)")
        }
    }

    private static func entry(_ bytes: [UInt8]) throws(ProtocolError) -> Entry {
        let line = try JSONText.decode(Line.self, from: bytes, maximumSize: ServerMessage.maximumSize)
        guard (1...maximumAttempt).contains(line.attempt) else {
            throw invalid("attempt is a number from 1 to \(maximumAttempt)")
        }
        guard (0...maximumTime).contains(line.ms) else { throw invalid("ms is a number from 0 to \(maximumTime)") }
        return Entry(attempt: line.attempt, time: line.ms, event: try line.decodedEvent())
    }

    fileprivate static func invalid(_ reason: String) -> ProtocolError { ProtocolError(.invalidInput, reason) }
}

private struct Header: Codable {
    var recording: String
    var format: Int
}

/// One line: the names are the file format, which docs/REPLAY.md describes.
private struct Line: Codable {
    var attempt: Int
    var ms: Int
    var event: String
    var type: String?
    var message: MessageField?
    var code: Int?
    var reason: String?
    var status: Int?

    init(_ entry: ControlRecording.Entry) {
        attempt = entry.attempt
        ms = entry.time
        switch entry.event {
        case .opened: event = "opened"
        case .sent(let type):
            event = "sent"
            self.type = type
        case .received(let message):
            event = "received"
            self.message = MessageField(message: message)
        case .closed(let code, let reason):
            event = "closed"
            self.code = code
            self.reason = reason
        case .failed(let status, let reason):
            event = "failed"
            self.status = status
            self.reason = reason
        case .left: event = "left"
        }
    }

    func decodedEvent() throws(ProtocolError) -> ControlRecording.Event {
        switch event {
        case "opened": return .opened
        case "sent":
            guard let type else { throw ControlRecording.invalid("type is missing") }
            return .sent(type: type)
        case "received":
            guard let message else { throw ControlRecording.invalid("message is missing") }
            return .received(message.message)
        case "closed":
            // RFC 6455 §7.4: codes that a peer may send. A control frame has at most 125 bytes, two of them the code.
            guard code.map({ (1000...4999).contains($0) }) ?? true else {
                throw ControlRecording.invalid("code is a number from 1000 to 4999")
            }
            guard (reason ?? "").utf8.count <= 123 else {
                throw ControlRecording.invalid("reason has more than 123 bytes")
            }
            return .closed(code: code, reason: reason ?? "")
        case "failed":
            guard status.map({ (100...599).contains($0) }) ?? true else {
                throw ControlRecording.invalid("status is a number from 100 to 599")
            }
            guard (reason ?? "").utf8.count <= ControlRecording.maximumReasonSize else {
                throw ControlRecording.invalid("reason has more than \(ControlRecording.maximumReasonSize) bytes")
            }
            return .failed(httpStatus: status, reason: reason ?? "")
        case "left": return .left
        default: throw ControlRecording.invalid("event is opened, sent, received, closed, failed or left")
        }
    }
}

private struct MessageField: Codable {
    var message: ControlRecording.Message
    private static let malformed = "malformed"

    init(message: ControlRecording.Message) { self.message = message }

    init(from decoder: any Decoder) throws {
        let type = try decoder.container(keyedBy: WireKey.self).decode(String.self, forKey: "type")
        if type == Self.malformed {
            message = .malformed
        } else if let kind = ControlRecording.Message.Kind(rawValue: type) {
            message = .made(kind)
        } else {
            message = .plain(try ServerMessage(from: decoder))
        }
    }

    func encode(to encoder: any Encoder) throws {
        switch message {
        case .plain(let message): try message.encode(to: encoder)
        case .made(let kind): try encode(type: kind.rawValue, to: encoder)
        case .malformed: try encode(type: Self.malformed, to: encoder)
        }
    }

    private func encode(type: String, to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: WireKey.self)
        try container.encode(type, forKey: "type")
    }
}

extension ClientMessage {
    /// The prompts in the message, which `PromptName` counts.
    package var promptTexts: [String] {
        switch self {
        case .prompt(let prompt): [prompt.text]
        case .setImage(let image): if case .prompt(let text) = image.text { [text] } else { [] }
        case .livekitJoin(let join): join.initialState?.message.promptTexts ?? []
        case .offer, .answer, .iceCandidate, .unknown: []
        }
    }
}
