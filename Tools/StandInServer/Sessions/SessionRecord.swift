package import DecartProtocol

/// The statistics of one session so far: a snapshot for tests and logs.
package struct SessionRecord: Sendable, Equatable {
    /// Counted from 1 in the order of arrival.
    package let number: Int
    package let sessionID: String
    package let request: ConnectionRequest
    package internal(set) var isOpen = true

    /// The latest texts of prompts and of images' prompts, refused ones included.
    package var prompts: [String] { promptTexts.texts }
    private(set) var promptTexts = RecentTexts()
    /// Number of all prompts, kept in `prompts` or not.
    package internal(set) var promptCount = 0
    package internal(set) var imageCount = 0
    package internal(set) var passthroughCount = 0
    package internal(set) var malformedCount = 0
    package internal(set) var unknownCount = 0
    package internal(set) var refusalCount = 0
    package internal(set) var offerCount = 0
    /// Answers to offers of the stand-in.
    package internal(set) var answerCount = 0
    /// The client offered before a prompt, image or passthrough was accepted.
    package internal(set) var offeredBeforeState = false
    package internal(set) var remoteCandidateCount = 0
    /// The client sent `livekit_join`.
    package internal(set) var requestedRoom = false
    package internal(set) var room = RoomCounts()
    /// Connected viewers, in the room or directly.
    package internal(set) var viewerCount = 0
    /// The latest tracks that the client announced: in a room `source name sid`, otherwise the `msid` of its offer.
    package var tracks: [String] { trackTexts.texts }
    var trackTexts = RecentTexts()
    /// The latest simulcast streams received, by rid.
    package var simulcastStreams: [String] { streamTexts.texts }
    var streamTexts = RecentTexts()
    package internal(set) var receivedEndOfCandidates = false
    package internal(set) var isGenerating = false
    package internal(set) var tickCount = 0
    package let openedAt = ContinuousClock.now
    /// Nil while the session is open.
    package internal(set) var endedAt: ContinuousClock.Instant?
    /// Text of the latest media failure.
    package internal(set) var mediaFailure: String?
    package internal(set) var frames = FrameCounts()
    private(set) var looks = LookCounts()
    /// Nil until media are negotiated.
    package internal(set) var transport: MediaTransportKind?
    package internal(set) var media = MediaStatistics()

    /// Nil until a prompt, image or passthrough was accepted.
    package var look: Look? { looks.look }

    /// Frames sent since the present look began.
    package var sentWithLook: Int { looks.sentWithLook(frames.sent) }

    /// Frames sent with each style of look.
    package var sentByStyle: [String: Int] { looks.sentByStyle(frames.sent) }

    /// - Parameter sent: All frames that the session has sent.
    mutating func begin(_ look: Look, sent: Int) { looks.begin(look, sent: sent) }

    /// Time for which the session is, or was, open.
    package var age: Duration { (endedAt ?? .now) - openedAt }

    package var state: State {
        if !isOpen { return .closed }
        if isGenerating { return .generating }
        return offerCount > 0 || room.joinCount > 0 ? .negotiating : .open
    }

    package enum State: String, Sendable, CaseIterable { case open, negotiating, generating, closed }

    var isViewer: Bool { request.viewedSessionID != nil }

    var countsAgainstLimit: Bool { isOpen && request.viewedSessionID == nil && request.limitAnswer == nil }

    mutating func note(_ message: ClientMessage) {
        switch message {
        case .prompt(let prompt):
            note(prompt: prompt.text)
        case .setImage(let image):
            if image.image != .none { imageCount += 1 }
            if image.isPassthrough { passthroughCount += 1 }
            if case .prompt(let prompt) = image.text { note(prompt: prompt) }
        case .offer(let sdp):
            offerCount += 1
            let ids = sdp.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("a=msid:") }
            for id in ids.prefix(4) { trackTexts.add(String(id.dropFirst("a=msid:".count))) }
        case .iceCandidate(let candidate):
            if candidate?.candidate.isEmpty ?? true {
                receivedEndOfCandidates = true
            } else {
                remoteCandidateCount += 1
            }
        case .unknown: unknownCount += 1
        case .livekitJoin: requestedRoom = true
        case .answer: answerCount += 1
        }
    }

    mutating func note(_ message: ServerMessage) {
        switch message {
        case .promptAck(let ack) where !ack.success: refusalCount += 1
        case .setImageAck(let ack) where !ack.success: refusalCount += 1
        case .generationStarted: isGenerating = true
        case .generationTick: tickCount += 1
        case .generationEnded: isGenerating = false
        default: break
        }
    }

    private mutating func note(prompt: String) {
        promptCount += 1
        promptTexts.add(prompt)
    }
}
