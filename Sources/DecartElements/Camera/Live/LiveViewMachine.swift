// The live views of one camera, one after the other, as a value: offer, answer, extension before the end of the granted
// duration, and the next view after a failure or an end. It knows no connection, clock or thread.
import DecartProtocol
import DecartSession

/// The answer of a camera's service to an offer.
package struct LiveViewGrant: Sendable, Equatable {
    package var answer: String
    /// nil: without limit.
    package var duration: Duration?

    /// The durations that a service may grant.
    package static let durations: ClosedRange<Duration> = .seconds(2)...(.seconds(30 * 86_400))

    package init(answer: String, duration: Duration? = nil) { (self.answer, self.duration) = (answer, duration) }
}

package struct LiveViewFailure: Error, Sendable, Equatable {
    /// A sentence without its final point.
    package let reason: String
    /// Wait that the service requests.
    package var retryAfter: Duration?
    /// The service refused an offer with audio, and may take one without.
    package var mayBeAudio = false
    /// The camera's side ended the connection.
    package var isClose = false

    package init(reason: String, retryAfter: Duration? = nil, mayBeAudio: Bool = false, isClose: Bool = false) {
        (self.reason, self.retryAfter) = (reason.withoutFinalPoint, retryAfter)
        (self.mayBeAudio, self.isClose) = (mayBeAudio, isClose)
    }
}

package struct LiveViewMachine: Sendable {
    package enum Timer: Sendable, CaseIterable {
        /// Candidates are gathered for the offer.
        case gathering
        case answer
        /// Time to look whether frames arrive.
        case frames
        /// Time to ask for an extension.
        case extending
        /// The granted duration is over.
        case expiry
        case retry
    }

    /// Events of a view carry its number; those of a view that is over are ignored.
    package enum Event: Sendable {
        case start
        case gathered(view: Int)
        case granted(view: Int, LiveViewGrant)
        /// The service has answered, with TURN servers that the offer's candidates do not have.
        case relaysNamed(view: Int)
        case failed(view: Int, LiveViewFailure)
        case firstFrame(view: Int)
        /// The new duration counts from now; nil: without limit.
        case extended(view: Int, Duration?)
        case extensionRefused(view: Int, reason: String)
        /// The camera has audio, which is wanted and cannot be received.
        case audioUnusable(view: Int, reason: String)
        /// The application asks for an extension now.
        case extend
        /// - Parameter frames: number of frames so far; nil: none are due, because the element does not play.
        case fired(Timer, id: Int, frames: UInt64?)
        case stop
    }

    package enum State: String, Sendable {
        /// A view is being offered, and its service has not answered.
        case requesting
        case connecting
        case live
        /// Until the next view begins.
        case waiting
        case ended
    }

    package struct Report: Sendable, Equatable {
        package var state: State
        /// Time until the next view begins.
        package var delay: Duration?
        /// Granted duration from now on.
        package var duration: Duration?
        package var reason: String?

        package init(state: State, delay: Duration? = nil, duration: Duration? = nil, reason: String? = nil) {
            (self.state, self.delay, self.duration, self.reason) = (state, delay, duration, reason)
        }
    }

    package enum Action: Sendable, Equatable {
        /// Make a connection and its offer.
        case open(view: Int)
        /// As `open`, with an offer of video alone.
        case openWithoutAudio(view: Int)
        /// Hand the offer to the service.
        case request(view: Int)
        /// Apply the answer.
        case connect(view: Int, LiveViewGrant)
        case extend(view: Int)
        /// Close the connection, and end the view at its service.
        case close(view: Int)
        case schedule(Timer, id: Int, after: Duration)
        case report(Report)
        case warn(String)
    }

    package static let answerLimit = Duration.seconds(30)
    package static let firstFrameLimit = Duration.seconds(15)
    package static let silenceLimit = Duration.seconds(5)
    /// Time between two looks at the number of frames, by which silence may be noticed later.
    package static let lookInterval = Duration.milliseconds(500)
    private static let longestLead = Duration.seconds(30)

    private enum Phase: Equatable {
        case idle, waiting, gathering, requested, connecting
        case live
    }

    private let gatheringLimit: Duration
    private var phase = Phase.idle
    private var view = 0
    private var isExtending = false
    /// Has been reported; the views after it are those of the same camera.
    private var causeOfSilence: String?
    /// Number of frames at the last look, and when it had changed.
    private var lastFrames: (count: UInt64?, at: Duration) = (nil, .zero)
    private var timers: [Timer: Int] = [:]
    private var timerCount = 0
    private var backOff = BackOff(maximumDelay: .seconds(10))

    /// - Parameter gatheringLimit: longest time that the offer waits for candidates.
    package init(gatheringLimit: Duration) { self.gatheringLimit = gatheringLimit }

    /// The lead of a request for an extension before the end: a third of the duration, at most 30 s.
    package static func lead(_ duration: Duration) -> Duration { min(duration / 3, longestLead) }

    /// - Parameter jitter: 0…1, a random number.
    package mutating func handle(_ event: Event, now: Duration, jitter: Double) -> [Action] {
        switch event {
        case .start:
            return phase == .idle ? begin() : []
        case .gathered(let number):
            return number == view && phase == .gathering ? request() : []
        case .granted(let number, let grant):
            return number == view && phase == .requested ? connect(grant) : []
        case .relaysNamed(let number):
            guard number == view, phase == .requested else { return [] }
            return [.close(view: number)] + begin()
        case .firstFrame(let number):
            guard number == view, phase == .connecting else { return [] }
            (phase, lastFrames) = (.live, (nil, now))
            // The camera is there, so the next waits are short again.
            backOff.reset()
            return [schedule(.frames, Self.lookInterval), .report(Report(state: .live))]
        case .failed(let number, let failure):
            guard number == view, phase != .idle, phase != .waiting else { return [] }
            if failure.mayBeAudio, phase == .requested { return beginWithoutAudio(failure) }
            let hasNoFrame = failure.isClose && phase == .connecting
            return lose(hasNoFrame ? LiveViewFailure(reason: failure.reason + Self.causeOfClose) : failure, jitter)
        case .extended(let number, let duration):
            guard number == view, isExtending else { return [] }
            isExtending = false
            return limit(duration) + [.report(Report(state: .live, duration: duration))]
        case .extensionRefused(let number, let reason):
            guard number == view, isExtending else { return [] }
            isExtending = false
            return [.warn("The live view is not extended: \(reason). A new one begins at its end.")]
        case .audioUnusable(let number, let reason):
            guard number == view, phase != .idle, phase != .waiting, reason != causeOfSilence else { return [] }
            causeOfSilence = reason
            return [.warn("The camera stays without audio: \(reason).")]
        case .extend:
            guard phase == .live, timers[.expiry] != nil else { return [] }
            return extend()
        case .fired(let timer, let id, let frames):
            guard timers[timer] == id else { return [] }
            timers[timer] = nil
            return fired(timer, frames, now, jitter)
        case .stop:
            let isOpen = phase != .idle && phase != .waiting
            (phase, timers, isExtending) = (.idle, [:], false)
            return (isOpen ? [.close(view: view)] : []) + [.report(Report(state: .ended))]
        }
    }

    private mutating func begin(withoutAudio: Bool = false) -> [Action] {
        view &+= 1
        (phase, timers, isExtending) = (.gathering, [:], false)
        return [
            .report(Report(state: .requesting)), withoutAudio ? .openWithoutAudio(view: view) : .open(view: view),
            schedule(.gathering, gatheringLimit),
        ]
    }

    /// A server that has no codec for the audio refuses the video too.
    private mutating func beginWithoutAudio(_ failure: LiveViewFailure) -> [Action] {
        let refused = view
        return [
            .close(view: refused),
            .warn(
                "The offer with audio failed: \(failure.reason). The next one has none: the camera stays without audio."
            ),
        ] + begin(withoutAudio: true)
    }

    private mutating func request() -> [Action] {
        (phase, timers[.gathering]) = (.requested, nil)
        return [schedule(.answer, Self.answerLimit), .request(view: view)]
    }

    private mutating func connect(_ grant: LiveViewGrant) -> [Action] {
        (phase, timers[.answer]) = (.connecting, nil)
        return limit(grant.duration) + [
            schedule(.frames, Self.firstFrameLimit),
            .report(Report(state: .connecting, duration: grant.duration)), .connect(view: view, grant),
        ]
    }

    private mutating func limit(_ duration: Duration?) -> [Action] {
        (timers[.extending], timers[.expiry]) = (nil, nil)
        guard let duration else { return [] }
        return [schedule(.extending, duration - Self.lead(duration)), schedule(.expiry, duration)]
    }

    private mutating func extend() -> [Action] {
        guard !isExtending else { return [] }
        isExtending = true
        timers[.extending] = nil
        return [.extend(view: view)]
    }

    private mutating func fired(_ timer: Timer, _ frames: UInt64?, _ now: Duration, _ jitter: Double) -> [Action] {
        switch timer {
        case .gathering: return request()
        case .answer:
            let seconds = Self.answerLimit.components.seconds
            return lose(LiveViewFailure(reason: "no answer within \(seconds) s"), jitter)
        case .frames:
            guard phase == .live else {
                // The first frame of a view that connects would have been an event.
                return frames == nil
                    ? [schedule(.frames, Self.firstFrameLimit)] : lose(Self.silence(Self.firstFrameLimit), jitter)
            }
            if frames == nil || frames != lastFrames.count { lastFrames = (frames, now) }
            let rest = lastFrames.at + Self.silenceLimit - now
            return rest <= .zero
                ? lose(Self.silence(Self.silenceLimit), jitter) : [schedule(.frames, min(rest, Self.lookInterval))]
        case .extending: return extend()
        case .expiry:
            // The duration was that of a view that worked, so the next one begins at once.
            backOff.reset()
            let hadFrames = phase != .connecting
            let over = view
            return hadFrames
                ? [.close(view: over)] + begin()
                : lose(LiveViewFailure(reason: "its duration ended before its first frame"), jitter)
        case .retry: return begin()
        }
    }

    /// Media servers accept an offer before they know what the camera sends.
    private static let causeOfClose =
        " before its first frame. Perhaps it cannot send this video: H.264 must have no B-frames. Its log may have the cause"

    private static func silence(_ limit: Duration) -> LiveViewFailure {
        LiveViewFailure(reason: "no frame within \(limit.components.seconds) s")
    }

    private mutating func lose(_ failure: LiveViewFailure, _ jitter: Double) -> [Action] {
        let delay = max(backOff.next(jitter: jitter), failure.retryAfter ?? .zero)
        (phase, timers, isExtending) = (.waiting, [:], false)
        return [
            .close(view: view), schedule(.retry, delay),
            .report(Report(state: .waiting, delay: delay, reason: failure.reason)),
            .warn("The live view failed: \(failure.reason). A new one begins in \(Self.text(delay)) s."),
        ]
    }

    /// Seconds with one decimal place.
    private static func text(_ duration: Duration) -> String {
        let tenths = Int((duration / .milliseconds(100)).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }

    private mutating func schedule(_ timer: Timer, _ delay: Duration) -> Action {
        timerCount &+= 1
        timers[timer] = timerCount
        return .schedule(timer, id: timerCount, after: delay)
    }
}
