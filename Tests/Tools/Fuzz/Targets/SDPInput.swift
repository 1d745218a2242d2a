// Session descriptions, and the offers that go to WHEP servers.
import GStreamerKit
import RTP
import WebRTCTransport

func sdpInput(_ bytes: [UInt8]) {
    GStreamerRuntime.initialise()
    let text = String(decoding: bytes, as: UTF8.self)
    for (isOffer, requiresVideo) in [(true, true), (true, false), (false, true)] {
        var choice = RemoteDescription.Choice()
        (choice.requiresVideo, choice.takesAudio) = (requiresVideo, true)
        guard
            let remote = try? RemoteDescription(
                parsing: text, isOffer: isOffer, choice: choice, available: { _ in true })
        else { continue }
        if let audio = remote.audio {
            precondition((0...127).contains(audio.payloadType))
            precondition(remote.kinds.indices.contains(remote.audioIndex ?? -1))
        }
        precondition(remote.kinds.indices.contains(remote.transportIndex) && remote.kinds.count == remote.mids.count)
        guard let video = remote.video else { continue }
        precondition(remote.kinds.indices.contains(remote.videoIndex ?? -1))
        _ = HeaderExtensionWriter(ids: video.extensions, mid: video.mid)
    }
    // The candidates of two sessions, as during an ICE restart.
    var router = CandidateRouter()
    for line in text.split(whereSeparator: \.isNewline) where line.contains("candidate:") {
        let candidate = ICECandidate(candidate: String(line), sdpMid: nil, sdpMLineIndex: nil)
        precondition((router.route(candidate, remotes: ["SAMP", nil]) ?? 0) < 2)
    }
    router.ended("SAMP")
    precondition(router.takeEarly().count <= 128)
    if let offer = OfferText(text) {
        for isComplete in [true, false] {
            let candidates = ["candidate:1 1 UDP 2130706431 127.0.0.1 40000 typ host"]
            let whole = offer.with(candidates: candidates, isComplete: isComplete)
            precondition(whole.utf8.count > text.utf8.count && whole.contains(candidates[0]))
            precondition(offer.fragment(candidates: candidates, isComplete: isComplete).hasPrefix("a=ice-ufrag:"))
        }
    }
    if let sdp = try? SDPDescription(parsing: text) { _ = sdp.text(sessionID: 1, version: 1) }
}
