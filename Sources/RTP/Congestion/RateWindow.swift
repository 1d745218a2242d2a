/// Bitrate over the last half second, in buckets of 20 ms. Times are in µs on any one clock. draft-ietf-rmcat-gcc-02
/// section 5.5 requires R_hat over 0.5 to 1 s.
package struct RateWindow: Sendable {
    private static let bucket: Int64 = 20_000
    private static let buckets = 25
    /// A longer step back, in buckets (3 s), means another clock.
    private static let stepBack: Int64 = 150
    private var bytes = [Int](repeating: 0, count: buckets)
    /// Numbers of the newest bucket and of the first one ever.
    private var newest: Int64?
    private var first: Int64 = 0
    package init() {}

    package mutating func add(_ size: Int, at time: Int64) {
        let number = time / Self.bucket
        advance(to: number)
        guard let newest, number > newest - Int64(Self.buckets), number >= 0 else { return }
        let index = Int(number % Int64(Self.buckets))
        bytes[index] = bytes[index] &+ size
    }

    /// The bitrate of the last half second, or of the last `duration` of it; nil until 100 ms have been seen.
    package mutating func bitrate(at time: Int64, over duration: Int64 = 500_000) -> Int? {
        advance(to: time / Self.bucket)
        guard let newest else { return nil }
        let seen = min(Int64(Self.buckets), duration / Self.bucket, newest - first + 1)
        guard seen * Self.bucket >= 100_000 else { return nil }
        var sum = 0
        for number in (newest - seen + 1)...newest where number >= 0 {
            sum = sum &+ bytes[Int(number % Int64(Self.buckets))]
        }
        return Int(min(1e12, Double(sum) * 8e6 / Double(seen * Self.bucket)))
    }

    private mutating func advance(to number: Int64) {
        guard let last = newest else {
            newest = number
            first = number
            return
        }
        // The clock was set back: stored buckets would never expire.
        if last - number > Self.stepBack {
            self = RateWindow()
            (newest, first) = (number, number)
            return
        }
        guard number > last else { return }
        // A pause longer than the window, or a clock that jumped, empties it.
        if number - last >= Int64(Self.buckets) {
            for index in bytes.indices { bytes[index] = 0 }
        } else {
            for empty in (last + 1)...number where empty >= 0 { bytes[Int(empty % Int64(Self.buckets))] = 0 }
        }
        newest = number
    }
}
