// Properties of `decarttransform`: their values, `stats`, and what a change does while the element runs.
import DecartProtocol
import DecartSession
import GStreamerKit
import MediaPipeline
import RTP
import Synchronization
import WebRTCTransport

extension DecartTransform {
    func setProperty(_ name: String, _ value: GValueBox) {
        state.withLock { TransformProperties.settings.set(name, value, in: &$0.settings) }
        TransformProperties.settings.apply(name, to: self)
    }

    func property(_ name: String) -> GValueBox? {
        switch name {
        case "stats": return GValueBox(structure: statistics())
        default:
            let now = now
            return TransformProperties.settings.value(name, in: now.settings)
                ?? SessionSnapshot.properties.value(name, in: now.snapshot)
                ?? QualityJudge.Verdict.properties.value(name, in: now.quality.verdict)
                ?? BitrateSteering.properties.value(name, in: now.run?.steering ?? BitrateSteering())
        }
    }

    func propertiesChanged(_ names: [String]) {
        // A parent knows which properties one g_object_set on it has changed; here they come one by one.
        if !isProxied.load(ordering: .relaxed) { sendPrompts(names) }
    }

    /// The properties are set on a parent, which calls `sendPrompts` when its own have changed.
    func joinParent() { isProxied.store(true, ordering: .relaxed) }

    /// Sends all prompt properties of one g_object_set as one update. An action signal has sent its own update.
    func sendPrompts(_ names: [String]) {
        let (changed, session, settings) = state.withLock { state in
            defer { state.changedPromptProperties.subtract(names) }
            return (state.changedPromptProperties.intersection(names), state.run?.session, state.settings)
        }
        guard !changed.isEmpty else { return }
        session?.async { [weak self] in self?.update(settings, changed, session) }
    }

    private func statistics() -> Structure {
        let run = now.run
        let session = run?.session
        let connections = session?.readConnections() ?? []
        let path = session?.path
        let (publication, sid) = session?.publication ?? (.none, nil)
        // The clock is read afterwards: a state must not begin after it.
        let (state, now) = (self.now, MonotonicTime.now)
        let statistics = TransformStatistics(
            input: input?.gate.counters ?? InputCounters(), processor: input?.processing.condition ?? .none,
            output: output?.counters ?? OutputCounters(),
            playout: output.map { ($0.playout.delay, $0.playout.target) } ?? (0, 0),
            audio: (audio.gate.counters, audio.counters), snapshot: session == nil ? nil : state.snapshot,
            history: state.history,
            totals: totals.sum, connections: connections, codecs: path?.codecs ?? CodecStatistics(),
            receivedSize: path?.receivedSize, timing: run?.timing,
            track: trackStats.read(bytes: connections.first?.statistics.bytesSent, now: now),
            publication: publication, sid: sid, layers: path?.sentLayers ?? [], now: now)
        return statistics.structure
    }

    // MARK: Properties that apply at once

    func promptChanged(_ name: String) { _ = state.withLock { $0.changedPromptProperties.insert(name) } }

    func settle<Part: Equatable>(_ part: (State) -> Part, _ apply: (State, Part) -> Void) {
        LatestValue.apply(part, of: { now }, apply)
    }

    func applyAudioMute() { settle({ $0.settings.sending.muteAudio }) { audio.setMuted($1) } }

    func applyProcessor() {
        guard !warnOfRawProperty("processor") else { return }
        settle({ $0.settings.processor }) { if $0.run != nil { input?.processing.change(to: $1) } }
    }

    /// Applies frame rate and bitrates to the session and its later attempts, and the frame rate to the output.
    func applyLimits() {
        let limits = { (now: State) in
            [now.settings.framerate, now.settings.encoding.minBitrate, now.settings.encoding.maxBitrate]
        }
        settle(limits) { now, _ in
            guard let session = now.run?.session else { return }
            session.setLimits(now.settings)
            if let format = Self.plannedFormat(now.settings) { output?.prefer(framerate: format.framerate) }
        }
    }

    func applyKeyframeInterval() { settle({ $0.settings.keyframeInterval }) { output?.set(keyframeInterval: $1) } }

    func applyDuration() {
        settle({ $0.settings.session.maximumDuration }) { $0.run?.session.controller.limit(to: $1) }
    }

    /// Applies only while the element runs. `passthrough` needs a branch for raw frames, which is built on demand. One
    /// thread at a time builds or removes it; a change that comes meanwhile is left to that thread. No lock is held
    /// then: adding and unlinking elements posts messages, whose handler takes the lock.
    func applyFallback() {
        let session = state.withLock { state -> ElementSession? in
            guard let run = state.run else { return nil }
            state.run?.fallback.isStale = true
            guard !run.fallback.isChanging else { return nil }
            state.run?.fallback.isChanging = true
            return run.session
        }
        guard let session, let input, let output else { return }
        var made: RawFallback?
        while let (fallback, current) = nextFallback(of: session, &made) {
            output.set(fallback: fallback)
            made = fallback == .passthrough ? current ?? makeRawFallback(input, output) : nil
            if made == nil { current?.remove() }
        }
        made?.remove()
    }

    /// Returns the newest setting and takes over the branch; nil ends the claim: the setting has been applied, and the run
    /// has got the branch, or the run has ended.
    private func nextFallback(of session: ElementSession, _ made: inout RawFallback?) -> (Fallback, RawFallback?)? {
        let branch = made
        let (next, isKept) = state.withLock { state -> ((Fallback, RawFallback?)?, Bool) in
            guard let run = state.run, run.session === session else { return (nil, false) }
            let current = branch ?? run.fallback.raw
            state.run?.fallback = RawFallbackState(
                raw: run.fallback.isStale ? nil : current, isChanging: run.fallback.isStale, isStale: false)
            return (run.fallback.isStale ? (state.settings.fallback, current) : nil, true)
        }
        if isKept { made = nil }
        return next
    }

    private func makeRawFallback(_ input: InputChain, _ output: VideoOutput) -> RawFallback? {
        do throws(GStreamerError) {
            return try RawFallback(element: handle, input: input, output: output)
        } catch {
            handle.unowned.postWarning(.missing(error.message))
            return nil
        }
    }

    /// Applies only while the element runs.
    /// - Parameter property: the one that has been set; false also lifts a mute that the service has requested.
    func applyMute(by property: KeyPath<TransformSettings, Bool>? = nil) {
        settle({ [$0.settings.sending.muteVideo, $0.settings.sending.standby] }) { now, _ in
            applyMute(now, by: property)
        }
    }

    private func applyMute(_ now: State, by property: KeyPath<TransformSettings, Bool>?) {
        let settings = now.settings
        guard let input, let session = now.run?.session else { return }
        // There are no black frames for an encoded input.
        let silent = settings.sending.silentKinds(isEncoded: input.encoded.isOn || input.encoded.isExpected)
        input.gate.set(withheld: silent.contains(.video))
        input.setMuted(settings.sending.muteVideo && !silent.contains(.video), element: handle)
        session.setMuted(silent, endsServiceMute: property.map { !settings[keyPath: $0] } ?? false)
        if settings.sending.muteVideo || settings.sending.standby { beginAwaited() }
    }

    func applyGeometry() {
        settle({ $0.settings.fit }) { now, fit in
            guard let input, let size = now.run?.size else { return }
            input.configure(width: size.current.width, height: size.current.height, fit: fit)
        }
    }

    /// Turns the sent frames, and so the returned ones, without a new session.
    func applyOrientation() {
        settle({ [$0.settings.orientation.rawValue, $0.settings.fit.rawValue] }) { now, _ in applyOrientation(now) }
    }

    private func applyOrientation(_ now: State) {
        let settings = now.settings
        // The size of an encoded stream is its own.
        guard settings.orientation != .auto, let input, !input.encoded.isOn, let output,
            let size = now.run?.size
        else { return }
        let (width, height) = size.current
        if (height > width) != (settings.orientation == .portrait) {
            size.set(width: height, height: width)
        }
        input.configure(width: size.current.width, height: size.current.height, fit: settings.fit)
        output.orient(portrait: size.current.height > size.current.width)
    }
}
