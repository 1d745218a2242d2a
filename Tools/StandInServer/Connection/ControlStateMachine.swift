// The control channel of one session as a state machine: takes events and returns actions. It knows no socket, clock,
// thread, log or media; `ConnectionHandler` drives it and carries the actions out.
import DecartProtocol

struct ControlStateMachine {
    struct Rules: Sendable {
        var identity: SessionIdentity
        var transports: Set<MediaTransportKind> = [.webrtc, .livekit]
        /// The client's URL requests a room: `opened()` sends no greeting, which would make the client send an offer.
        var asksForRoom = false
        /// Send candidates as messages of their own; otherwise the answer holds all of them.
        var trickles = false
        /// The client watches another session: it accepts no prompt or image, and receives video only.
        var isViewer = false
        /// A prompt that contains this word is refused, so that clients can test a refusal.
        static let refusalWord = "refuse-me"
        /// The way in which the output comes back after the input was silent.
        var idleOutput = Fault.Output.same
        /// Number of prompts and images to accept before all further ones are refused; nil: no limit.
        var acceptedCount: Int?
    }

    enum Action: Sendable, Equatable {
        case send(ServerMessage)
        case setLook(Look)
        /// The driver replies with `roomOpened`.
        case openRoom
        case startMedia(offer: String)
        case media(MediaRequest)
        /// An answer waits for its candidates; the driver calls `candidatesOverdue` after a timeout.
        case awaitCandidates
        case stopMedia
        /// Drops frames until the generation restarts. Unpublishes a room's track now if `isWithdrawn`.
        case pauseMedia(Fault.Output)
        case restartMedia(Fault.Output)
        /// The next frame starts a generation (`framesArrive`). Unpublishes a room's track now if `isWithdrawn`.
        case awaitFrame(Fault.Output)
        case startTicks
        case stopTicks
    }

    private enum Phase: Equatable {
        case idle
        case negotiating(MediaTransportKind)
        case generating(seconds: Int)
        case over
    }

    private var rules: Rules
    private var acceptedCount = 0
    private var phase = Phase.idle
    /// The generation has ended but may restart.
    private var isPaused = false
    /// The generation has ended because no frames arrive; the next frame starts another.
    private var isIdle = false
    /// Frames that had arrived at the last tick, and the seconds in which none have arrived since.
    private var lastFrameCount = 0
    private var quietSeconds = 0
    /// Seconds without frames that end the generation.
    private static let idleTimeout = 2
    /// Our own offer is in flight.
    private var awaitsAnswer = false
    /// The latest media path is a direct connection, not a room.
    private var isDirect = false
    private var text: String?
    private var imageHash: UInt64?
    /// A prompt, image or passthrough was accepted.
    private(set) var hasState = false
    /// An offer arrived before any state, so the first frames went back untransformed.
    private(set) var offeredBeforeState = false
    /// Candidates that arrived before the offer, in order.
    private var earlyCandidates: [CandidateMessage?] = []
    private var candidateCount = 0
    private static let maximumCandidateCount = 256
    /// Bytes; ICE accepts no longer candidate.
    private static let maximumCandidateSize = 1024
    private var answerCandidates: AnswerCandidates

    init(rules: Rules) {
        self.rules = rules
        answerCandidates = AnswerCandidates(trickles: rules.trickles)
    }

    // MARK: Client messages

    mutating func opened() -> [Action] {
        if rules.isViewer { return [.send(.status("ready"))] }
        guard rules.transports.contains(.webrtc), !(rules.asksForRoom && rules.transports.contains(.livekit)) else {
            return []
        }
        return [.send(.status("ready")), .send(.sessionID(rules.identity))]
    }

    mutating func received(_ message: ClientMessage) -> [Action] {
        guard phase != .over else { return [] }
        switch message {
        case .prompt(let prompt): return received(prompt)
        case .setImage(let image): return received(image)
        case .offer(let sdp): return receivedOffer(sdp)
        case .answer(let sdp) where awaitsAnswer:
            awaitsAnswer = false
            return [.media(.receiveAnswer(sdp))]
        case .answer: return [.send(.error("unexpected answer: there is no offer"))]
        case .iceCandidate(let candidate): return received(candidate)
        case .livekitJoin(let join): return received(join)
        case .unknown: return []
        }
    }

    mutating func receivedMalformed(_ reason: String) -> [Action] {
        phase == .over ? [] : [.send(.error(reason))]
    }

    private mutating func received(_ prompt: PromptMessage) -> [Action] {
        if let refusal = refusal(of: prompt.text) {
            return [.send(.promptAck(PromptAck(prompt: prompt.text, success: false, error: refusal.reason)))]
        }
        text = prompt.text
        return look() + [.send(.promptAck(PromptAck(prompt: prompt.text, success: true)))]
    }

    private mutating func received(_ message: SetImageMessage) -> [Action] {
        do throws(Refusal) {
            imageHash = try imageHash(of: message)
        } catch {
            return [.send(.setImageAck(SetImageAck(success: false, error: error.reason)))]
        }
        switch message.text {
        case .unchanged: break
        case .none: text = nil
        case .prompt(let prompt): text = prompt
        }
        return look() + [.send(.setImageAck(SetImageAck(success: true)))]
    }

    /// The stand-in's user changes the prompt. It does not count as one of the client's.
    mutating func overridden(prompt: String) -> [Action] {
        guard phase != .over, !rules.isViewer else { return [] }
        text = prompt
        hasState = true
        return [.setLook(Look(prompt: text, imageHash: imageHash))]
    }

    /// Validates the whole message first, so that a refused message changes nothing.
    private func imageHash(of message: SetImageMessage) throws(Refusal) -> UInt64? {
        if let refusal = refusalOfEverything { throw refusal }
        if case .prompt(let prompt) = message.text, let refusal = refusal(of: prompt) { throw refusal }
        switch message.image {
        case .none: return nil
        case .data(let base64): return try ImageInput.hash(base64: base64)
        case .reference(let id):
            guard id.hasPrefix("file_") else { throw Refusal(reason: "image_ref is not the id of a file") }
            return StableHash.fnv1a(id.utf8)
        }
    }

    private var refusalOfEverything: Refusal? {
        if rules.isViewer { return Refusal(reason: "a viewer changes nothing") }
        guard let limit = rules.acceptedCount, acceptedCount >= limit else { return nil }
        return Refusal(reason: "refused by a fault of this stand-in")
    }

    /// Replaces the limit; prompts and images accepted so far count against it.
    mutating func limitAccepted(to count: Int?) {
        rules.acceptedCount = count
    }

    private func refusal(of prompt: String) -> Refusal? {
        if let refusal = refusalOfEverything { return refusal }
        return Self.moderation(of: prompt).map { Refusal(reason: $0) }
    }

    /// Returns why moderation refuses the prompt; nil: it lets it pass.
    static func moderation(of prompt: String) -> String? {
        prompt.contains(Rules.refusalWord) ? "the prompt was refused by moderation" : nil
    }

    private mutating func look() -> [Action] {
        hasState = true
        acceptedCount += 1
        return [.setLook(Look(prompt: text, imageHash: imageHash))]
    }

    private mutating func receivedOffer(_ sdp: String) -> [Action] {
        if isDirect, phase != .idle { return [.media(.receiveOffer(sdp))] }
        guard phase == .idle else { return [.send(.error("unexpected offer: this session has its media path"))] }
        guard rules.transports.contains(.webrtc) else {
            return [
                .send(.error("unexpected offer: media go through a LiveKit room here, ask for it with livekit_join"))
            ]
        }
        phase = .negotiating(.webrtc)
        isDirect = true
        answerCandidates = AnswerCandidates(trickles: rules.trickles)
        offeredBeforeState = offeredBeforeState || !(hasState || rules.isViewer)
        let early = earlyCandidates.map { Action.media(.addCandidate($0)) }
        earlyCandidates = []
        return [.startMedia(offer: sdp)] + early
    }

    private mutating func received(_ join: LiveKitJoin) -> [Action] {
        guard rules.transports.contains(.livekit), !rules.isViewer else {
            return [.send(.error("livekit_join is not understood: offer a direct WebRTC connection"))]
        }
        guard phase == .idle else { return [.send(.error("unexpected livekit_join: this session has its media path"))] }
        phase = .negotiating(.livekit)
        isDirect = false
        let state: [Action] =
            switch join.initialState {
            case .prompt(let prompt): received(prompt)
            case .setImage(let image): received(image)
            case nil: join.passthrough == true && !hasState ? look() : []
            }
        return state + [.openRoom]
    }

    private mutating func received(_ candidate: CandidateMessage?) -> [Action] {
        candidateCount += 1
        guard candidateCount <= Self.maximumCandidateCount,
            (candidate?.candidate.utf8.count ?? 0) <= Self.maximumCandidateSize
        else { return [] }
        // Browsers also send an empty candidate as end-of-candidates.
        let candidate = candidate.flatMap { $0.candidate.isEmpty ? nil : $0 }
        guard phase == .idle else { return [.media(.addCandidate(candidate))] }
        earlyCandidates.append(candidate)
        return []
    }

    // MARK: Media events

    mutating func roomOpened(_ info: LiveKitRoomInfo) -> [Action] {
        phase == .negotiating(.livekit) ? [.send(.livekitRoomInfo(info))] : []
    }

    mutating func mediaAnswered(_ sdp: String) -> [Action] {
        guard isDirect, isActive else { return [] }
        let messages = answerCandidates.add(answer: sdp)
        return messages.isEmpty ? [.awaitCandidates] : messages.map(Action.send)
    }

    /// The media renegotiates in the middle of a session, to bring the output back in another way.
    mutating func mediaOffered(_ sdp: String) -> [Action] {
        guard isDirect, isActive else { return [] }
        awaitsAnswer = true
        return [.send(.offer(sdp: sdp))]
    }

    mutating func mediaFound(_ candidate: CandidateMessage?) -> [Action] {
        isActive ? answerCandidates.add(candidate).map(Action.send) : []
    }

    /// Gathering has timed out: sends the answer with the candidates found so far; the others follow as messages.
    mutating func candidatesOverdue() -> [Action] {
        isActive ? answerCandidates.trickle().map(Action.send) : []
    }

    /// Trickles all further candidates of this session.
    mutating func trickle() -> [Action] {
        rules.trickles = true
        return candidatesOverdue()
    }

    private var isActive: Bool { phase != .idle && phase != .over }

    /// A frame was painted: the first one, or the first one after a silence.
    mutating func framesArrive() -> [Action] {
        switch phase {
        case .negotiating:
            phase = .generating(seconds: 0)
            return [.send(.generationStarted), .startTicks]
        case .generating where isIdle && !isPaused:
            isIdle = false
            return [.send(.generationStarted), .restartMedia(rules.idleOutput), .startTicks]
        default:
            return []
        }
    }

    /// Bills the second if frames have arrived in it.
    /// - Parameter frameCount: frames so far.
    mutating func secondPassed(frameCount: Int) -> [Action] {
        guard case .generating(let seconds) = phase, !isPaused, !isIdle else { return [] }
        guard frameCount != lastFrameCount else {
            quietSeconds += 1
            guard quietSeconds >= Self.idleTimeout else { return [] }
            isIdle = true
            quietSeconds = 0
            let ended = ServerMessage.generationEnded(seconds: Double(seconds), reason: "timeout")
            return [.stopTicks, .awaitFrame(rules.idleOutput), .send(ended)]
        }
        (lastFrameCount, quietSeconds) = (frameCount, 0)
        phase = .generating(seconds: seconds + 1)
        return [.send(.generationTick(seconds: Double(seconds + 1)))]
    }

    /// The peer connection or the pipeline failed. The client may offer again.
    mutating func mediaFailed(_ reason: String) -> [Action] {
        switch phase {
        case .idle, .over:
            return []
        case .negotiating:
            phase = .idle
            return [.stopMedia, .send(.error(reason))]
        case .generating(let seconds):
            phase = .idle
            return [.stopTicks, .send(.generationEnded(seconds: Double(seconds), reason: reason)), .stopMedia]
        }
    }

    // MARK: Session end

    /// The stand-in shuts down while the client is still connected.
    mutating func stopped() -> [Action] {
        if case .generating = phase { return ended(reason: "server shutdown") + [.stopMedia] }
        defer { phase = .over }
        return phase == .over ? [] : [.stopMedia]
    }

    /// Ends the generation for good; it cannot restart in this session. Media go with the channel, which the caller closes
    /// next: a client whose media end first reports a lost connection.
    mutating func ended(reason: String) -> [Action] {
        defer { phase = .over }
        return [.stopTicks, .send(.generationEnded(seconds: seconds, reason: reason))]
    }

    private var seconds: Double? { if case .generating(let seconds) = phase { Double(seconds) } else { nil } }

    // MARK: Generation restart within the session

    mutating func paused(reason: String, _ output: Fault.Output) -> [Action] {
        guard phase != .over, !isPaused, !rules.isViewer else { return [] }
        isPaused = true
        guard !isIdle else { return [.pauseMedia(output)] }
        return [.stopTicks, .pauseMedia(output), .send(.generationEnded(seconds: seconds, reason: reason))]
    }

    mutating func restarted(_ output: Fault.Output) -> [Action] {
        guard phase != .over, isPaused else { return [] }
        (isPaused, isIdle) = (false, false)
        // If no generation had started yet, the first frame starts it (`framesArrive`).
        guard seconds != nil else { return [.restartMedia(output)] }
        return [.send(.generationStarted), .restartMedia(output), .startTicks]
    }

    /// The client has disconnected.
    mutating func closed() -> [Action] {
        phase = .over
        return [.stopTicks, .stopMedia]
    }
}
