// The parts of an SDP that a report shows: media, codecs, header extensions and candidate types. Everything else, such as
// credentials, fingerprints and addresses, is left out, because only the listed attributes are read.
package import DecartProtocol

package struct SDPFacts: Sendable, Equatable {
    package struct Media: Sendable, Equatable {
        package var kind: String
        package var direction: String?
        package var codecs: [String] = []
        package var extensions: [String] = []
        package var feedback: [String] = []
        package var setup: String?
    }

    package var media: [Media] = []
    /// Number of candidates of each type and transport, such as "host udp".
    package var candidates: [String: Int] = [:]
    package var isLite = false
    package var isBundled = false

    private static let directions = ["sendrecv", "sendonly", "recvonly", "inactive"]

    package init(_ sdp: String) {
        for line in sdp.split(whereSeparator: \.isNewline).prefix(5000) {
            if line.hasPrefix("m=") {
                media.append(Media(kind: Self.word(line.dropFirst(2).prefix { $0 != " " })))
            } else if line.hasPrefix("a=") {
                attribute(line.dropFirst(2))
            }
        }
    }

    private mutating func attribute(_ line: Substring) {
        let name = line.prefix { $0 != ":" }
        let value = line.dropFirst(name.count + 1)
        let words = value.split(separator: " ")
        switch name {
        case "candidate": add(candidate: String(line))
        case "ice-lite": isLite = true
        case "group": isBundled = isBundled || value.hasPrefix("BUNDLE")
        case "rtpmap" where words.count > 1: change { $0.codecs.append(Self.word(words[1])) }
        case "extmap" where words.count > 1: change { $0.extensions.append(Self.word(words[1])) }
        case "rtcp-fb" where words.count > 1:
            let feedback = words.dropFirst().map { Self.word($0) }.joined(separator: " ")
            change { if !$0.feedback.contains(feedback) { $0.feedback.append(feedback) } }
        case "setup": change { $0.setup = Self.word(value) }
        case _ where Self.directions.contains(String(name)): change { $0.direction = String(name) }
        default: break
        }
    }

    private mutating func change(_ body: (inout Media) -> Void) {
        guard !media.isEmpty else { return }
        body(&media[media.count - 1])
    }

    package mutating func add(candidate: String) {
        if let type = Self.type(ofCandidate: candidate) { candidates[type, default: 0] += 1 }
    }

    /// Such as "srflx udp"; nil if the line has no type.
    package static func type(ofCandidate line: String) -> String? {
        let words = line.split(separator: " ")
        guard words.count >= 8, words[6] == "typ" else { return nil }
        let kind = word(words[7])
        let name = words[4].hasSuffix(".local") ? "\(kind) mdns" : kind
        return "\(name) \(word(words[2]).lowercased())"
    }

    /// A word of the SDP's grammar, shortened; the rest could be anything.
    private static func word(_ text: Substring) -> String {
        let allowed = text.utf8.allSatisfy { $0.isAlphanumeric(or: "-_./:+#") }
        return allowed && text.utf8.count <= 100 ? String(text) : "<other>"
    }

    package var json: JSONValue {
        func strings(_ values: [String]) -> JSONValue { .array(values.map { .string($0) }) }
        return .fields([
            "media": .array(
                media.map {
                    .fields([
                        "kind": .string($0.kind), "direction": $0.direction.map { .string($0) },
                        "codecs": strings($0.codecs), "header-extensions": strings($0.extensions),
                        "feedback": strings($0.feedback), "setup": $0.setup.map { .string($0) },
                    ])
                }),
            "candidates": .object(
                candidates.sorted { $0.key < $1.key }.map { JSONValue.Field($0.key, .integer($0.value)) }),
            "ice-lite": .bool(isLite), "bundle": .bool(isBundled),
        ])
    }
}
