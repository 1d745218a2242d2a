// A camera on the network: a source bin whose live views come one after the other, over RTSP, a WHEP server or the
// application. `LiveViewMachine` decides, and this file performs. It knows cameras; it must not know sessions.
//
// Every method runs on the camera's queue unless it says otherwise, or before and after that queue works.
import DecartProtocol
import DecartSession
import Dispatch
import GStreamerKit
import ICE
import MediaPipeline
import RTP
import Signalling
import Synchronization
import WebRTCTransport

// @unchecked: what is outside the mutex belongs to the camera's queue.
final class LiveCamera: @unchecked Sendable {
    enum Service: Sendable {
        /// The application carries offers to the camera's service.
        case signals(LiveViewRequests)
        /// Called for each live view, because the token may have changed.
        case whep(@Sendable () throws(ElementProblem) -> WHEPResource.Configuration)
        case rtsp(RTSPCamera)

        /// Time that an offer should wait for candidates.
        var gatheringLimit: Duration {
            switch self {
            // The offer should be complete, because there is no way for later candidates.
            case .signals: .seconds(2)
            // Candidates of this host come at once; those of a STUN or TURN server may follow by PATCH.
            case .whep: .milliseconds(250)
            // Nothing is gathered.
            case .rtsp: .zero
            }
        }
    }

    struct Settings: Sendable {
        var service: Service
        /// "the WHEP camera at camera.example", for messages.
        var label: String
        var access: MediaAccess
        var takesAudio: Bool
        /// Audio for the camera, while the track has an input.
        var talkback: AudioTrack
        /// The codecs in which video may be forwarded encoded, read for each live view; nil: it is decoded.
        var encodedCodecs: (@Sendable () -> [VideoCodec])?
    }

    struct Host: Sendable {
        let element: ElementHandle
        let log: DebugCategory
        /// Runs work on the camera's queue, unless the element stops before.
        let perform: @Sendable (_ after: Duration?, _ work: @escaping @Sendable () -> Void) -> Void
    }

    let bin = Bin(name: "live-view")
    let settings: Settings
    private let host: Host
    private let video: StreamJoint
    private let audio: StreamJoint?
    /// Knows the secrets of all views, for the log of their layers.
    private let redactor = RunRedactor([])
    private let loggers: SessionLoggers

    private var machine: LiveViewMachine
    private var view: (any LiveView)? { didSet { shared.withLock { $0.view = view } } }
    private var pending: [LiveViewMachine.Event] = []
    private var isHandling = false
    private var isOver = false

    /// For other threads.
    private struct Shared: Sendable {
        var view: (any LiveView)?
        /// STUN and TURN servers that the WHEP server names. Some give new credentials with each answer.
        var servers: [ICEServer] = []
    }
    private let shared = StateLock(Shared())

    private static let origin = ContinuousClock.now

    init(_ settings: Settings, host: Host) throws(ElementProblem) {
        (self.settings, self.host) = (settings, host)
        // Wrong settings fail the start of the element, not each live view.
        _ = try settings.access.configuration(audio: nil, encoded: settings.encodedCodecs?())
        video = StreamJoint(name: "video")
        audio = settings.takesAudio ? StreamJoint(name: "audio") : nil
        loggers = SessionLoggers(host.element.unowned.name).guarded(by: redactor)
        machine = LiveViewMachine(gatheringLimit: settings.service.gatheringLimit)
        for (name, joint) in [("src", video), ("audio_src", audio)] as [(String, StreamJoint?)] {
            guard let joint else { continue }
            let pad = GhostPad(name: name, direction: .source)
            pad.setTarget(joint.source)
            bin.add(pad)
        }
    }

    /// Begins the first live view. Any thread.
    func begin() { host.perform(nil) { [weak self] in self?.handle(.start) } }

    /// Ends the live view. Nothing begins afterwards.
    func stop() {
        guard !isOver else { return }
        handle(.stop)
        isOver = true
    }

    /// Asks for an extension of the granted duration now. Any thread.
    func extend() { host.perform(nil) { [weak self] in self?.handle(.extend) } }

    /// Takes a candidate of the camera; nil: the last one has come. Any thread.
    func add(candidate: String?) { host.perform(nil) { [weak self] in self?.view?.add(candidate: candidate) } }

    /// Handles an error of an element in the bin: the view fails, and the next one begins. Any thread.
    func claims(_ message: Message) -> Bool {
        guard message.isFrom(within: bin) else { return false }
        let view = shared.read(\.view)
        let text = "\(message.problem?.text ?? Self.noText) \(message.problem?.debug ?? "")"
        host.log(.warning, host.element.unowned, "\(message.sourceName): \(view?.redacting(text) ?? text)")
        if let view, let failure = view.failure(message) { enqueue(.failed(view: view.number, failure)) }
        return true
    }

    /// True for a message that would name the camera's address with its query.
    func hides(_ message: Message) -> Bool { message.kind == .progress && message.isFrom(within: bin) }

    static let noText = "its error has no text"

    // MARK: Driver

    private func enqueue(_ event: LiveViewMachine.Event) { host.perform(nil) { [weak self] in self?.handle(event) } }

    private func handle(_ event: LiveViewMachine.Event) {
        guard !isOver else { return }
        pending.append(event)
        // An action may cause the next event, which waits until all actions are done.
        guard !isHandling else { return }
        isHandling = true
        defer { isHandling = false }
        while !pending.isEmpty {
            let event = pending.removeFirst()
            let now = ContinuousClock.now - Self.origin
            for action in machine.handle(event, now: now, jitter: .random(in: 0...1)) { perform(action) }
        }
    }

    private func perform(_ action: LiveViewMachine.Action) {
        switch action {
        case .open(let number): open(number)
        case .openWithoutAudio(let number): open(number, withAudio: false)
        case .request(let number): if view?.number == number { view?.request() }
        case .connect(let number, let grant): connect(number, grant)
        case .extend(let number): if view?.number == number { view?.extend() }
        case .close(let number): if view?.number == number { closeView() }
        case .schedule(let timer, let id, let delay):
            host.perform(delay) { [weak self] in
                guard let self else { return }
                let isPlaying = self.host.element.unowned.state() == .playing
                self.handle(.fired(timer, id: id, frames: isPlaying ? self.video.count : nil))
            }
        case .report(let report): post(report)
        case .warn(let text):
            let label = settings.label.capitalizedFirst
            host.element.unowned.postWarning(ElementProblem(.resourceRead, "\(label): \(text)"))
        }
    }

    private func open(_ number: Int, withAudio: Bool = true) {
        do {
            let opened = try makeView(number, withAudio)
            view = opened
        } catch {
            handle(.failed(view: number, LiveViewFailure(reason: Self.text(error))))
        }
    }

    private func makeView(_ number: Int, _ withAudio: Bool) throws -> any LiveView {
        let onEvent = { @Sendable [weak self] (event: LiveViewMachine.Event) -> Void in self?.enqueue(event) }
        let joints = CameraReceivers.Joints(
            video: video, audio: withAudio ? audio : nil, onFirst: { onEvent(.firstFrame(view: number)) },
            onUnusableAudio: { onEvent(.audioUnusable(view: number, reason: $0)) })
        let exchange: any OfferExchange
        let servers = shared.read(\.servers)
        var redacting: @Sendable (String) -> String = { $0 }
        switch settings.service {
        case .signals(let requests):
            exchange = SignalExchange(host.element, requests, view: number, onEvent: onEvent)
        case .whep(let configuration):
            let hasRelays = settings.access.connection.iceServers.contains { $0.kind == .turn }
            let isFirst = !hasRelays && !servers.contains { $0.kind == .turn }
            let resource = try configuration()
            let token = resource.token.map { [$0] } ?? []
            resource.url.secrets(token).forEach(redactor.add)
            redacting = { resource.url.redacting($0, token) ?? TextRedactor.mark }
            exchange = WHEPExchange(
                resource, view: number,
                onServers: { [weak self] in self?.learn($0) == true && isFirst }, onEvent: onEvent)
        case .rtsp(let camera):
            camera.url.secrets.forEach(redactor.add)
            return try RTSPView(
                camera, number: number, in: bin, joints, encodedCodecs: settings.encodedCodecs?(),
                logger: loggers.media, perform: { [host] in host.perform(nil, $0) }, onEvent: onEvent)
        }
        let talkback = withAudio && settings.talkback.isWanted ? settings.talkback : nil
        var takesAudio = withAudio && settings.takesAudio
        var offersAudioVideoData = false
        if case .signals = settings.service { (takesAudio, offersAudioVideoData) = (true, true) }
        var configuration = try settings.access.configuration(
            audio: talkback == nil ? takesAudio ? .recvonly : nil : takesAudio ? .sendrecv : .sendonly,
            encoded: settings.encodedCodecs?())
        configuration.offersAudioVideoData = offersAudioVideoData
        configuration.iceServers = Self.iceServers(configuration.iceServers, named: servers)
        configuration.loggers = loggers.transport.naming("camera")
        return try OfferedView(
            configuration, number: number, in: bin, joints, decodes: settings.encodedCodecs == nil, talkback: talkback,
            exchange: exchange, redacting: redacting, logger: loggers.media, host: host, onEvent: onEvent)
    }

    /// Joins our ICE servers and the camera's, as in a room: the agent uses only one STUN server, preferably the camera's, and
    /// without one of our own, none is to be asked.
    private static func iceServers(_ own: [ICEServer], named: [ICEServer]) -> [ICEServer] {
        let ownSTUN = own.first { $0.kind == .stun }
        let stun = ownSTUN == nil ? nil : named.first { $0.kind == .stun } ?? ownSTUN
        return Array(([stun].compactMap(\.self) + (own + named).filter { $0.kind == .turn }).prefix(16))
    }

    /// Keeps the servers for the next view. Any thread.
    /// - Returns: false if no TURN server is among them.
    private func learn(_ links: [ICEServerLink]) -> Bool {
        let connection = settings.access.connection
        links.compactMap(\.credential).forEach { redactor.add($0.reveal()) }
        let named = links.compactMap {
            connection.serverNamedByPeer($0.url, username: $0.username, credential: $0.credential?.reveal())
        }
        if !named.isEmpty { shared.withLock { $0.servers = named } }
        return named.contains { $0.kind == .turn }
    }

    private func connect(_ number: Int, _ grant: LiveViewGrant) {
        guard let view, view.number == number else { return }
        do {
            try view.connect(grant)
        } catch {
            handle(.failed(view: number, LiveViewFailure(reason: view.redacting(Self.text(error)))))
        }
    }

    private func closeView() {
        view.take()?.close()
    }

    static func text(_ error: any Error) -> String {
        switch error {
        case let error as PeerConnectionError: error.message
        case let error as GStreamerError: error.message
        case let error as ElementProblem: error.text
        default: "the connection could not be made"
        }
    }

    // MARK: Messages

    private func post(_ report: LiveViewMachine.Report) {
        host.element.unowned.post(
            Structure(
                "decart-live-view", ("state", GValueBox(report.state.rawValue)),
                ("duration", GValueBox(double: report.duration.map { $0 / .seconds(1) } ?? -1)),
                ("retry-delay", GValueBox(double: report.delay.map { $0 / .seconds(1) } ?? -1)),
                ("reason", GValueBox(report.reason))))
    }
}
