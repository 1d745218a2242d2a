// Properties of `decarttransform`: their values, `stats`, and what a change does while the element runs.
import DecartProtocol
import DecartSession
import GStreamerKit
import MediaPipeline
import Synchronization
import WebRTCTransport

extension DecartTransform {
    func setProperty(_ name: String, _ value: GValueBox) {
        state.withLock {
            TransformProperties.settings.set(name, value, in: &$0.settings)
            if TransformProperties.promptProperties.contains(name) { $0.changedPromptProperties.insert(name) }
        }
        switch name {
        case "fit": if !warnOfRawProperty(name) { applyGeometry() }
        case "orientation": applyOrientation()
        case "fallback": if !warnOfRawProperty(name) { applyFallback() }
        case "mute-video", "standby": applyMute(endsServiceMute: value.bool == false)
        case "mute-mode": applyMute()
        case "mute-audio": audio.setMuted(value.bool ?? false)
        case "publish-audio": updatePublishedAudio()
        case "publish-video": updatePublishedVideo()
        case "processor":
            let (text, input, isRunning) = state.withLock { ($0.settings.processor, $0.input, $0.run != nil) }
            if !warnOfRawProperty(name), isRunning { input?.processing.change(to: text) }
        case "statistics-interval": applyStatisticsInterval()
        case "max-session-duration":
            let (session, limit) = state.withLock { ($0.run?.session, $0.settings.maximumDuration) }
            session?.controller.limit(to: limit)
        default: break
        }
    }

    func property(_ name: String) -> GValueBox? {
        switch name {
        case "stats": return GValueBox(structure: statistics())
        case "last-sample": return state.withLock(\.output)?.lastSample ?? GValueBox.noSample
        default:
            return state.withLock {
                TransformProperties.settings.value(name, in: $0.settings)
                    ?? SessionSnapshot.properties.value(name, in: $0.snapshot)
                    ?? QualityJudge.Verdict.properties.value(name, in: $0.quality.verdict)
                    ?? BitrateSteering.properties.value(name, in: $0.steering)
            }
        }
    }

    /// Sends all prompt properties of one g_object_set as one update. An action signal has sent its own update.
    func propertiesChanged(_ names: [String]) {
        let (changed, session, settings) = state.withLock { state in
            defer { state.changedPromptProperties.subtract(names) }
            return (state.changedPromptProperties.intersection(names), state.run?.session, state.settings)
        }
        guard !changed.isEmpty else { return }
        session?.async { [weak self] in self?.update(settings, changed, session) }
    }

    private func statistics() -> Structure {
        let (input, output, run, label) = state.withLock { ($0.input, $0.output, $0.run, $0.settings.trackLabel) }
        let session = run?.session
        let connections = session?.readConnections() ?? []
        let (publication, sid) = session?.publication ?? (.none, nil)
        // The clock is read under the lock: a state must not begin after it.
        let (snapshot, history, now) = state.withLock { ($0.snapshot, $0.history, MonotonicTime.now) }
        return TransformStatistics.structure(
            TransformStatistics.Sources(
                input: input?.gate.counters ?? InputCounters(), processor: input?.processing.condition ?? .none,
                output: output?.counters ?? OutputCounters(), audio: (audio.gate.counters, audio.counters),
                snapshot: session == nil ? nil : snapshot, history: history, totals: totals.sum,
                resumes: totals.resumes,
                connections: connections, codecs: session?.codecs ?? CodecStatistics(),
                receivedSize: session?.receivedSize, timing: run?.timing,
                track: trackStats.read(bytes: connections.first?.statistics.bytesSent, now: now), label: label,
                publication: publication, sid: sid, layers: session?.sentLayers ?? [], now: now))
    }

    // MARK: Properties that apply at once

    /// Applies only while the element runs. `passthrough` needs a branch for raw frames, which is built on demand.
    func applyFallback() {
        let (fallback, input, output, run) = state.withLock { ($0.settings.fallback, $0.input, $0.output, $0.run) }
        guard let run, let input, let output else { return }
        output.set(fallback: fallback)
        if fallback == .passthrough, run.rawFallback == nil {
            do throws(GStreamerError) {
                let made = try RawFallback(element: handle, input: input, output: output)
                let isRunning = state.withLock { state in
                    state.run?.rawFallback = made
                    return state.run != nil
                }
                if !isRunning { made.remove() }
            } catch { handle.unowned.postWarning(Self.missing(error.message)) }
        } else if fallback != .passthrough, let raw = run.rawFallback {
            state.withLock { $0.run?.rawFallback = nil }
            raw.remove()
        }
    }

    /// Applies only while the element runs, as does `applyStatisticsInterval`.
    /// - Parameter endsServiceMute: lifts a mute that the service has requested.
    func applyMute(endsServiceMute: Bool = false) {
        let (settings, input, session) = state.withLock { ($0.settings, $0.input, $0.run?.session) }
        guard let input, let session else { return }
        // There are no black frames for an encoded input.
        let silent = settings.silentKinds(isEncoded: input.encoded.isOn || input.encoded.isExpected)
        input.gate.set(withheld: silent.contains(.video))
        input.setMuted(settings.muteVideo && !silent.contains(.video), element: handle)
        session.setMuted(silent, endsServiceMute: endsServiceMute)
    }

    func applyStatisticsInterval() {
        let (interval, isRunning) = state.withLock { ($0.settings.statisticsInterval, $0.run != nil) }
        guard isRunning, interval > .zero else { return statisticsTimer.stop() }
        statisticsTimer.start(every: interval) { [weak self] in
            // The element still exists while `run` is set: `end` clears it and then waits for this handler.
            guard let self, self.state.withLock({ $0.run != nil }) else { return }
            let element = self.handle.retained
            element.post(Message.element(element, self.statistics()))
        }
    }

    private func applyGeometry() {
        let (fit, input, size) = state.withLock { ($0.settings.fit, $0.input, $0.run?.size) }
        guard let input, let size else { return }
        input.configure(width: size.current.width, height: size.current.height, fit: fit)
    }

    /// Turns the sent frames, and so the returned ones, without a new session.
    private func applyOrientation() {
        let (settings, input, output, size) = state.withLock { ($0.settings, $0.input, $0.output, $0.run?.size) }
        // The size of an encoded stream is its own.
        guard settings.orientation != .auto, let input, !input.encoded.isOn, let output, let size else { return }
        let now = size.current
        if (now.height > now.width) != (settings.orientation == .portrait) {
            size.set(width: now.height, height: now.width)
        }
        input.configure(width: size.current.width, height: size.current.height, fit: settings.fit)
        output.prefer(width: size.current.width, height: size.current.height)
    }
}
