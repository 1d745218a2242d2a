import EventLoopThreads
import Foundation
import GStreamerKit
import Synchronization

/// One connection of a manager: `appsrc ! decarttransform ! appsink`. It calls its host on GStreamer's threads.
///
/// State changes and everything that may wait for the session's thread run on a queue of their own.
final class RealtimeSession: Sendable {
    struct Host: Sendable {
        let state: @Sendable (DecartRealtimeState) -> Void
        let notice: @Sendable (RealtimeNotice) -> Void
    }

    let remote = SampleHub()
    let remoteAudio = SampleHub()
    /// Fulfilled when media flow.
    let connected = Promise<Void>()

    private let host: Host
    private let pipeline: Pipeline
    private let element: Element
    private let video: AppSource
    private let audio: AppSource?
    private let queue = SerialQueue(label: "decart-session")

    private struct State {
        var isOver = false
        var readers: [(hub: SampleHub, id: Int)] = []
        var videoReader: (track: VideoTrack, id: Int)?
        /// Keeps the source of the audio.
        var audioTrack: AudioTrack?
        var hasInput = false
        /// Waiting requests by the id of the element, and results that came before their request knew its id.
        var requests: [Int: Promise<PromptResult>] = [:]
        var results: [Int: Result<PromptResult, DecartError>] = [:]
        var requestsInFlight = 0
        var lastWarning: DecartError?
        var lastState = DecartRealtimeState()
    }
    private let state = Mutex(State())

    init(_ properties: ElementProperties, hasAudio: Bool, host: Host) throws(DecartError) {
        self.host = host
        do throws(GStreamerError) {
            pipeline = Pipeline()
            element = try Element(factory: "decarttransform", name: "decart")
            video = try AppSource(Element(factory: "appsrc", name: "video"))
            video.beLive()
            let output = try AppSink(Element(factory: "appsink", name: "output"))
            output.element.set("caps", caps: try Caps("video/x-raw,format=I420"))
            output.element.set("max-buffers", 2)
            output.element.set("drop", true)
            output.element.set("async", false)
            pipeline.add([video.element, element, output.element])
            try pipeline.linkChain([video.element, element, output.element])
            output.onSample { [remote] in remote.deliver($0) }
            if hasAudio {
                let input = try AppSource(Element(factory: "appsrc", name: "audio"))
                input.beLive(limit: 50)
                let convert = try Element(factory: "audioconvert")
                let resample = try Element(factory: "audioresample")
                let chain = [input.element, convert, resample]
                pipeline.add(chain)
                try pipeline.linkChain(chain)
                guard let source = resample.staticPad("src"), let sink = element.requestPad("audio_sink") else {
                    throw GStreamerError(.linkFailed, "the element for Opus is missing")
                }
                try source.link(sink)
                audio = input
            } else {
                audio = nil
            }
        } catch { throw DecartError(error) }
        properties.apply(to: element)
        element.connect("pad-added") { [weak self] arguments in
            if let pad = arguments.first?.pad, pad.name == "audio_src" { self?.attachAudio(pad) }
            return nil
        }
        pipeline.bus.setSyncHandler { [weak self] in self?.receive($0) }
    }

    deinit { end() }

    /// Connects the service's audio, on the thread that adds the pad.
    private func attachAudio(_ pad: Pad) {
        guard let output = try? AppSink(Element(factory: "appsink", name: nil)) else { return }
        output.element.set("max-buffers", 16)
        output.element.set("drop", true)
        output.element.set("async", false)
        output.onSample { [remoteAudio] in remoteAudio.deliver($0) }
        pipeline.add(output.element)
        output.element.syncStateWithParent()
        if let sink = output.element.staticPad("sink") { try? pad.link(sink) }
    }

    // MARK: Life

    /// Sends the first prompt to the element, and starts. The result is that of `connected`.
    func start(_ prompt: DecartPrompt?) {
        queue.async { [weak self] in
            guard let self, !state.withLock(\.isOver) else { return }
            if let prompt {
                emit(prompt)
                if let warning = state.withLock(\.lastWarning) { return fail(warning) }
            }
            if pipeline.setState(.playing) == .failure {
                fail(state.withLock(\.lastWarning) ?? .processingError("The session does not start."))
            }
        }
    }

    /// Fails if no frame of the local track has come; nothing is sent before the first.
    func expectInput(within limit: Duration) async {
        try? await Task.sleep(for: limit)
        if !state.withLock(\.hasInput), !Task.isCancelled {
            fail(.invalidInput("The local video track has given no frame. Start its capture or source before connect."))
        }
    }

    private func fail(_ error: DecartError) { connected.resolve(.failure(error)) }

    /// Ends everything, without waiting.
    func end() {
        let (isFirst, former) = state.withLock { state -> (Bool, State) in
            defer {
                state = State()
                state.isOver = true
            }
            return (!state.isOver, state)
        }
        guard isFirst else { return }
        for (hub, id) in former.readers { hub.remove(id) }
        if let (track, id) = former.videoReader { track.hub.remove(id) }
        let over = DecartError.websocketError("The session was disconnected.")
        connected.resolve(.failure(over))
        for request in former.requests.values { request.resolve(.failure(over)) }
        remote.end()
        remoteAudio.end()
        queue.async { [pipeline] in pipeline.setState(.null) }
    }

    /// Ends everything and waits for it.
    func endAndWait() async {
        end()
        await withCheckedContinuation { done in queue.async { done.resume() } }
    }

    // MARK: Local tracks

    func send(_ track: VideoTrack) {
        let reader = SampleHub.Reader(
            take: { [weak self, video] sample in
                self?.state.withLock { $0.hasInput = true }
                video.push(sample)
            }, end: { [weak self] in self?.localEnded($0) })
        let id = track.hub.add(reader)
        let former = state.withLock { state -> (VideoTrack, Int)? in
            guard !state.isOver else { return (track, id) }
            return exchange(&state.videoReader, with: (track, id))
        }
        if let (track, id) = former { track.hub.remove(id) }
    }

    func send(_ track: AudioTrack) {
        guard let audio else { return }
        let id = track.hub.add(
            SampleHub.Reader(take: { audio.push($0) }, end: { [host] in host.notice(.localTrackEnded($0)) }))
        let isOver = state.withLock { state in
            state.audioTrack = track
            state.readers.append((track.hub, id))
            return state.isOver
        }
        if isOver { track.hub.remove(id) }
    }

    private func localEnded(_ error: DecartError?) {
        if let error { fail(error) }
        host.notice(.localTrackEnded(error))
    }

    // MARK: Requests

    /// Sends a prompt, an image or both, and waits for the service's answer.
    func request(_ request: Request) async throws -> PromptResult {
        let answer = Promise<PromptResult>()
        queue.async { [weak self] in
            guard let self else { return answer.resolve(.failure(DecartError.websocketError("There is no session."))) }
            state.withLock { state in
                state.requestsInFlight += 1
                state.lastWarning = nil
            }
            let id = emit(request)
            let early = state.withLock { state -> Result<PromptResult, DecartError>? in
                state.requestsInFlight -= 1
                defer { if state.requestsInFlight == 0 { state.results = [:] } }
                guard !state.isOver else { return .failure(.websocketError("The session was disconnected.")) }
                guard id > 0 else {
                    return .failure(state.lastWarning ?? .invalidInput("The prompt or the image is invalid."))
                }
                if let result = state.results.removeValue(forKey: id) { return result }
                state.requests[id] = answer
                return nil
            }
            if let early { answer.resolve(early.mapError { $0 }) }
        }
        return try await answer.value()
    }

    enum Request: Sendable {
        case prompt(DecartPrompt)
        case image(Data?, prompt: String?, enrich: Bool)
    }

    @discardableResult private func emit(_ request: Request) -> Int {
        switch request {
        case .prompt(let prompt): return emit(prompt)
        case .image(let image, let prompt, let enrich):
            let arguments = [GValueBox(bytes: image.map { Array($0) } ?? []), GValueBox(prompt), GValueBox(enrich)]
            return element.emit("set-image", arguments)?.int ?? 0
        }
    }

    @discardableResult private func emit(_ prompt: DecartPrompt) -> Int {
        if let image = prompt.referenceImageData {
            return emit(.image(image, prompt: prompt.text, enrich: prompt.enrich))
        }
        return element.emit("set-prompt", [GValueBox(prompt.text), GValueBox(prompt.enrich)])?.int ?? 0
    }

    /// Sets a property on the session's queue.
    func set(_ property: String, _ value: Bool) {
        queue.async { [element] in element.set(property, value) }
    }

    func extend(bySeconds seconds: Int) {
        queue.async { [element] in element.emit("extend-session", [GValueBox(uint: seconds)]) }
    }

    func statistics() async -> RealtimeStatistics? {
        await withCheckedContinuation { done in
            queue.async { [element] in
                done.resume(returning: element.structure("stats").map(RealtimeStatistics.init))
            }
        }
    }

    // MARK: Messages

    private func receive(_ message: Message) {
        guard !state.withLock(\.isOver) else { return }
        switch message.kind {
        case .error:
            guard let error = DecartError(message) else { return }
            fail(error)
            // An error of the element's start changes no state.
            let last = state.withLock { state -> DecartRealtimeState? in
                guard state.lastState.connectionState != .error else { return nil }
                state.lastState.connectionState = .error
                return state.lastState
            }
            if let last { host.state(last) }
        case .warning:
            guard let error = DecartError(message) else { return }
            state.withLock { $0.lastWarning = error }
            host.notice(.warning(error))
        case .latency: queue.async { [pipeline] in pipeline.recalculateLatency() }
        case .element: if let structure = message.structure { receive(structure) }
        default: break
        }
    }

    private func receive(_ message: Structure) {
        switch message.name {
        case "decart-state": receive(DecartRealtimeState(message), message)
        case "decart-prompt-result": receivePromptResult(message)
        case "decart-quality":
            host.notice(
                .quality(
                    message.string("quality") ?? "unknown", limitingFactor: message.string("limiting-factor") ?? "none")
            )
        case "decart-session-ending":
            host.notice(.sessionEnding(in: .seconds(message.double("seconds-left") ?? 0)))
        case "decart-session-renewed":
            host.notice(.sessionRenewed(after: .seconds(message.double("seconds") ?? 0)))
        default: break
        }
    }

    private func receive(_ now: DecartRealtimeState, _ message: Structure) {
        state.withLock { $0.lastState = now }
        host.state(now)
        if now.connectionState.isConnected {
            connected.fulfil()
        } else if now.retries > 0, connected.isPending, let code = message["error-code"]?.text {
            // The first attempt has failed. Reconnecting is for connections that have been up.
            fail(DecartError(code: code, text: message["error-message"]?.text ?? code))
        }
    }

    private func receivePromptResult(_ message: Structure) {
        guard let id = message.int("id") else { return }
        let result: Result<PromptResult, DecartError> =
            if message["accepted"]?.bool == true {
                .success(
                    PromptResult(
                        text: message["text"]?.text ?? "", isStored: message["stored"]?.bool ?? false,
                        elapsed: .milliseconds(message.int("milliseconds") ?? 0)))
            } else {
                .failure(.processingError(message["error"]?.text ?? "The service has refused the prompt."))
            }
        let request = state.withLock { state -> Promise<PromptResult>? in
            if let request = state.requests.removeValue(forKey: id) { return request }
            if state.requestsInFlight > 0 { state.results[id] = result }
            return nil
        }
        request?.resolve(result.mapError { $0 })
    }
}
