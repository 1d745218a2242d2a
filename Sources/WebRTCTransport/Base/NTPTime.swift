private import Glibc

/// NTP times, 32.32 fixed point, as in sender reports (RFC 3550 section 4).
package enum NTPTime {
    package static var now: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        // NTP counts from 1900.
        let seconds = UInt64(clamping: time.tv_sec) &+ 2_208_988_800
        return seconds << 32 | (UInt64(clamping: time.tv_nsec) << 32) / 1_000_000_000
    }

    package static func nanoseconds(_ time: UInt64) -> Int64 {
        Int64(time >> 32) * 1_000_000_000 + Int64(((time & 0xffff_ffff) * 1_000_000_000) >> 32)
    }
}
