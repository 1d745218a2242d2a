/// Base64 with padding (RFC 4648 §4).
package func base64(_ bytes: [UInt8]) -> String {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    var text: [UInt8] = []
    for start in stride(from: 0, to: bytes.count, by: 3) {
        let group = bytes[start...].prefix(3)
        let bits = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
        for digit in 0..<4 {
            text.append(digit <= group.count ? alphabet[bits >> (18 - 6 * digit) & 0x3F] : UInt8(ascii: "="))
        }
    }
    return String(decoding: text, as: UTF8.self)
}
