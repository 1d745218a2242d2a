private import CGIO
import Glibc

enum WallClock {
    static var milliseconds: Int64 { Int64(g_get_real_time()) / 1000 }

    static var seconds: Int { Int(milliseconds / 1000) }

    /// RFC 3339, in UTC.
    static func text(_ seconds: Int) -> String {
        var (moment, parts) = (time_t(seconds), tm())
        gmtime_r(&moment, &parts)
        var text = [CChar](repeating: 0, count: 32)
        let length = strftime(&text, text.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
        return String(decoding: text.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
