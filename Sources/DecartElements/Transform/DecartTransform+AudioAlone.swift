// Audio without video on `sink`: a session begins with the first video only, because the service bills it. A demuxer's
// video may be linked later than its audio.
import DecartSession
import GStreamerKit
import MediaPipeline
import Synchronization

extension DecartTransform {
    /// Audio is linked and video is not. False for a viewer, which needs no input.
    func lacksVideo(_ settings: TransformSettings) -> Bool {
        settings.subscribeToken == nil && audio.isWanted && handle.unowned.staticPad("sink")?.isLinked == false
    }

    /// Called on upstream's streaming thread, with the first caps of video.
    func beginAwaited() {
        let session = state.withLock { state -> ElementSession? in
            // After EOS, no video leaves any more.
            guard state.run?.awaitsInput == true, state.run?.isDraining == false else { return nil }
            state.run?.awaitsInput = false
            return state.run?.session
        }
        session?.controller.start()
    }

    /// Called once a second: warns if audio comes meanwhile.
    func watchAudioAlone() {
        let count = audio.gate.counters.framesIn
        let isComing = state.withLock { state in
            defer { state.run?.audioCount = count }
            return state.run?.audioCount.map { count > $0 } ?? false
        }
        if isComing { warnOfAudioAlone() }
        warnOfUnlinkedAudio()
    }

    /// A refused link leaves a branch behind `audio_src` without a stream, and the pipeline without an end.
    private func warnOfUnlinkedAudio() {
        let isUnlinked = audio.isUnlinked
        let isDue = state.withLock { state in
            let checks = isUnlinked ? (state.run?.unlinkedChecks ?? 0) &+ 1 : 0
            state.run?.unlinkedChecks = checks
            return checks == 3
        }
        guard isDue else { return }
        let text =
            "Nothing is linked to audio_src, so the returned audio is dropped, and a branch that waits for it never ends. "
            + "Put audioconvert behind audio_src; set publish-audio=false if no audio is wanted."
        LogCategories.media(.warning, handle.unowned, text)
        handle.unowned.postWarning(ElementProblem(.coreNegotiation, text))
    }

    /// The end of audio is the end of all input then. Called on the streaming thread of the audio.
    func audioEnded() {
        guard lacksVideo(state.withLock(\.settings)) else { return }
        warnOfAudioAlone()
        drain()
    }

    private func warnOfAudioAlone() {
        guard lacksVideo(state.withLock(\.settings)) else { return }
        let isDue = state.withLock { state in
            guard state.run?.awaitsInput == true, state.run?.hasWarnedOfAudio == false else { return false }
            state.run?.hasWarnedOfAudio = true
            return true
        }
        guard isDue else { return }
        let text = "Audio arrives, but no video is linked to the pad sink: no session begins. Link video to it."
        LogCategories.media(.warning, handle.unowned, text)
        handle.unowned.postWarning(ElementProblem(.coreNegotiation, text))
    }
}
