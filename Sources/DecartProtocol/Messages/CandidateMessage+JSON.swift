extension CandidateMessage {
    /// Largest text accepted from a peer, in bytes.
    package static let maximumSize = 8192

    /// Encodes the candidate alone, as an `RTCIceCandidateInit`.
    package func encodedInit() throws(ProtocolError) -> [UInt8] { try JSONText.encode(self) }

    package init(decodingInit bytes: [UInt8]) throws(ProtocolError) {
        self = try JSONText.decode(CandidateMessage.self, from: bytes, maximumSize: Self.maximumSize)
    }
}

extension CandidateMessage: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: WireKey.self)
        self.init(
            candidate: try container.decode(String.self, forKey: "candidate"), sdpMid: container.text("sdpMid"),
            sdpMLineIndex: container.integer("sdpMLineIndex"), usernameFragment: container.text("usernameFragment"))
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: WireKey.self)
        try container.encode(candidate, forKey: "candidate")
        // Browsers always write both keys.
        try container.encode(sdpMid, forKey: "sdpMid")
        try container.encode(sdpMLineIndex, forKey: "sdpMLineIndex")
        try container.encodeIfPresent(usernameFragment, forKey: "usernameFragment")
    }
}

extension KeyedDecodingContainer<WireKey> {
    /// Returns the candidate of an `ice-candidate`; nil if it is null, which marks the end of candidates. An absent key is an
    /// error.
    func candidate() throws -> CandidateMessage? { try decode(CandidateMessage?.self, forKey: "candidate") }
}
