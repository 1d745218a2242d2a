/// Returns how long the body takes.
func duration(of body: () throws -> Void) rethrows -> Duration {
    let clock = ContinuousClock()
    return try clock.measure(body)
}
