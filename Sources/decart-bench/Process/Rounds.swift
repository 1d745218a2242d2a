/// Runs the contenders in turns, and returns the microseconds of each repetition, by contender and round.
func timed(_ contenders: [(repetitions: Int, turn: () -> Void)], rounds: Int) -> [[Double]] {
    var times = Array(repeating: [Double](), count: contenders.count)
    for _ in 0..<rounds {
        for (index, contender) in contenders.enumerated() {
            for _ in 0..<2 { contender.turn() }
            let begun = ContinuousClock.now
            for _ in 0..<contender.repetitions { contender.turn() }
            times[index].append((.now - begun).milliseconds * 1000 / Double(contender.repetitions))
        }
    }
    return times
}
