import Queues
import TestSupport
import Testing

@Suite("A ring buffer")
struct RingBufferTests {
    private func elements<Element>(_ buffer: RingBuffer<Element>) -> [Element] {
        (0..<buffer.count).compactMap { buffer[$0] }
    }

    @Test func emptyOneAnswersEverything() {
        var buffer = RingBuffer<Int>()
        #expect(buffer.isEmpty && buffer.count == 0)
        #expect(buffer.first == nil && buffer.last == nil && buffer[0] == nil && buffer.popFirst() == nil)
        buffer[0] = 1
        #expect(buffer.isEmpty)
    }

    @Test func nothingIsReadOrSetOutsideOfItsElements() {
        var buffer = RingBuffer<Int>()
        for number in 0..<3 { buffer.append(number) }
        for index in [Int.min, -1, 3, 7, 8, Int.max] {
            #expect(buffer[index] == nil)
            buffer[index] = 9
        }
        buffer[1] = nil
        #expect(elements(buffer) == [0, 1, 2])
        buffer[1] = 9
        #expect(elements(buffer) == [0, 9, 2])
    }

    /// Against an array, with each number of elements at each place in the ring, also where it grows.
    @Test(arguments: UInt64(0)..<20)
    func behavesLikeAnArray(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var (buffer, array) = (RingBuffer<Int>(), [Int]())
        for step in 0..<2_000 {
            // Grows for a while, then shrinks for a while.
            if Int.random(in: 0..<100, using: &random) < (step / 200 % 2 == 0 ? 60 : 40) {
                buffer.append(step)
                array.append(step)
            } else {
                #expect(buffer.popFirst() == (array.isEmpty ? nil : array.removeFirst()))
            }
            if !array.isEmpty, step % 3 == 0 {
                let index = Int.random(in: array.indices, using: &random)
                (buffer[index], array[index]) = (-step, -step)
            }
            guard elements(buffer) == array, buffer.count == array.count else {
                Issue.record("step \(step): \(elements(buffer)) instead of \(array)")
                return
            }
            #expect(buffer.first == array.first && buffer.last == array.last && buffer.isEmpty == array.isEmpty)
        }
    }

    @Test func takenElementIsReleasedAtOnce() {
        final class Element {}
        var buffer = RingBuffer<Element>()
        weak var first: Element?
        weak var second: Element?
        do {
            let (one, two) = (Element(), Element())
            (first, second) = (one, two)
            buffer.append(one)
            buffer.append(two)
        }
        #expect(first != nil && second != nil)
        buffer.popFirst()
        #expect(first == nil && second != nil)
        buffer[0] = Element()
        #expect(second == nil && buffer.count == 1)
    }

    @Test func copiesAreIndependent() {
        var buffer = RingBuffer<Int>()
        buffer.append(0)
        var copy = buffer
        copy.append(1)
        buffer.popFirst()
        #expect(elements(copy) == [0, 1] && buffer.isEmpty)
    }
}
