// Audio without video on `sink`: a session begins with the first video only, because the service bills it. A demuxer's
// video may be linked later than its audio.
import DecartSession
import GStreamerKit
import MediaPipeline
import Synchronization

extension DecartTransform {
    /// Called on upstream's streaming thread, with the first caps of video.
    func beginAwaited() {
        let session = state.withLock { $0.run?.input.videoCame() == true ? $0.run?.session : nil }
        session?.controller.start()
    }

    /// Called once a second: warns if audio comes meanwhile.
    func watchAudioAlone(_ watch: SessionWatch) {
        if watch.hasAudioCome(audio.gate.counters.framesIn) { warnOfAudioAlone() }
        // A refused link leaves a branch behind `audio_src` without a stream, and the pipeline without an end.
        guard watch.isDue(isUnlinked: audio.isUnlinked) else { return }
        let text =
            "Nothing is linked to audio_src, so the returned audio is dropped, and a branch that waits for it never ends. "
            + "Put audioconvert behind audio_src, and an encoder in front of a muxer; set publish-audio=false if no "
            + "audio is wanted."
        LogCategories.media(.warning, handle.unowned, text)
        handle.unowned.postWarning(ElementProblem(.coreNegotiation, text))
    }

    /// The end of audio is the end of all input then. Called on the streaming thread of the audio.
    func audioEnded() {
        if warnOfAudioAlone() { drain() }
    }

    /// - Returns: false if audio is not alone: video is linked, or the element is a viewer, which needs no input.
    @discardableResult private func warnOfAudioAlone() -> Bool {
        guard audio.isWanted, handle.unowned.staticPad("sink")?.isLinked == false else { return false }
        let (isViewer, isDue) = state.withLock { state -> (Bool, Bool) in
            guard state.settings.subscribeToken == nil else { return (true, false) }
            return (false, state.run?.input.audioCameAlone() ?? false)
        }
        guard isDue else { return !isViewer }
        let text = "Audio arrives, but no video is linked to the pad sink: no session begins. Link video to it."
        LogCategories.media(.warning, handle.unowned, text)
        handle.unowned.postWarning(ElementProblem(.coreNegotiation, text))
        return true
    }
}
