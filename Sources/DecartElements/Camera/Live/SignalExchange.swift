// Offers by signals of the element: the application carries them to the camera's service. It answers in its handler, or
// later by the action signal `answer-live-view`.
import DecartProtocol
import GStreamerKit
import Synchronization
import WebRTCTransport

/// The requests that the application has not answered, by number. Any thread.
final class LiveViewRequests: Sendable {
    typealias Completion = @Sendable (Structure) -> Void
    private struct State {
        var count: UInt64 = 0
        var pending: [UInt64: Completion] = [:]
    }
    private let state = Mutex(State())

    func add(_ completion: @escaping Completion) -> UInt64 {
        state.withLock { state in
            state.count &+= 1
            state.pending[state.count] = completion
            return state.count
        }
    }

    /// Returns false if the request is over.
    func answer(_ number: UInt64, _ structure: Structure) -> Bool {
        guard let completion = state.withLock({ $0.pending.removeValue(forKey: number) }) else { return false }
        completion(structure)
        return true
    }

    func remove(_ number: UInt64) { _ = state.withLock { $0.pending.removeValue(forKey: number) } }
}

// @unchecked: mutable state is in the mutex.
final class SignalExchange: OfferExchange, @unchecked Sendable {
    private static let maximumAnswer = 64 << 10
    private static let maximumID = 1024

    private struct State {
        var request: UInt64?
        var id: String?
        var isOver = false
    }
    private let state = Mutex(State())
    private let element: ElementHandle
    private let requests: LiveViewRequests
    private let view: Int
    private let onEvent: @Sendable (LiveViewMachine.Event) -> Void

    init(
        _ element: ElementHandle, _ requests: LiveViewRequests, view: Int,
        onEvent: @escaping @Sendable (LiveViewMachine.Event) -> Void
    ) {
        (self.element, self.requests, self.view, self.onEvent) = (element, requests, view, onEvent)
    }

    func start(_ offer: OfferText, candidates: [String], isComplete: Bool) {
        let text = offer.with(candidates: candidates, isComplete: isComplete)
        ask("request-live-view", with: { _ in text }) { [weak self] in self?.granted($0) }
    }

    func add(_ offer: OfferText, candidates: [String], isComplete: Bool) {}

    func extend() {
        ask("request-live-view-extension", with: { $0 }) { [weak self] in self?.extended($0) }
    }

    func end() {
        let last = state.withLock { exchange(&$0, with: State(isOver: true)) }
        if let request = last.request { requests.remove(request) }
        if let id = last.id { element.unowned.emit("live-view-ended", [GValueBox(id)]) }
    }

    /// - Parameter argument: gets the view's ID.
    private func ask(
        _ signal: String, with argument: (String?) -> String?, _ completion: @escaping LiveViewRequests.Completion
    ) {
        let number = requests.add(completion)
        let id = state.withLock { state in
            state.request = number
            return state.id
        }
        let result = element.unowned.emit(signal, [GValueBox(uint64: number), GValueBox(argument(id))])
        // The handler may have answered by the action signal already.
        if let answer = result?.structure { _ = requests.answer(number, answer) }
    }

    private func granted(_ structure: Structure) {
        do throws(LiveViewFailure) {
            if let failure = Self.failure(structure) { throw failure }
            guard let answer = structure.string("answer-sdp"), (1...Self.maximumAnswer).contains(answer.utf8.count)
            else { throw LiveViewFailure(reason: "the application returned no answer-sdp, or one of more than 64 KiB") }
            guard let id = structure.string("media-session-id"), (1...Self.maximumID).contains(id.utf8.count) else {
                throw LiveViewFailure(
                    reason: "the application returned no media-session-id, or one of more than 1024 bytes")
            }
            // Kept even if the duration is unusable: the service's view exists and has to be ended.
            let isOver = state.withLock { state in
                if !state.isOver { (state.request, state.id) = (nil, id) }
                return state.isOver
            }
            guard !isOver else {
                element.unowned.emit("live-view-ended", [GValueBox(id)])
                return
            }
            onEvent(.granted(view: view, LiveViewGrant(answer: answer, duration: try Self.duration(structure))))
        } catch {
            onEvent(.failed(view: view, error))
        }
    }

    private func extended(_ structure: Structure) {
        do throws(LiveViewFailure) {
            if let failure = Self.failure(structure) { throw failure }
            let duration = try Self.duration(structure)
            state.withLock { state in
                state.request = nil
                // The service may give the view another id.
                if let id = structure.string("media-session-id"), (1...Self.maximumID).contains(id.utf8.count) {
                    state.id = id
                }
            }
            onEvent(.extended(view: view, duration))
        } catch {
            onEvent(.extensionRefused(view: view, reason: error.reason))
        }
    }

    private static func failure(_ structure: Structure) -> LiveViewFailure? {
        guard let error = structure.string("error") else { return nil }
        return LiveViewFailure(reason: error.printable(limit: 200))
    }

    /// Seconds, an integer or a double; 0 or none: without limit.
    private static func duration(_ structure: Structure) throws(LiveViewFailure) -> Duration? {
        guard structure["duration"] != nil else { return nil }
        let (shortest, longest) = (LiveViewGrant.durations.lowerBound, LiveViewGrant.durations.upperBound)
        guard let seconds = structure.double("duration") ?? structure.int("duration").map(Double.init),
            seconds == 0 || (shortest / .seconds(1)...longest / .seconds(1)).contains(seconds)
        else {
            throw LiveViewFailure(
                reason: "the duration must be 0 or \(shortest.components.seconds) to \(longest.components.seconds) s")
        }
        return seconds == 0 ? nil : .milliseconds(Int64(seconds * 1000))
    }
}
