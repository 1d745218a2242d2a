extension Duration {
    /// Seconds of a fault or query, which may be any number.
    init(seconds: Double) { self = .seconds(min(max(seconds, 0), 1_000_000)) }
}
