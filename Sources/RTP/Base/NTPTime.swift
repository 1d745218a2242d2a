/// NTP times, 32.32 fixed point, as in sender reports (RFC 3550 section 4).
package enum NTPTime {
    package static func nanoseconds(_ time: UInt64) -> Int64 {
        Int64(time >> 32) * 1_000_000_000 + Int64(((time & 0xffff_ffff) * 1_000_000_000) >> 32)
    }
}
