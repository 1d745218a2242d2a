import Glibc

enum WallClock {
    /// Milliseconds since 1970.
    static var milliseconds: Int64 {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return Int64(now.tv_sec) &* 1000 &+ Int64(now.tv_nsec) / 1_000_000
    }

    /// Seconds since 1970.
    static var seconds: Int { Int(milliseconds / 1000) }
}
