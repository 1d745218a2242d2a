/// A JSON key of the wire format.
struct WireKey: CodingKey, ExpressibleByStringLiteral {
    let stringValue: String
    var intValue: Int? { nil }

    init(stringLiteral value: String) { stringValue = value }
    init?(stringValue: String) { self.init(stringLiteral: stringValue) }
    init?(intValue: Int) { nil }
}

extension KeyedDecodingContainer<WireKey> {
    /// Returns a string, or nil if it is absent, null or of another type: a bad optional field never invalidates a
    /// message.
    func text(_ keys: WireKey...) -> String? {
        for key in keys {
            if let text = try? decode(String.self, forKey: key) { return text }
        }
        return nil
    }

    func flag(_ key: WireKey) -> Bool? { try? decode(Bool.self, forKey: key) }

    func number(_ key: WireKey) -> Double? {
        guard let number = try? decode(Double.self, forKey: key), number.isFinite else { return nil }
        return number
    }

    /// Returns a whole number, also if it is written as 3.0 or "3".
    func integer(_ keys: WireKey...) -> Int? {
        for key in keys {
            if let integer = try? decode(Int.self, forKey: key) { return integer }
            if let number = number(key), let integer = Int(exactly: number) { return integer }
            if let text = try? decode(String.self, forKey: key), let integer = Int(text) { return integer }
        }
        return nil
    }

    func sdp() throws -> String {
        let sdp = try decode(String.self, forKey: "sdp")
        guard !sdp.isEmpty else { throw ProtocolError(.server, "A message is malformed: sdp is empty.") }
        return sdp
    }
}
