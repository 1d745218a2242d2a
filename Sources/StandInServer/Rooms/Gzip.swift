internal import CGIO

enum Gzip {
    /// Decompresses gzip data (RFC 1952). Returns nil if it is damaged, truncated, or larger than `limit` bytes.
    static func decompressed(_ bytes: [UInt8], limit: Int) -> [UInt8]? {
        guard let converter = gst_decart_gunzip_new() else { return nil }
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
