import DecartElements
import Testing

/// Values that several threads set, without threads.
@Suite(.timeLimit(.minutes(1)), .indifferentToTransport) struct LatestValueTests {
    @Test func aValueIsAppliedOnce() {
        var applied: [Int] = []
        LatestValue.apply({ $0 }, of: { 1 }) { applied.append($1) }
        #expect(applied == [1])
    }

    @Test func aValueThatIsSetMeanwhileIsAppliedToo() {
        var (value, applied) = (1, [Int]())
        LatestValue.apply({ $0 }, of: { value }) { _, part in
            applied.append(part)
            if part == 1 { value = 2 }
        }
        #expect(applied == [1, 2])
    }

    /// Another thread has set it and applied that before this one applies what it had read.
    @Test func aValueOfAnotherThreadIsNotUndone() {
        var (value, effect) = (1, 0)
        LatestValue.apply({ $0 }, of: { value }) { _, part in
            if part == 1 { (value, effect) = (2, 2) }
            effect = part
        }
        #expect(effect == value)
    }

    @Test func anotherPartDoesNotMatter() {
        var (state, applied) = ((part: 1, other: 1), [Int]())
        LatestValue.apply({ $0.part }, of: { state }) { _, part in
            applied.append(part)
            state.other += 1
        }
        #expect(applied == [1] && state.other == 2)
    }
}
