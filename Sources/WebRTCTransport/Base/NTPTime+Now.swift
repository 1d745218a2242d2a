import RTP
private import Glibc

extension NTPTime {
    package static var now: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        // NTP counts from 1900.
        let seconds = UInt64(clamping: time.tv_sec) &+ 2_208_988_800
        return seconds << 32 | (UInt64(clamping: time.tv_nsec) << 32) / 1_000_000_000
    }
}
