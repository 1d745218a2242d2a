import Synchronization

final class FrameCount: Sendable {
    private let value = Atomic(0)
    func add() { value.wrappingAdd(1, ordering: .relaxed) }
    var now: Int { value.load(ordering: .relaxed) }
}
