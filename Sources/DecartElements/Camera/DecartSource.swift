// The element `decartsrc`: a camera whose frames come out transformed. It combines capture, crop, mirror and
// `decarttransform` in one bin, with all properties and signals of the latter.
//
// Lock order: no lock is held while another is taken, nor while a signal is emitted, a message posted or a property
// set.
import DecartProtocol
import GStreamerKit
import MediaPipeline
import MirrorElement
import WebRTCTransport

// @unchecked: `parts` and `buildError` are set by `init` only; the rest is constant or locked.
final class DecartSource: ElementImplementation, @unchecked Sendable {
    // MARK: Class

    private static let own = ElementClass(
        typeName: "GstDecartSrc", parent: .bin, longName: "Decart realtime camera",
        classification: "Source/Video/Network",
        summary:
            "Captures a camera, sends its frames to Decart's realtime service over WebRTC and outputs the transformed video",
        author: "The gst-decart authors",
        documentation: "file:///usr/share/doc/gstreamer1.0-decart/docs/PROPERTIES.md#decartsrc",
        pads: [
            PadTemplate(name: "src", direction: .source, presence: .always, caps: VideoOutput.templateCaps),
            PadTemplate(name: "preview", direction: .source, presence: .request, caps: InputChain.caps),
            PadTemplate(name: "audio_src", direction: .source, presence: .sometimes, caps: AudioFormat.templateCaps),
            PadTemplate(name: "talkback", direction: .sink, presence: .request, caps: AudioInput.caps),
        ],
        properties: SourceSettings.properties.specs, signals: SourceSettings.signals, make: { DecartSource($0) })

    static let elementClass = own.inheriting(DecartTransform.elementClass)

    private static let log = DebugCategory("decartsrc", "Decart realtime camera")

    // MARK: Settings and state

    /// The elements that exist from the beginning; captures and the preview come and go.
    struct Parts: Sendable {
        let transform: ProxiedElement
        let mirror: Element
        let selector: Element
        let tee: Element
        let stage: CropStage
        let camera: CameraSwitch

        /// Crops to the shape that the model takes now.
        func updateShape() { stage.set(target: (transform.element.implementation as? DecartTransform)?.shape) }
    }

    struct State {
        var settings = SourceSettings()
        var preview = Preview.absent
        /// The link for `camera-encoded`, from the last start.
        var bypass: EncodedBypass?
        var sendsEncodedCamera: Bool { bypass != nil && settings.sendsEncodedCamera }
        /// Set while the element runs.
        var audio: AudioFeed?
    }

    /// The pad `preview`.
    enum Preview: Sendable {
        case absent
        /// The pad is about to come or to go, which calls out and so needs the lock to be free.
        case reserved
        case present(PreviewBranch)

        var branch: PreviewBranch? { if case .present(let branch) = self { branch } else { nil } }
    }

    /// The source of audio for the transform's `audio_sink`.
    enum AudioFeed: Sendable {
        case microphone(Microphone)
        /// A camera that answers offers, whose audio enters there.
        case camera(entry: Pad)

        var microphone: Microphone? { if case .microphone(let microphone) = self { microphone } else { nil } }
        var cameraEntry: Pad? { if case .camera(let entry) = self { entry } else { nil } }
    }
    let state = StateLock(State())
    /// All of one moment.
    var now: State { state.read(\.self) }
    private var parts: Parts?
    /// Error of `build`, posted when the element is started.
    private var buildError: GStreamerError?
    let handle: ElementHandle
    let liveViews = LiveViewRequests()
    /// Audio for a camera that answers offers.
    let talkback: AudioTrack

    // MARK: Pads

    private init(_ handle: ElementHandle) {
        self.handle = handle
        DebianPackage.nameInErrors()
        talkback = AudioTrack(element: handle, template: "talkback", pacing: InputPacing(), log: Self.log)
        handle.unowned.beSource()
        let source = handle.makeGhostPad(template: "src")
        do throws(GStreamerError) {
            let parts = try build()
            if let target = parts.transform.element.staticPad("src") { source?.setTarget(target) }
            self.parts = parts
            parts.updateShape()
            forwardAudio(of: parts.transform.element)
        } catch { buildError = error }
        guard let source else { return }
        handle.unowned.add(source)
        // Frames sent before EOS still come back, so the preview ends when the output does. A flush undoes the EOS of both.
        source.addProbe([.downstreamEvent, .flushEvent]) { [weak self] item in
            guard case .event(let event) = item else { return .pass }
            switch event.kind {
            case .eos: self?.now.preview.branch?.end()
            case .flushStop: self?.now.preview.branch?.resume()
            default: break
            }
            return .pass
        }
    }

    private func build() throws(GStreamerError) -> Parts {
        let selector = try Element(factory: "input-selector", name: "camera-selector")
        selector.set("sync-streams", false)
        let tee = try Element(factory: "tee", name: "camera-tee")
        tee.set("allow-not-linked", true)
        let mirror = Element(class: RegisteredElementClass(Mirror.elementClass))
        mirror.set("name", "camera-mirror")
        let transform = Element(class: RegisteredElementClass(DecartTransform.elementClass))
        transform.set("name", "transform")
        (transform.implementation as? DecartTransform)?.joinParent()
        let stage = try CropStage(
            onShape: { [weak transform] isPortrait in
                transform?.set("orientation", isPortrait ? "portrait" : "landscape")
            },
            onShortage: { [weak transform] bytes, needed in
                (transform?.implementation as? DecartTransform)?.dropIncompleteFrame(bytes, needed)
            })
        let chain = [selector] + stage.elements + [mirror, tee, transform]
        handle.unowned.add(chain)
        try handle.unowned.linkChain(chain)
        if let pad = selector.staticPad("src") { stage.watch(pad) }
        let camera = CameraSwitch(
            CameraSwitch.Host(
                element: handle, selector: selector, log: Self.log,
                settings: { [weak self] in self?.now.settings ?? SourceSettings() },
                model: {
                    (transform.implementation as? DecartTransform)?.plannedFormat
                        ?? VideoFormat(width: 1280, height: 720, framerate: 30)
                },
                onFirst: { mirror.set("position", $0.position.rawValue) },
                onChange: { [weak self] in self?.handle.unowned.notify("current-device") },
                live: { [weak self] () throws(ElementProblem) in try self?.liveCamera(transform) }))
        return Parts(
            transform: ProxiedElement(transform, of: DecartTransform.elementClass, in: handle, own: Self.own),
            mirror: mirror, selector: selector, tee: tee, stage: stage, camera: camera)
    }

    /// Forwards the transform's `audio_src`, which comes and goes with the negotiation.
    private func forwardAudio(of transform: Element) {
        transform.connect("pad-added") { [weak self] arguments in
            guard let self, let pad = arguments.first?.pad, pad.name == "audio_src",
                let audioPad = self.handle.makeGhostPad(template: "audio_src")
            else { return nil }
            audioPad.setTarget(pad)
            audioPad.setActive(true)
            self.handle.unowned.add(audioPad)
            return nil
        }
        transform.connect("pad-removed") { [weak self] arguments in
            guard let self, arguments.first?.pad?.name == "audio_src",
                let audioPad = self.handle.unowned.staticPad("audio_src")
            else { return nil }
            audioPad.setActive(false)
            self.handle.unowned.remove(audioPad)
            return nil
        }
    }

    func requestPad(template: String) -> Pad? {
        if template == "talkback" { return talkback.request() }
        let (isReserved, isEncoded) = state.withLock { state -> (Bool, Bool) in
            let isEncoded = state.sendsEncodedCamera
            guard case .absent = state.preview, !isEncoded else { return (false, isEncoded) }
            state.preview = .reserved
            return (true, false)
        }
        if isEncoded {
            handle.unowned.postWarning(ElementProblem(.resourceSettings, SourceSettings.encodedPreviewConflict))
            return nil
        }
        guard isReserved else { return nil }
        let preview = parts.flatMap { try? PreviewBranch(element: handle, tee: $0.tee) }
        settle(preview)
        return preview?.pad
    }

    /// Ends the reservation.
    private func settle(_ branch: PreviewBranch?) {
        state.withLock { $0.preview = branch.map { .present($0) } ?? .absent }
    }

    func releasePad(_ pad: Pad) {
        if pad.name == "talkback" { return talkback.release() }
        let last = state.withLock { state in
            let branch = state.preview.branch
            if branch != nil { state.preview = .reserved }
            return branch
        }
        guard let last else { return }
        last.remove(from: handle.unowned)
        settle(nil)
    }

    // MARK: Properties

    func setProperty(_ name: String, _ value: GValueBox) {
        guard let parts else { return }
        if parts.transform.has(property: name) {
            parts.transform.set(name, value)
            if name == "mute-video" || name == "standby" { applyMute() }
            return
        }
        let (settings, isEncoded) = state.withLock { state in
            SourceSettings.properties.set(name, value, in: &state.settings)
            return (state.settings, state.sendsEncodedCamera)
        }
        // Before a start, the error of the start is enough.
        if isEncoded, [.paused, .playing].contains(handle.unowned.state()),
            let text = settings.conflictWithEncodedCamera(by: name)
        {
            handle.unowned.postWarning(ElementProblem(.resourceSettings, text))
        }
        SourceSettings.properties.apply(name, to: self)
    }

    func property(_ name: String) -> GValueBox? {
        switch name {
        case "current-device": GValueBox(parts?.camera.currentCamera?.id)
        default:
            SourceSettings.properties.value(name, in: now.settings) ?? parts?.transform.value(name)
        }
    }

    func propertiesChanged(_ names: [String]) {
        guard let parts else { return }
        (parts.transform.element.implementation as? DecartTransform)?.sendPrompts(names)
        parts.updateShape()
    }

    private func settle<Part: Equatable>(
        _ part: (SourceSettings) -> Part, _ apply: (SourceSettings, Parts, Part) -> Void
    ) {
        guard let parts else { return }
        LatestValue.apply(part, of: { now.settings }) { apply($0, parts, $1) }
    }

    func applyMirror() { settle(\.mirror) { $1.mirror.set("mode", $2.rawValue) } }

    /// The camera's queue reads the setting.
    func applySource() { parts?.camera.sourceChanged() }

    func applyPosition() {
        settle({ [$0.source, $0.position.rawValue] }) { settings, parts, _ in
            // A camera sets the mirror's position when its first frame arrives.
            if settings.source != SourceSettings.automatic { parts.mirror.set("position", settings.position.rawValue) }
            parts.camera.positionChanged(settings.position)
        }
    }

    func applyOrientation() {
        settle(\.orientation) { settings, parts, _ in
            // The stage decides `auto` when it sees the frames; until then the session keeps its orientation.
            parts.stage.set(orientation: settings.orientation)
            if settings.orientation != .auto {
                parts.transform.element.set("orientation", settings.orientation.rawValue)
            }
        }
    }

    func applySubscribeToken() {
        settle(\.subscribeToken) {
            ($1.transform.element.implementation as? DecartTransform)?.setSubscribeToken($2)
        }
    }

    func applyCrop() {
        settle(\.crop) { settings, parts, _ in
            let request = CropRequest(settings.crop)
            parts.stage.set(request: request ?? .all)
            if request == nil { warnOfCrop() }
        }
    }

    private func warnOfCrop() {
        handle.unowned.postWarning(
            ElementProblem(
                .resourceSettings,
                "crop must be left,top,width,height or an aspect ratio such as 16:9; nothing is cropped."))
    }

    /// With `mute-releases-camera`, the camera is closed while its frames are not sent.
    func applyMute() {
        let isReleased = { [parts] (settings: SourceSettings) in
            settings.muteReleasesCamera
                && ["mute-video", "standby"].contains { parts?.transform.value($0)?.bool == true }
        }
        settle(isReleased) { $1.camera.setMuted($2) }
    }

    // MARK: Signals

    func actionSignal(_ name: String, _ arguments: [GValueBox]) -> GValueBox? {
        guard let parts else { return nil }
        if parts.transform.has(signal: name) { return parts.transform.emit(name, arguments) }
        switch name {
        case "list-devices": return GValueBox(structures: parts.camera.devices())
        case "list-formats": return GValueBox(structures: parts.camera.formats(of: arguments.first?.string))
        case "switch-camera":
            let camera = parts.camera.switchCamera()
            if let camera { follow(camera) }
            return GValueBox(camera?.id)
        case "select-device":
            let camera = arguments.first?.string.flatMap { parts.camera.select($0) }
            if let camera { follow(camera) }
            return GValueBox(camera != nil)
        case "select-format":
            return GValueBox(arguments.first?.structure.map { parts.camera.select(format: $0) } ?? false)
        case "start-capture", "stop-capture":
            parts.camera.setCapturing(name == "start-capture")
            expectInput(parts)
        case "answer-live-view":
            guard arguments.count == 2, let number = arguments[0].int.flatMap(UInt64.init(exactly:)),
                let answer = arguments[1].structure
            else { return GValueBox(false) }
            return GValueBox(liveViews.answer(number, answer))
        case "add-live-view-candidate":
            let text = arguments.first?.string.flatMap { $0.isEmpty ? nil : $0 }
            parts.camera.liveCamera?.add(candidate: text)
            return GValueBox(parts.camera.liveCamera != nil)
        case "extend-live-view":
            parts.camera.liveCamera?.extend()
            return GValueBox(parts.camera.liveCamera != nil)
        default: break
        }
        return nil
    }

    /// Makes `position` read as the side of the camera that was chosen last.
    private func follow(_ camera: Camera) {
        let changed = state.withLock { exchange(&$0.settings.position, with: camera.side) != camera.side }
        if changed { handle.unowned.notify("position") }
    }

    // MARK: State changes

    func changeState(_ change: StateChange, chainUp: () -> StateChangeReturn) -> StateChangeReturn {
        guard let parts else {
            if change == .nullToReady { postBuildError() }
            return change == .nullToReady ? .failure : chainUp()
        }
        if change.isStart, handle.unowned.isInsideStoppingBin { return chainUp() }
        switch change {
        // In this change the transform checks that the codecs it needs are installed: the link decides which.
        case .nullToReady: return updateBypass(parts) ? chainUp() : .failure
        case .readyToPaused:
            // Read once for each start: while a session is watched, the camera switch never runs.
            let settings = now.settings
            let captures = settings.subscribeToken == nil
            // The property may have changed in READY.
            guard updateBypass(parts), start(parts, settings, captures: captures) else { return .failure }
            let result = chainUp()
            guard result != .failure else {
                stop(parts)
                return result
            }
            if captures { parts.camera.started() }
            return .noPreroll
        case .pausedToPlaying:
            let result = chainUp()
            talkback.set(playing: result != .failure)
            return result
        case .playingToPaused:
            talkback.set(playing: false)
            let result = chainUp()
            return result == .failure ? result : .noPreroll
        case .pausedToReady:
            parts.camera.willStop()
            talkback.willStop()
            let result = chainUp()
            stop(parts)
            talkback.reset()
            return result
        case .readyToNull, .other: return chainUp()
        }
    }

    private func start(_ parts: Parts, _ settings: SourceSettings, captures: Bool) -> Bool {
        parts.transform.connectAnsweredSignals()
        parts.stage.reset()
        // Before the element is in a pipeline, no bus takes a warning.
        if CropRequest(settings.crop) == nil { warnOfCrop() }
        // With `auto`, the transform's output waits for the first frame.
        parts.transform.element.set("orientation", settings.orientation.rawValue)
        parts.mirror.set("position", settings.position.rawValue)
        parts.updateShape()
        talkback.start(latency: 0, playout: Playout(), isViewer: false) { OutputTimeline() }
        do throws(ElementProblem) {
            if captures {
                try checkEncodedCamera(settings, parts)
                try requestCameraAudio(settings, parts.transform.element)
                try parts.camera.start()
                expectInput(parts)
                if let microphone = try Microphone(settings.audioSource) {
                    try microphone.attach(to: handle.unowned, parts.transform.element)
                    replaceAudio(by: .microphone(microphone))
                }
            }
            return true
        } catch {
            parts.camera.stop()
            releaseAudio(parts.transform.element)
            parts.transform.disconnectAnsweredSignals()
            handle.unowned.postError(error)
            return false
        }
    }

    private func stop(_ parts: Parts) {
        parts.camera.stop()
        releaseAudio(parts.transform.element)
        parts.transform.disconnectAnsweredSignals()
    }

    /// A camera that dials in may take its time.
    private func expectInput(_ parts: Parts) {
        let transform = parts.transform.element.implementation as? DecartTransform
        transform?.set(expectsInput: parts.camera.expectsFrames)
    }

    private func postBuildError() {
        handle.unowned.postError(.missing(buildError?.message ?? "unknown"))
    }

    // MARK: Events and messages

    /// A camera's error does not end the element, because another camera can replace it, and without the microphone
    /// video continues. STATE_CHANGED messages of the children are dropped as in `DecartTransform`. LATENCY messages of
    /// the transform itself are forwarded, those of other children only while there is a preview.
    func handleMessage(_ message: Message) -> Message? {
        switch message.kind {
        case .stateChanged: return nil
        case .latency:
            let isOwn = (parts?.transform.element).map { message.isFrom($0) } ?? false
            return isOwn || now.preview.branch != nil ? message : nil
        case .error: break
        case .warning: return parts?.camera.isLeaving(message) == true ? nil : message
        case .progress: return parts?.camera.liveCamera?.hides(message) == true ? nil : message
        default: return message
        }
        if parts?.camera.claims(message) == true { return nil }
        guard let claim = now.audio?.microphone?.claims(message), claim.isOurs else { return message }
        if let warning = claim.warning { handle.unowned.postWarning(ElementProblem(.resourceRead, warning)) }
        return nil
    }

    func clockChanged() { talkback.clockChanged() }

    func sendEvent(_ event: Event) -> Bool? {
        guard event.kind == .eos, let parts else { return nil }
        parts.camera.willStop()
        parts.transform.element.send(event)
        return true
    }
}
