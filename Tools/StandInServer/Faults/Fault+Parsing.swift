// Parses `NAME[:key=value,…]` to a `Fault`. The text comes from command lines, URLs and the control endpoint: each
// mistake gets an explanation, nothing traps, and quoted parts of the text are short and printable.
import DecartProtocol

extension Fault {
    package init(parsing text: String) throws(StandInError) {
        let text = text.trimmingWhitespace()
        guard text.utf8.count <= 1024 else { throw StandInError("a fault has more than 1024 bytes") }
        let colon = text.firstIndex(of: ":")
        let name = text[..<(colon ?? text.endIndex)]
        guard let kind = FaultKind(name: name) else { throw Self.unknown(String(name)) }
        self.init(kind)
        guard let colon else { return }
        var seen: Set<Key> = []
        for pair in text[text.index(after: colon)...].split(separator: ",", omittingEmptySubsequences: false) {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else {
                throw StandInError("\(kind.name): \"\(LogText.clean(String(pair)))\" is no key=value")
            }
            guard let key = Key(rawValue: String(parts[0])), Self.allowedKeys(kind).contains(key) else {
                throw StandInError(
                    "\(kind.name) has no key \"\(LogText.clean(String(parts[0])))\"; it has \(Self.list(kind))")
            }
            guard seen.insert(key).inserted else { throw StandInError("\(kind.name): \(key.rawValue) comes twice") }
            try set(key, String(parts[1]))
        }
    }

    private static func allowedKeys(_ kind: FaultKind) -> [Key] {
        // A `listener` fault acts before any connection is accepted, so it cannot count connections.
        kind.scope == .listener ? kind.keys : kind.keys + [.count, .after]
    }

    private static func list(_ kind: FaultKind) -> String {
        allowedKeys(kind).map(\.rawValue).joined(separator: ", ")
    }

    private static func unknown(_ name: String) -> StandInError {
        guard !name.isEmpty else { return StandInError("a fault needs a name") }
        // Suggest similar names: a typical mistake is only a part of a name, or another moment of the same fault.
        let near = FaultKind.all.map(\.name).filter { $0.hasPrefix(name) || name.hasPrefix($0) }.prefix(6)
        let hint = near.isEmpty ? "--help lists them" : "did you mean \(near.joined(separator: ", "))?"
        return StandInError("there is no fault \"\(LogText.clean(name))\": \(hint)")
    }

    private mutating func set(_ key: Key, _ text: String) throws(StandInError) {
        switch key {
        case .at: at = try seconds(key, text)
        case .for: self.for = try seconds(key, text)
        case .interval: interval = try seconds(key, text)
        case .delay: delay = try seconds(key, text)
        case .count: count = try number(key, text, 1...1_000_000)
        case .after: after = try number(key, text, 1...1_000_000)
        case .skip: skip = try number(key, text, 0...1_000_000)
        case .n: n = try number(key, text, kind == .ws(.hugeLength) ? 0...Int.max : 0...10_000_000)
        case .reason:
            // RFC 6455 §5.5: a close frame has room for 123 bytes.
            guard text.utf8.count <= 123, !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7f })
            else { throw StandInError("\(kind.name): reason is at most 123 printable bytes") }
            reason = text
        case .type: type = try word(key, text, of: ErrorTypes.all)
        case .output: output = Output(rawValue: try word(key, text, of: Output.allCases.map(\.rawValue)))
        case .codec: codec = RoomCodec(rawValue: try word(key, text, of: RoomCodec.allCases.map(\.rawValue)))
        }
    }

    private func word(_ key: Key, _ text: String, of words: [String]) throws(StandInError) -> String {
        guard words.contains(text) else {
            throw StandInError("\(kind.name): \(key.rawValue) is one of \(words.joined(separator: ", "))")
        }
        return text
    }

    private func seconds(_ key: Key, _ text: String) throws(StandInError) -> Double {
        guard let value = Double(text), value.isFinite, (0...86_400).contains(value) else {
            throw StandInError("\(kind.name): \(key.rawValue) is a number of seconds from 0 to 86400")
        }
        return value
    }

    private func number(_ key: Key, _ text: String, _ range: ClosedRange<Int>) throws(StandInError) -> Int {
        guard let value = Int(text), range.contains(value) else {
            throw StandInError(
                "\(kind.name): \(key.rawValue) is a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return value
    }
}
