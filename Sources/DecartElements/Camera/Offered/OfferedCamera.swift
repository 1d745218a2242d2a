// A camera that answers offers: a source bin whose live views come one after the other, over a WHEP server or the
// application. `LiveViewMachine` decides, and this file performs. It knows cameras; it must not know sessions.
//
// Every method runs on the camera's queue unless it says otherwise, or before and after that queue works.
import DecartProtocol
import Dispatch
import GStreamerKit
import MediaPipeline
import Signalling
import Synchronization
import WebRTCTransport

// @unchecked: what is outside the mutex belongs to the camera's queue.
final class OfferedCamera: @unchecked Sendable {
    enum Service: Sendable {
        /// The application carries offers to the camera's service.
        case signals(LiveViewRequests)
        /// Called for each live view, because the token may have changed.
        case whep(@Sendable () throws(ElementProblem) -> WHEPResource.Configuration)

        /// Time that an offer should wait for candidates.
        var gatheringLimit: Duration {
            switch self {
            // The offer should be complete, because there is no way for later candidates.
            case .signals: .seconds(2)
            // Candidates of this host come at once; those of a STUN or TURN server may follow by PATCH.
            case .whep: .milliseconds(250)
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
    private let loggers: SessionLoggers

    private struct View {
        let number: Int
        let connection: CameraConnection
        let exchange: any OfferExchange
        let offer: OfferText
        /// Gathered and not handed over.
        var candidates: [String] = []
        var isComplete = false
        var isRequested = false
        /// Hands later candidates over together.
        var isAdding = false
    }
    private var machine: LiveViewMachine
    private var view: View?
    private var pending: [LiveViewMachine.Event] = []
    private var isHandling = false
    private var isOver = false
    private let current = Mutex<(number: Int, connection: CameraConnection)?>(nil)

    private static let origin = ContinuousClock.now

    init(_ settings: Settings, host: Host) throws(ElementProblem) {
        (self.settings, self.host) = (settings, host)
        // Wrong settings fail the start of the element, not each live view.
        _ = try settings.access.configuration(audio: nil, encoded: settings.encodedCodecs?())
        video = StreamJoint(name: "video")
        audio = settings.takesAudio ? StreamJoint(name: "audio") : nil
        loggers = SessionLoggers(host.element.unowned.name)
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
    func add(candidate: String?) {
        host.perform(nil) { [weak self] in self?.view?.connection.add(candidate: candidate) }
    }

    /// Handles an error of an element in the bin: the view fails, and the next one begins. Any thread.
    func claims(_ message: Message) -> Bool {
        guard message.isFrom(within: bin) else { return false }
        let text = message.problem?.text ?? "its error has no text"
        host.log(.warning, host.element.unowned, "\(message.sourceName): \(text) \(message.problem?.debug ?? "")")
        guard let current = self.current.withLock({ $0 }), current.connection.posted(message) else { return true }
        fail(current.number, text)
        return true
    }

    // MARK: Driver

    private func enqueue(_ event: LiveViewMachine.Event) { host.perform(nil) { [weak self] in self?.handle(event) } }

    private func fail(_ number: Int, _ text: String) {
        enqueue(.failed(view: number, LiveViewFailure(reason: text)))
    }

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
        case .request(let number): request(number)
        case .connect(let number, let grant): connect(number, grant)
        case .extend(let number): if view?.number == number { view?.exchange.extend() }
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
            let talkback = withAudio && settings.talkback.isWanted ? settings.talkback : nil
            var takesAudio = withAudio && settings.takesAudio
            var offersAudioVideoData = false
            if case .signals = settings.service { (takesAudio, offersAudioVideoData) = (true, true) }
            var configuration = try settings.access.configuration(
                audio: talkback == nil ? takesAudio ? .recvonly : nil : takesAudio ? .sendrecv : .sendonly,
                encoded: settings.encodedCodecs?())
            configuration.offersAudioVideoData = offersAudioVideoData
            configuration.loggers = loggers.transport.naming("camera")
            let exchange = try makeExchange(number)
            let connection = try CameraConnection(
                configuration, number: number, in: bin, video: video, decodes: settings.encodedCodecs == nil,
                audio: withAudio ? audio : nil, talkback: talkback, logger: loggers.media,
                perform: { [host] in host.perform(nil, $0) },
                onFirst: { [weak self] in self?.enqueue(.firstFrame(view: number)) }
            ) { [weak self] event in
                self?.host.perform(nil) { [weak self] in self?.handle(event, of: number) }
            }
            current.withLock { $0 = (number, connection) }
            do {
                view = View(
                    number: number, connection: connection, exchange: exchange, offer: try connection.makeOffer())
            } catch {
                current.withLock { $0 = nil }
                connection.close()
                throw error
            }
        } catch {
            handle(.failed(view: number, LiveViewFailure(reason: Self.text(error))))
        }
    }

    private func makeExchange(_ number: Int) throws(ElementProblem) -> any OfferExchange {
        let onEvent = { @Sendable [weak self] (event: LiveViewMachine.Event) -> Void in self?.enqueue(event) }
        return switch settings.service {
        case .signals(let requests): SignalExchange(host.element, requests, view: number, onEvent: onEvent)
        case .whep(let configuration): WHEPExchange(try configuration(), view: number, onEvent: onEvent)
        }
    }

    private func request(_ number: Int) {
        guard var view, view.number == number else { return }
        let candidates = view.candidates
        (view.candidates, view.isRequested) = ([], true)
        self.view = view
        view.exchange.start(view.offer, candidates: candidates, isComplete: view.isComplete)
    }

    private func connect(_ number: Int, _ grant: LiveViewGrant) {
        guard let view, view.number == number else { return }
        do {
            try view.connection.apply(answer: grant.answer)
        } catch {
            handle(.failed(view: number, LiveViewFailure(reason: Self.text(error))))
        }
    }

    private func closeView() {
        guard let last = view.take() else { return }
        current.withLock { $0 = nil }
        last.connection.close()
        last.exchange.end()
    }

    private func handle(_ event: PeerConnectionEvent, of number: Int) {
        guard view?.number == number else { return }
        switch event {
        case .localCandidate(let candidate):
            view?.candidates.append(candidate.candidate)
            addLater()
        case .gatheringComplete:
            view?.isComplete = true
            // The offer that is handed over now is complete.
            if view?.isRequested == true { addLater() } else { handle(.gathered(view: number)) }
        case .codecArrived(let codec):
            do { try view?.connection.change(to: codec) } catch {
                handle(.failed(view: number, LiveViewFailure(reason: Self.text(error))))
            }
        case .stateChanged(.failed(let error)):
            let isClose = error == .closedByPeer
            handle(.failed(view: number, LiveViewFailure(reason: error.message, isClose: isClose)))
        case .stateChanged, .iceConnected, .iceRestarted, .disconnected, .reconnected, .bitrateTarget, .streamArrived,
            .relaysMissing:
            break
        }
    }

    /// Hands candidates over that came after the offer, those of a moment together.
    private func addLater() {
        guard let number = view?.number, view?.isRequested == true, view?.isAdding == false else { return }
        view?.isAdding = true
        host.perform(.milliseconds(50)) { [weak self] in
            guard let self, var view = self.view, view.number == number else { return }
            let candidates = view.candidates
            (view.candidates, view.isAdding) = ([], false)
            self.view = view
            view.exchange.add(view.offer, candidates: candidates, isComplete: view.isComplete)
        }
    }

    private static func text(_ error: any Error) -> String {
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
