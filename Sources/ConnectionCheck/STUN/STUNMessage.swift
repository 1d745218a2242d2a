// STUN messages (RFC 8489), as far as a binding request and a TURN allocation (RFC 8656) need them. No socket, no clock.
import Glibc
import MediaSecurity

/// A STUN message as a value. Attributes keep their order.
package struct STUNMessage: Sendable, Equatable {
    package enum Method: UInt16, Sendable { case binding = 0x001, allocate = 0x003, refresh = 0x004 }
    package enum Class: Sendable { case request, success, error }

    package struct Attribute: Sendable, Equatable {
        package var type: UInt16
        package var value: [UInt8]

        package init(_ type: UInt16, _ value: [UInt8]) {
            self.type = type
            self.value = value
        }
    }

    package enum AttributeType {
        package static let mappedAddress: UInt16 = 0x0001
        package static let username: UInt16 = 0x0006
        package static let messageIntegrity: UInt16 = 0x0008
        package static let errorCode: UInt16 = 0x0009
        package static let lifetime: UInt16 = 0x000D
        package static let realm: UInt16 = 0x0014
        package static let nonce: UInt16 = 0x0015
        package static let xorRelayedAddress: UInt16 = 0x0016
        package static let requestedTransport: UInt16 = 0x0019
        package static let xorMappedAddress: UInt16 = 0x0020
    }

    package static let headerSize = 20
    private static let cookie: [UInt8] = [0x21, 0x12, 0xA4, 0x42]

    package var method: Method
    package var messageClass: Class
    /// 12 bytes.
    package var transaction: [UInt8]
    package var attributes: [Attribute]

    package init(_ method: Method, transaction: [UInt8], attributes: [Attribute] = []) {
        self.method = method
        messageClass = .request
        self.transaction = transaction
        self.attributes = attributes
    }

    package subscript(_ type: UInt16) -> [UInt8]? { attributes.first { $0.type == type }?.value }

    // MARK: Encoding

    /// Encodes the message.
    /// - Parameter key: of the long-term credentials; adds MESSAGE-INTEGRITY.
    /// - Returns: nil if the message is too long or OpenSSL fails.
    package func encoded(key: [UInt8]? = nil) -> [UInt8]? {
        var body: [UInt8] = []
        for attribute in attributes {
            guard let size = UInt16(exactly: attribute.value.count) else { return nil }
            body += Self.bytes(attribute.type) + Self.bytes(size) + attribute.value
            body += [UInt8](repeating: 0, count: (4 - attribute.value.count % 4) % 4)
        }
        guard let key else { return header(length: body.count).map { $0 + body } }
        // RFC 8489 §14.5: the length includes MESSAGE-INTEGRITY, which the code itself does not cover.
        guard let header = header(length: body.count + 24),
            let code = MessageAuthentication.sha1(key: key, message: header + body)
        else { return nil }
        return header + body + Self.bytes(AttributeType.messageIntegrity) + Self.bytes(20) + code
    }

    private func header(length: Int) -> [UInt8]? {
        guard let length = UInt16(exactly: length), transaction.count == 12 else { return nil }
        let bits: UInt16 =
            switch messageClass {
            case .request: 0x000
            case .success: 0x100
            case .error: 0x110
            }
        return Self.bytes(method.rawValue | bits) + Self.bytes(length) + Self.cookie + transaction
    }

    private static func bytes(_ value: UInt16) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xFF)] }

    /// The key of long-term credentials (RFC 8489 §9.2.2); nil if OpenSSL has no MD5.
    package static func longTermKey(username: String, realm: String, password: String) -> [UInt8]? {
        MessageAuthentication.md5([UInt8]("\(username):\(realm):\(password)".utf8))
    }

    // MARK: Decoding

    /// Size of the message that begins with these bytes; nil if there are not enough of them.
    package static func size(of bytes: [UInt8]) -> Int? {
        bytes.count >= 4 ? headerSize + Int(bytes[2]) << 8 + Int(bytes[3]) : nil
    }

    /// Returns nil unless the bytes are exactly one request or response of a known method.
    package init?(decoding bytes: [UInt8]) {
        guard bytes.count >= Self.headerSize, Self.size(of: bytes) == bytes.count, bytes.count % 4 == 0,
            Array(bytes[4..<8]) == Self.cookie
        else { return nil }
        let type = UInt16(bytes[0]) << 8 | UInt16(bytes[1])
        guard let method = Method(rawValue: type & ~0x110) else { return nil }
        self.method = method
        switch type & 0x110 {
        case 0x000: messageClass = .request
        case 0x100: messageClass = .success
        case 0x110: messageClass = .error
        default: return nil
        }
        transaction = Array(bytes[8..<20])
        attributes = []
        var rest = bytes[20...]
        while let first = rest.first {
            guard rest.count >= 4 else { return nil }
            let head = Array(rest.prefix(4))
            let size = Int(head[2]) << 8 + Int(head[3])
            let padded = (size + 3) & ~3
            rest = rest.dropFirst(4)
            guard rest.count >= padded else { return nil }
            attributes.append(Attribute(UInt16(first) << 8 | UInt16(head[1]), Array(rest.prefix(size))))
            rest = rest.dropFirst(padded)
        }
    }

    /// The code and the reason phrase of ERROR-CODE.
    package var error: (code: Int, reason: String)? {
        guard let value = self[AttributeType.errorCode], value.count >= 4 else { return nil }
        return (Int(value[2] & 7) * 100 + Int(value[3]), String(decoding: value[4...], as: UTF8.self))
    }

    /// The address and the port of an XOR-MAPPED-ADDRESS or XOR-RELAYED-ADDRESS.
    package func xorAddress(_ type: UInt16) -> String? {
        guard let value = self[type] else { return nil }
        return address(value, mask: Self.cookie + transaction)
    }

    /// The address that the server saw, of the current or of the older attribute.
    package var mappedAddress: String? {
        xorAddress(AttributeType.xorMappedAddress)
            ?? self[AttributeType.mappedAddress].flatMap { address($0, mask: [UInt8](repeating: 0, count: 16)) }
    }

    private func address(_ value: [UInt8], mask: [UInt8]) -> String? {
        guard value.count >= 8, mask.count == 16 else { return nil }
        let port = UInt16(value[2] ^ mask[0]) << 8 | UInt16(value[3] ^ mask[1])
        let bytes = zip(value[4...], mask).map { $0 ^ $1 }
        let family = value[1] == 1 ? AF_INET : AF_INET6
        guard bytes.count == (family == AF_INET ? 4 : 16) else { return nil }
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        guard inet_ntop(family, bytes, &text, socklen_t(text.count)) != nil else { return nil }
        let host = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return family == AF_INET ? "\(host):\(port)" : "[\(host)]:\(port)"
    }
}
