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
        case "fit": applyGeometry()
        case "orientation": applyOrientation()
        case "fallback": applyFallback()
        case "mute-video": applyMute()
        case "mute-audio": audio.setMuted(value.bool ?? false)
        case "publish-audio": updatePublishedAudio()
        case "publish-video": updatePublishedVideo()
        case "processor":
            let (text, input, isRunning) = state.withLock { ($0.settings.processor, $0.input, $0.run != nil) }
            if isRunning { input?.processing.change(to: text) }
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
        default:
            return state.withLock {
                TransformProperties.settings.value(name, in: $0.settings)
                    ?? SessionSnapshot.properties.value(name, in: $0.snapshot)
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
        let (input, output, snapshot, run) = state.withLock { ($0.input, $0.output, $0.snapshot, $0.run) }
        let session = run?.session
        let transport = session?.statistics
        let stats = TransformStatistics.structure(
            input: input?.gate.counters ?? InputCounters(), processor: input?.processing.condition ?? .none,
            output: output?.counters ?? OutputCounters(),
            audio: (audio.gate.counters, audio.counters), snapshot: session == nil ? nil : snapshot,
            transport: transport,
            receivedSize: session?.receivedSize, glassToGlassTime: run?.timing?.glassToGlassTime)
        let (facts, label) = state.withLock { ($0.facts, $0.settings.trackLabel) }
        let (publication, sid) = session?.publication ?? (.none, nil)
        facts.write(to: stats, label, publication, sid: sid, bytes: transport?.bytesSent)
        stats["track-layers"] = GValueBox((session?.sentLayers ?? []).joined(separator: " "))
        return stats
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
    func applyMute() {
        let (isMuted, input, isRunning) = state.withLock { ($0.settings.muteVideo, $0.input, $0.run != nil) }
        if isRunning { input?.setMuted(isMuted, element: handle) }
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
        guard settings.orientation != .auto, let input, let output, let size else { return }
        let now = size.current
        if (now.height > now.width) != (settings.orientation == .portrait) {
            size.set(width: now.height, height: now.width)
        }
        input.configure(width: size.current.width, height: size.current.height, fit: settings.fit)
        output.prefer(width: size.current.width, height: size.current.height)
    }
}
