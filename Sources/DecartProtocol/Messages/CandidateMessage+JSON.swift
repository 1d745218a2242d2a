extension CandidateMessage {
    /// Largest text accepted from a peer, in bytes.
    package static let maximumSize = 8192

    /// Encodes the candidate alone, as an `RTCIceCandidateInit`.
    package func encodedInit() throws(ProtocolError) -> [UInt8] { try JSONText.encode(Init(value: self)) }

    package init(decodingInit bytes: [UInt8]) throws(ProtocolError) {
        self = try JSONText.read(bytes, maximumSize: Self.maximumSize) { try CandidateMessage($0) }
    }

    private struct Init: Encodable {
        let value: CandidateMessage

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: WireKey.self)
            try value.encode(into: &container)
        }
    }

    fileprivate init(_ container: KeyedDecodingContainer<WireKey>) throws {
        self.init(
            candidate: try container.decode(String.self, forKey: "candidate"), sdpMid: container.text("sdpMid"),
            sdpMLineIndex: container.integer("sdpMLineIndex"), usernameFragment: container.text("usernameFragment"))
    }

    fileprivate func encode(into container: inout KeyedEncodingContainer<WireKey>) throws {
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
    func candidate() throws -> CandidateMessage? {
        if try decodeNil(forKey: "candidate") { return nil }
        return try CandidateMessage(nestedContainer(keyedBy: WireKey.self, forKey: "candidate"))
    }
}

extension KeyedEncodingContainer<WireKey> {
    mutating func encode(candidate: CandidateMessage?) throws {
        guard let candidate else { return try encodeNil(forKey: "candidate") }
        var container = nestedContainer(keyedBy: WireKey.self, forKey: "candidate")
        try candidate.encode(into: &container)
    }
}
