import EventLoopThreads
import Synchronization

/// Waits until a session meets a query, without a thread of its own.
// @unchecked: used on the thread of its connection only, except `isDue`.
final class SessionWait: @unchecked Sendable {
    private let query: SessionQuery
    private let board: SessionBoard
    private let finish: (_ isMet: Bool, SessionRecord?) -> Void
    private var observer: Int?
    private var deadline: NetworkTimer?
    /// A check is scheduled, and later changes share it.
    private let isDue = Atomic(false)

    /// Waiting requests at the same time; each is called at every frame.
    static let maximumCount = 64

    init(
        _ query: SessionQuery, _ board: SessionBoard, finish: @escaping (_ isMet: Bool, SessionRecord?) -> Void
    ) {
        (self.query, self.board, self.finish) = (query, board, finish)
    }

    func start(on thread: NetworkThread) {
        deadline = thread.later(after: Duration(seconds: query.timeout)) { self.check(isLate: true) }
        observer = board.observe {
            // Several changes, such as those of many sessions' frames, share a check.
            guard !self.isDue.exchange(true, ordering: .acquiringAndReleasing) else { return }
            thread.schedule(after: .milliseconds(2)) {
                self.isDue.store(false, ordering: .releasing)
                self.check(isLate: false)
            }
        }
        check(isLate: query.timeout == 0)
    }

    func cancel() {
        deadline?.cancel()
        deadline = nil
        if let observer { board.removeObserver(observer) }
        observer = nil
    }

    private func check(isLate: Bool) {
        guard observer != nil else { return }
        let records = board.records
        if let record = query.first(in: records) {
            cancel()
            finish(true, record)
        } else if isLate {
            cancel()
            finish(false, query.candidate(in: records))
        }
    }
}
