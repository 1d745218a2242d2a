extension CandidateMessage {
    /// Largest text accepted from a peer, in bytes.
    package static let maximumSize = 8192

    /// Encodes the candidate alone, as an `RTCIceCandidateInit`.
    package func encodedInit() throws(ProtocolError) -> [UInt8] { try JSONText.encode(Init(value: self)) }

    package init(decodingInit bytes: [UInt8]) throws(ProtocolError) {
        self = try JSONText.decode(Init.self, from: bytes, maximumSize: Self.maximumSize).value
    }

    private struct Init: Codable {
        let value: CandidateMessage

        init(value: CandidateMessage) { self.value = value }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: WireKey.self)
            value = CandidateMessage(
                candidate: try container.decode(String.self, forKey: "candidate"), sdpMid: container.text("sdpMid"),
                sdpMLineIndex: container.integer("sdpMLineIndex"),
                usernameFragment: container.text("usernameFragment"))
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: WireKey.self)
            try container.encode(value.candidate, forKey: "candidate")
            try container.encode(value.sdpMid, forKey: "sdpMid")
            try container.encode(value.sdpMLineIndex, forKey: "sdpMLineIndex")
            try container.encodeIfPresent(value.usernameFragment, forKey: "usernameFragment")
        }
    }
}

extension KeyedDecodingContainer<WireKey> {
    /// Returns the candidate of an `ice-candidate`; nil if it is null.
    func candidate() throws -> CandidateMessage? {
        // null marks the end of candidates; an absent key is an error.
        if try decodeNil(forKey: "candidate") { return nil }
        let container = try nestedContainer(keyedBy: WireKey.self, forKey: "candidate")
        return CandidateMessage(
            candidate: try container.decode(String.self, forKey: "candidate"),
            sdpMid: container.text("sdpMid"),
            sdpMLineIndex: container.integer("sdpMLineIndex"),
            usernameFragment: container.text("usernameFragment"))
    }
}

extension KeyedEncodingContainer<WireKey> {
    mutating func encode(candidate: CandidateMessage?) throws {
        guard let candidate else {
            try encodeNil(forKey: "candidate")
            return
        }
        var container = nestedContainer(keyedBy: WireKey.self, forKey: "candidate")
        try container.encode(candidate.candidate, forKey: "candidate")
        // Browsers always write both keys.
        try container.encode(candidate.sdpMid, forKey: "sdpMid")
        try container.encode(candidate.sdpMLineIndex, forKey: "sdpMLineIndex")
        try container.encodeIfPresent(candidate.usernameFragment, forKey: "usernameFragment")
    }
}
