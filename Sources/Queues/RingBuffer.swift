/// A queue in an array that wraps around: elements are added at the end and taken at the start in constant time, amortised
/// over the growth of the array. It releases an element as soon as that is taken; its capacity stays.
///
/// Inlinable, the type itself included, because other targets keep their packets in it: else the compiler does not
/// specialise it for their types, and a packet costs ten times as much.
@usableFromInline package struct RingBuffer<Element> {
    /// Their number is a power of two, or 0. Those that hold no element are `nil`.
    @usableFromInline var slots: [Element?] = []
    /// The slot of the first element.
    @usableFromInline var head = 0
    @usableFromInline var size = 0

    @inlinable package init() {}

    @inlinable package var count: Int { size }
    @inlinable package var isEmpty: Bool { size == 0 }
    @inlinable package var first: Element? { self[0] }
    @inlinable package var last: Element? { self[size - 1] }

    /// The element at a distance from the first one; `nil` outside of `0..<count`, where nothing is set. An element cannot be
    /// replaced by `nil`.
    @inlinable package subscript(index: Int) -> Element? {
        get { index >= 0 && index < size ? slots[slot(index)] : nil }
        set { if index >= 0, index < size, let newValue { slots[slot(index)] = newValue } }
    }

    @inlinable package mutating func append(_ element: Element) {
        if size == slots.count { grow() }
        slots[slot(size)] = element
        size += 1
    }

    @discardableResult @inlinable package mutating func popFirst() -> Element? {
        guard size > 0 else { return nil }
        defer { (head, size) = (slot(1), size - 1) }
        return slots[head].take()
    }

    @inlinable func slot(_ index: Int) -> Int { (head &+ index) & (slots.count &- 1) }

    /// Doubles the full array and moves those elements behind the others that had wrapped around.
    @inlinable mutating func grow() {
        slots += repeatElement(nil, count: max(8, size))
        for index in 0..<head { slots.swapAt(index, size + index) }
    }
}

extension RingBuffer: Sendable where Element: Sendable {}
