// Decides which input frames enter the element, and at what running time: the value that `InputGate` drives. It knows no
// pad, clock or thread.
package import GStreamerKit
import WebRTCTransport

package struct AdmissionPolicy<Frame: Sendable>: Sendable {
    /// A frame at the gate.
    package struct Arrival: Sendable {
        package let at: Duration
        /// The element's running time.
        package let present: ClockTime?
        /// Running time by the frame's own time stamp.
        package let upstream: ClockTime?
        /// Time to the next frame; nil: unknown.
        package fileprivate(set) var step: ClockTime?
        /// Running time that the frame has in the element.
        package var time: ClockTime?
        package let frame: Frame
        package var isKept = false
        /// The rate limit lets it pass.
        fileprivate var isDue = false

        package init(
            at: Duration, present: ClockTime?, upstream: ClockTime?, step: ClockTime?, frame: Frame
        ) {
            (self.at, self.present, self.upstream, self.step, self.frame) = (at, present, upstream, step, frame)
        }

        package var lead: Int64? {
            guard let upstream, let present else { return nil }
            return Int64(clamping: upstream) &- Int64(clamping: present)
        }
    }

    package enum Admission: Equatable, Sendable {
        /// With the running time that the frame has in the element.
        case passes(ClockTime?)
        case dropped, refused
    }

    /// The media paths that take frames; a raw fallback counts as one.
    package private(set) var open: Set<PathID> = []
    package var playing = false
    /// The application withholds its frames on purpose, so that their loss is not reported.
    package var isWithheld = false
    package private(set) var flushing = false
    /// The element stops. Unlike `flushing`, no event from upstream clears this: a pad can be deactivated only while no
    /// thread waits at the gate.
    package var isStopping = false
    /// The pad is being removed, for which the same holds.
    package var isClosing = false

    /// Liveness of the source, learnt with the first frame of a stream; an input that follows the clock becomes live
    /// later.
    package private(set) var isLive: Bool?
    private var streamID: String?
    /// The input counts as live because it was found to follow the clock.
    package private(set) var isFollower = false
    private var follower = ClockFollower()
    /// Set for an input that another program paces, or may: one through a pipe.
    private var probe: PaceProbe?
    private var timeline = InputTimeline()
    /// Nominal time between two frames without a duration of their own; nil: unknown.
    package private(set) var step: ClockTime?
    private var rate = RateLimit()
    /// Frames a second: the most that are sent, and the most that the CPU carries by the judgement of each media path.
    private var maximumRate = 0
    private var carriedRates: [PathID: Int] = [:]
    /// Running time of the latest frame, passed or not.
    private var latest: ClockTime?
    /// Later frames of an encoded input depend on each frame, so the rate limit drops none, and none is kept here.
    package var isEncoded = false
    /// Frames may be kept for a media path.
    private var keeps = false
    private var kept = KeptFrames<Arrival>()
    package var counters = InputCounters()

    package init() {}

    package var refuses: Bool { flushing || isStopping || isClosing }
    package var isOpen: Bool { !open.isEmpty && playing && !refuses }
    package var hasKept: Bool { kept.count > 0 }
    package var mayKeep: Bool { keeps && !isEncoded && (lacksPath || isJudging) }
    /// Frames are kept of which it is not known yet if they are too late, because the input may be live: a path that opens
    /// meanwhile takes none.
    package var isJudging: Bool { probe != nil && hasKept && playing && !refuses && !isWithheld }
    /// Running time of the frame that was not admitted just now, if only a media path is missing.
    package var timeToHold: ClockTime? { lacksPath ? latest : nil }
    private var lacksPath: Bool { open.isEmpty && playing && !refuses && !isWithheld }

    // MARK: What surrounds the input

    package enum Event: Sendable {
        case opened(PathID), closed(PathID)
        /// Frames a second that the CPU can encode while a path is open; nil: all frames.
        case carriedRate(Int?, PathID)
        case maximumRate(Int)
        case playing(Bool), withheld(Bool), encoded(Bool), flushing(Bool)
        case clockChanged, stopping, closing, prepared, reset, renewed
        case streamStart(String?), framerate((Int, Int)?)
        /// Kept frames are of other caps. Those of the new ones may be kept.
        case caps(keeps: Bool)
        case source(isLive: Bool, isFollower: Bool, isPipe: Bool?)
        case untaken
    }

    /// - Returns: what the driver has to do.
    @discardableResult package mutating func handle(_ event: Event) -> AdmissionEffects {
        var effects: AdmissionEffects = []
        switch event {
        case .opened(let path):
            effects = isOpen ? .wakes : [.wakes, .restartsTime]
            open.insert(path)
        case .closed(let path): open.remove(path)
        case .maximumRate(let rate):
            maximumRate = rate
            setLimit()
        case .carriedRate(let rate, let path):
            carriedRates[path] = rate
            setLimit()
        case .withheld(let isOn): isWithheld = isOn
        case .encoded(let isOn): isEncoded = isOn
        case .streamStart(let id): if begin(stream: id) { effects = .isOtherStream }
        case .caps(let keeps):
            dropKept()
            self.keeps = keeps
        case .framerate(let rate): set(framerate: rate)
        case .source(let isLive, let isFollower, let isPipe):
            if let isPipe { set(isPipe: isPipe) }
            set(live: isLive, isFollower: isFollower)
        case .untaken: countUntaken()
        case .playing(let isOn): (playing, effects) = (isOn, .interrupts)
        case .clockChanged: effects = .interrupts
        case .stopping: (isStopping, effects) = (true, .interrupts)
        case .closing: (isClosing, effects) = (true, .interrupts)
        case .flushing(let isOn):
            set(flushing: isOn)
            effects = isOn ? .interrupts : [.interrupts, .restartsTime]
        case .prepared:
            prepare()
            effects = [.interrupts, .restartsTime]
        case .reset:
            reset()
            effects = .restartsTime
        case .renewed:
            renew()
            effects = .restartsTime
        }
        return effects
    }

    private mutating func setLimit() {
        let rates = [maximumRate] + Array(carriedRates.values)
        rate.set(framesPerSecond: rates.filter { $0 > 0 }.min())
    }

    package mutating func set(flushing isBegun: Bool) {
        flushing = isBegun
        kept = KeptFrames()
        if !isBegun { rate.restart() }
    }

    package mutating func prepare() {
        (isStopping, flushing, kept) = (false, false, KeptFrames())
        rate.restart()
    }

    /// Forgets the stream.
    package mutating func reset() {
        let former = self
        self = AdmissionPolicy()
        (open, isWithheld) = (former.open, former.isWithheld)
        (isStopping, isClosing) = (former.isStopping, former.isClosing)
        (maximumRate, carriedRates, counters) = (former.maximumRate, former.carriedRates, former.counters)
        setLimit()
    }

    /// Begins with a new pad, whose source may be another.
    package mutating func renew() {
        (isLive, isFollower, flushing, isClosing, probe) = (nil, false, false, false, nil)
        (timeline, follower, kept, keeps) = (InputTimeline(), ClockFollower(), KeptFrames(), false)
    }

    // MARK: The stream

    /// Another stream may come from a source of the other kind; the same one again, as after a seek, keeps its liveness.
    /// - Returns: true if it is another stream.
    package mutating func begin(stream id: String?) -> Bool {
        guard id == nil || id != streamID else { return false }
        (streamID, isLive, isFollower, follower, probe) = (id, nil, false, ClockFollower(), nil)
        return true
    }

    /// Sets the nominal frame rate; 30 frames a second without one.
    package mutating func set(framerate: (Int, Int)?) {
        let (frames, seconds) = framerate ?? (0, 1)
        let isKnown = frames > 0 && seconds > 0
        let time = isKnown ? Double(seconds) / Double(frames) : 1.0 / 30
        step = ClockTime(min(time, 10) * 1_000_000_000)
    }

    package mutating func set(live: Bool, isFollower follows: Bool) {
        (isLive, isFollower, follower) = (live, follows, ClockFollower())
        // They are too late for an input that goes on with the clock.
        if live { dropKept() }
    }

    /// The first frames of an input through a pipe show which side paces it.
    package mutating func set(isPipe: Bool) { probe = isPipe ? PaceProbe() : nil }

    // MARK: Frames

    /// The first decision about a frame.
    package enum Reception: Sendable, Equatable {
        /// The frame of a live input passes or is lost at once.
        case live(Admission)
        /// It may have to wait.
        case paced
        /// The kind of the source is not known; or not any longer, because the input runs ahead of the clock.
        case unknown(isAhead: Bool)
    }

    /// Takes a frame when it comes, and again when the kind of its source has been found.
    package mutating func receive(_ arrival: inout Arrival, isLive found: Bool?) -> Reception {
        if found == nil {
            counters.framesIn &+= 1
            if arrival.step == nil { arrival.step = step }
            if isLive != nil, isFollower, overtakes(arrival) { return .unknown(isAhead: true) }
        }
        guard let isLive = found ?? isLive else { return .unknown(isAhead: false) }
        arrival.time = arrive(arrival, isLive: isLive)
        return isLive ? .live(admitLive(at: arrival.time)) : .paced
    }

    /// Takes a frame of any input.
    /// - Returns: its running time in the element.
    package mutating func arrive(_ arrival: Arrival, isLive: Bool) -> ClockTime? {
        latest = arrival.upstream
        guard let step = arrival.step else { return latest }
        latest = timeline.next(
            arrival.upstream, arrival: arrival.at, isLive: isLive, step: step, present: arrival.present)
        return latest
    }

    /// Takes a frame of an input that was found to follow the clock.
    /// - Returns: true if it runs ahead: from here on it waits again.
    package mutating func overtakes(_ arrival: Arrival) -> Bool {
        // The frames of a pipe have no stamps, or those of a parser, which counts.
        if probe != nil { return follower.rushes(at: arrival.at, step: arrival.step ?? Self.defaultStep) }
        return arrival.lead.map { follower.overtakes(lead: $0) } ?? false
    }

    private static var defaultStep: ClockTime { 33_000_000 }

    package mutating func admitLive(at time: ClockTime?) -> Admission {
        guard isOpen else {
            countUntaken()
            return refuses || isWithheld ? .refused : .dropped
        }
        return isDue(time) ? .passes(time) : .refused
    }

    /// Applies the rate limit.
    private mutating func isDue(_ time: ClockTime?) -> Bool {
        guard let time, !isEncoded, !rate.passes(time) else { return true }
        counters.framesRateLimited &+= 1
        return false
    }

    /// Applies the rate limit, once to each frame: a wait that a pause or another clock has cancelled begins again.
    private mutating func due(_ arrival: Arrival) -> Arrival? {
        guard arrival.isDue || isDue(arrival.time) else { return nil }
        var arrival = arrival
        arrival.isDue = true
        return arrival
    }

    /// The decision about a frame of an input that is not live.
    package enum Turn: Sendable {
        /// This frame is next: a kept one, which is earlier, or the one at hand.
        case next(Arrival)
        case waits(inPlaying: Bool)
        /// Upstream's thread is not to wait.
        case keep
        /// The input follows the clock.
        case follows
        case refused
    }

    /// - Parameters:
    ///   - isProbed: the frame has waited in PLAYING before.
    ///   - growsWithTime: upstream's queue grows as the time does.
    package mutating func turn(_ arrival: Arrival, isProbed: Bool, growsWithTime: Bool) -> Turn {
        if refuses { return .refused }
        if growsWithTime { return .follows }
        if isOpen, !isJudging {
            if let kept = takeKept() { return .next(kept) }
            return due(arrival).map(Turn.next) ?? .refused
        }
        switch playing && !isProbed ? probe(arrival) : nil {
        case .undecided: return .keep
        case .followsClock: return .follows
        case .asFastAsTaken, nil: break
        }
        // A frame that has to wait says nothing about upstream.
        follower.restart()
        return .waits(inPlaying: playing)
    }

    /// Takes one of the first frames from another program, before one waits; nil: it comes from none.
    package mutating func probe(_ arrival: Arrival) -> PaceProbe.Verdict? {
        guard probe != nil, follower.hasReturned else { return probe.map { _ in .undecided } }
        let wasIdle = follower.wasIdle(at: arrival.at, step: arrival.step ?? Self.defaultStep)
        let verdict = probe?.add(wasIdle: wasIdle)
        if verdict == .asFastAsTaken { probe = nil }
        return verdict
    }

    /// Decides if a frame waits for its time.
    /// - Parameter early: time until it is due, ns.
    package mutating func waits(_ arrival: Arrival, early: Int64) -> Bool {
        guard !refuses, early > 0, !isAtPace(arrival, early) else { return false }
        follower.restart()
        return true
    }

    /// The frames of an input that follows the clock arrive at its pace, and so wait for no other one. A slow decoder's
    /// frames gain on the clock then, until they have to wait.
    private func isAtPace(_ arrival: Arrival, _ early: Int64) -> Bool {
        guard let step = arrival.step, !arrival.isKept else { return false }
        return early <= Int64(clamping: step) && follower.wasIdle(at: arrival.at, step: step)
    }

    /// Takes a frame that passed at once.
    /// - Returns: true if the input follows the clock.
    package mutating func follows(_ arrival: Arrival) -> Bool {
        guard let lead = arrival.lead, let present = arrival.present, let step = arrival.step, !arrival.isKept,
            follower.wasIdle(at: arrival.at, step: step)
        else {
            follower.restart()
            return false
        }
        return follower.follows(lead: lead, present: present)
    }

    /// The streaming thread goes back upstream.
    package mutating func returns(at time: Duration) { follower.returns(at: time) }

    // MARK: Kept frames

    /// Keeps a frame for which upstream's thread is not to wait any longer; it is lost if there is no room.
    /// - Parameter copy: nil if it cannot be kept.
    package mutating func keep(_ copy: Arrival?, bytes: Int) {
        guard var copy else { return countUntaken() }
        copy.isKept = true
        if !kept.append(copy, bytes: bytes) { countUntaken() }
    }

    /// The next kept frame that the rate limit lets pass.
    package mutating func takeKept() -> Arrival? {
        while let next = kept.takeFirst() { if let next = due(next) { return next } }
        return nil
    }

    package mutating func putBack(_ arrival: Arrival, bytes: Int) { kept.putBack(arrival, bytes: bytes) }

    package mutating func dropKept() {
        for _ in 0..<kept.count { countUntaken() }
        kept = KeptFrames()
    }

    /// Counts a frame that no media path took.
    package mutating func countUntaken() { counters.dropClosed(hasSession: !open.isEmpty) }
}

/// The work of an `AdmissionPolicy`'s owner after an event.
package struct AdmissionEffects: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// A thread that waits for its turn looks again.
    package static let wakes = AdmissionEffects(rawValue: 1)
    /// A frame that waits for its time starts over.
    package static let cancelsWait = AdmissionEffects(rawValue: 2)
    package static let interrupts: AdmissionEffects = [.wakes, .cancelsWait]
    /// The next frame sets the time of the inputs again.
    package static let restartsTime = AdmissionEffects(rawValue: 4)
    /// To be returned to the caller.
    package static let isOtherStream = AdmissionEffects(rawValue: 8)
}
