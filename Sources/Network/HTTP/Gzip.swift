internal import CGIO

/// Compression in the format of RFC 1952.
package enum Gzip {
    /// Returns nil if there is no memory for it.
    package static func compressed(_ bytes: [UInt8]) -> [UInt8]? {
        gst_decart_gzip_new().flatMap { convert(bytes, with: $0, limit: .max) }
    }

    /// Decompresses gzip data. Returns nil if it is damaged, truncated, or larger than `limit` bytes.
    package static func decompressed(_ bytes: [UInt8], limit: Int) -> [UInt8]? {
        gst_decart_gunzip_new().flatMap { convert(bytes, with: $0, limit: limit) }
    }

    /// Takes the reference to the converter.
    private static func convert(_ bytes: [UInt8], with converter: OpaquePointer, limit: Int) -> [UInt8]? {
        defer { g_object_unref(UnsafeMutableRawPointer(converter)) }
        var rest = bytes[...]
        var result: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 16_384)
        while true {
            var (read, written): (gsize, gsize) = (0, 0)
            let state = rest.withUnsafeBytes { input in
                part.withUnsafeMutableBytes { output in
                    g_converter_convert(
                        converter, input.baseAddress, gsize(input.count), output.baseAddress, gsize(output.count),
                        G_CONVERTER_INPUT_AT_END, &read, &written, nil)
                }
            }
            guard state != G_CONVERTER_ERROR, read + written > 0, Int(written) <= limit - result.count else {
                return nil
            }
            result += part.prefix(Int(written))
            if state == G_CONVERTER_FINISHED { return result }
            rest = rest.dropFirst(Int(read))
        }
    }
}
