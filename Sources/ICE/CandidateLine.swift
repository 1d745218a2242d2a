// Validates remote candidates before libnice parses them: libnice only receives lines that this file has serialised.

/// A remote candidate, validated against RFC 8839 §5.1 and against what this agent supports.
package struct CandidateLine: Sendable, Equatable {
    package enum Rejection: Error, Equatable {
        case malformed
        /// The address is an mDNS name (`.local`), which resolves only in the peer's own network.
        case mdns
        /// The line is well-formed but unsupported: another component, TCP that is not passive, a host name, or an address
        /// that must not be contacted.
        case unusable
    }

    package enum Transport: Sendable {
        case udp
        /// RFC 6544: the remote peer listens. Its active candidates need no answer, and both sides of a simultaneous open
        /// would have to support it.
        case passiveTCP
    }

    package let transport: Transport
    package let foundation: String
    package let priority: UInt32
    package let address: String
    package let port: UInt16
    package let type: String
    package let relatedAddress: String?
    package let relatedPort: UInt16?
    /// The extension `ufrag` of browsers and pion names the ICE session that the candidate belongs to.
    package let usernameFragment: String?

    /// - Parameter text: "candidate:…" or "a=candidate:…", optionally followed by CR LF.
    package static func parse(_ text: String) throws(Rejection) -> CandidateLine {
        guard text.utf8.count <= 1_024 else { throw .malformed }
        var line = Substring(text)
        while let last = line.unicodeScalars.last, last == "\r" || last == "\n" || last == " " {
            line.unicodeScalars.removeLast()
        }
        guard line.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }) else { throw .malformed }
        if line.hasPrefix("a=") { line = line.dropFirst(2) }
        guard line.hasPrefix("candidate:") else { throw .malformed }
        let fields = line.dropFirst(10).split(separator: " ")
        guard fields.count >= 8, fields[6] == "typ" else { throw .malformed }

        let foundation = fields[0]
        guard (1...32).contains(foundation.utf8.count), foundation.utf8.allSatisfy(\.isICECharacter) else {
            throw .malformed
        }
        guard let component = UInt16(fields[1]), (1...256).contains(component) else { throw .malformed }
        // RFC 8445 §5.1.2: 1 to 2^31 - 1. libnice before 0.1.23 accepts 0 and then fails on it.
        guard let priority = UInt32(fields[3]), (1...0x7fff_ffff).contains(priority) else { throw .malformed }
        guard let port = UInt16(fields[5]) else { throw .malformed }
        let type = fields[7].lowercased()
        guard ["host", "srflx", "prflx", "relay"].contains(type) else { throw .malformed }

        // The line is well-formed; the remaining checks decide if the agent can use it.
        guard component == 1, let transport = parseTransport(fields[2].lowercased(), fields.dropFirst(8)) else {
            throw .unusable
        }
        guard let address = IPAddress(String(fields[4])) else {
            throw fields[4].lowercased().hasSuffix(".local") ? .mdns : .unusable
        }
        guard port > 0, address.isUnicast, !(address.isIPv6 && address.isLinkLocal) else { throw .unusable }

        var related: (address: String, port: UInt16)?
        if fields.count >= 12, fields[8] == "raddr", fields[10] == "rport",
            IPAddress(String(fields[9])) != nil, let port = UInt16(fields[11])
        {
            related = (String(fields[9]), port)
        }
        return CandidateLine(
            transport: transport, foundation: String(foundation), priority: priority, address: String(fields[4]),
            port: port, type: type,
            relatedAddress: related?.address, relatedPort: related?.port,
            usernameFragment: usernameFragment(in: line))
    }

    private static func parseTransport(_ name: String, _ extensions: ArraySlice<Substring>) -> Transport? {
        switch name {
        case "udp": .udp
        case "tcp" where value(of: "tcptype", in: extensions)?.lowercased() == "passive": .passiveTCP
        default: nil
        }
    }

    /// Returns the value of the extension `ufrag` of a candidate in any state of validity.
    package static func usernameFragment(in text: some StringProtocol) -> String? {
        guard text.utf8.count <= 1_024 else { return nil }
        return value(of: "ufrag", in: text.split(separator: " ").dropFirst(8)).map { String($0) }
    }

    private static func value<Text: StringProtocol>(of name: String, in extensions: ArraySlice<Text>) -> Text? {
        guard let index = extensions.firstIndex(where: { $0 == name }), index + 1 < extensions.endIndex else {
            return nil
        }
        return extensions[index + 1]
    }

    /// The candidate as an SDP attribute. libnice's parser requires the "a=" prefix.
    package var sdpAttribute: String {
        let (name, end) = transport == .udp ? ("UDP", "") : ("TCP", " tcptype passive")
        var text = "a=candidate:\(foundation) 1 \(name) \(priority) \(address) \(port) typ \(type)"
        if let relatedAddress, let relatedPort { text += " raddr \(relatedAddress) rport \(relatedPort)" }
        return text + end
    }
}

extension UInt8 {
    /// RFC 8839 §5.1, `ice-char`.
    var isICECharacter: Bool { isLetterOrDigit || self == UInt8(ascii: "+") || self == UInt8(ascii: "/") }

    /// True for an ASCII letter or digit.
    var isLetterOrDigit: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }
}
