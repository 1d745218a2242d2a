// A camera of `decartsrc` on the network: its settings, its audio, and its way past the elements for raw frames.
import DecartProtocol
import GStreamerKit
import MediaPipeline
import RTP
import Signalling
import WebRTCTransport

extension DecartSource {
    /// The camera that `source` names, when a capture is made; nil for another source.
    func liveCamera(_ transform: Element) throws(ElementProblem) -> (LiveCamera.Settings, audioEntry: Pad?)? {
        let now = now
        let settings = now.settings
        guard settings.isLiveCamera, let transform = transform.implementation as? DecartTransform else { return nil }
        let session = transform.settings
        let service: LiveCamera.Service
        let label: String
        let access: MediaAccess
        do {
            let rtsp = RTSPURL.isRTSP(settings.source) ? try RTSPURL(settings.source) : nil
            let url = try settings.whepURL.map { text throws(ProtocolError) in try HTTPURL(whep: text) }
            access = try MediaAccess(session, isLocal: url?.isLocal ?? false)
            if let rtsp {
                guard !rtsp.isSecure || GStreamerRuntime.supportsTLS else {
                    throw ElementProblem(
                        .coreMissingPlugin,
                        "source=rtsps:// needs TLS, which GStreamer has from GLib: install the package glib-networking."
                    )
                }
                service = .rtsp(
                    RTSPCamera(url: rtsp, caFile: session.service.caFile, userAgent: DecartElements.userAgent))
                label = "the RTSP camera at \(rtsp.host)"
            } else if let url {
                // Wrong settings fail the start of the element, not each live view.
                _ = try settings.whep(url, access)
                service = .whep { [weak self] () throws(ElementProblem) in
                    try (self?.now.settings ?? settings).whep(url, access)
                }
                label = "the WHEP camera at \(url.host)"
            } else {
                guard handle.unowned.hasHandler("request-live-view") else {
                    throw ElementProblem(
                        .resourceSettings,
                        "source=live-view needs the application: connect a handler to the signal request-live-view.")
                }
                (service, label) = (.signals(liveViews), "the camera of the application")
            }
        } catch let error as ElementProblem {
            throw error
        } catch {
            throw ElementProblem(.resourceSettings, (error as? ProtocolError)?.message ?? "source cannot be used.")
        }
        let encodedCodecs: @Sendable () -> [VideoCodec] = { [weak transform] in transform?.encodedCodecs ?? [] }
        let camera = LiveCamera.Settings(
            service: service, label: label, access: access,
            takesAudio: settings.audioSource == SourceSettings.cameraAudio, talkback: talkback,
            encodedCodecs: now.bypass == nil ? nil : encodedCodecs)
        return (camera, now.audio?.cameraEntry)
    }

    func checkEncodedCamera(_ settings: SourceSettings, _ parts: Parts) throws(ElementProblem) {
        guard settings.sendsEncodedCamera else { return }
        let property = (parts.transform.element.implementation as? DecartTransform)?.settings.propertyForRawInput()
        let hasPreview = now.preview.branch != nil
        if let text = settings.conflictWithEncodedCamera(transform: property, hasPreview: hasPreview) {
            throw ElementProblem(.resourceSettings, text)
        }
    }

    /// Links the camera to the transform as the settings ask for: with or without the elements for raw frames.
    /// - Returns: false if that fails, which has been posted.
    func updateBypass(_ parts: Parts) -> Bool {
        let now = now
        let isWanted = now.settings.sendsEncodedCamera
        guard isWanted != (now.bypass != nil) else { return true }
        now.bypass?.remove(from: handle.unowned)
        guard let source = parts.selector.staticPad("src"), let sink = parts.transform.element.staticPad("sink")
        else { return false }
        do throws(GStreamerError) {
            let made = try isWanted ? EncodedBypass(in: handle.unowned, from: source, to: sink) : nil
            state.withLock { $0.bypass = made }
            return true
        } catch {
            handle.unowned.postError(
                ElementProblem(.coreMissingPlugin, "The camera cannot be linked to the session: \(error.message)."))
            return false
        }
    }

    func requestCameraAudio(_ settings: SourceSettings, _ transform: Element) throws(ElementProblem) {
        guard settings.audioSource == SourceSettings.cameraAudio else { return }
        guard settings.isLiveCamera else {
            throw ElementProblem(
                .resourceSettings,
                "audio-source=camera needs source=live-view, source=whep:URL or source=rtsp://…. Set one of them.")
        }
        guard let entry = transform.requestPad("audio_sink") else { throw Microphone.noOpus }
        replaceAudio(by: .camera(entry: entry))
    }

    func releaseAudio(_ transform: Element) {
        switch replaceAudio(by: nil) {
        case .microphone(let microphone): microphone.remove(from: handle.unowned, transform)
        case .camera(let entry): transform.releaseRequestPad(entry)
        case nil: break
        }
    }

    @discardableResult func replaceAudio(by feed: AudioFeed?) -> AudioFeed? {
        state.withLock { exchange(&$0.audio, with: feed) }
    }
}
