import NIOCore

extension TimeAmount {
    init(seconds: Double) {
        self = .nanoseconds(Int64(clamping: Int((min(max(seconds, 0), 1_000_000) * 1e9).rounded())))
    }
}
