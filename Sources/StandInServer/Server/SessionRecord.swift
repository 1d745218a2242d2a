import DecartProtocol

/// What one session has seen so far: a snapshot for tests and logs.
package struct SessionRecord: Sendable, Equatable {
    /// Counts from 1 in the order of arrival.
    package let number: Int
    package let sessionID: String
    package let request: ConnectionRequest
    package internal(set) var isOpen = true

    /// Texts of prompts and of images' prompts, refused ones included; the latest ones.
    package var prompts: [String] { promptTexts.texts }
    private(set) var promptTexts = RecentTexts()
    /// All of them, kept or not.
    package internal(set) var promptCount = 0
    package internal(set) var imageCount = 0
    package internal(set) var passthroughCount = 0
    package internal(set) var malformedCount = 0
    package internal(set) var unknownCount = 0
    package internal(set) var refusalCount = 0
    package internal(set) var offerCount = 0
    /// To offers of the stand-in.
    package internal(set) var answerCount = 0
    /// The client offered before a prompt, image or passthrough was accepted.
    package internal(set) var offeredBeforeState = false
    package internal(set) var remoteCandidateCount = 0
    /// The client asked for a room.
    package internal(set) var askedForRoom = false
    /// Times that it came into it.
    package internal(set) var roomJoinCount = 0
    /// … with one connection for both directions.
    package internal(set) var singleJoinCount = 0
    /// Viewers that are there, in its room or directly.
    package internal(set) var viewerCount = 0
    /// Tracks that the client made known: in a room `source name sid`, else the `msid` of its offer; the latest ones.
    package var tracks: [String] { trackTexts.texts }
    private(set) var trackTexts = RecentTexts()
    /// Streams of a simulcast that came, by rid; the latest ones.
    package var simulcastStreams: [String] { streamTexts.texts }
    private(set) var streamTexts = RecentTexts()
    package internal(set) var receivedEndOfCandidates = false
    package internal(set) var isGenerating = false
    package internal(set) var tickCount = 0
    package let openedAt = ContinuousClock.now
    /// Nil while it is open.
    package internal(set) var endedAt: ContinuousClock.Instant?
    /// Why media ended last, in the words that the client got.
    package internal(set) var mediaFailure: String?
    /// Pictures decoded and painted.
    package internal(set) var frameCount = 0
    /// Those given to the encoder, to go back to the client.
    package internal(set) var sentFrameCount = 0
    /// Those of them that went back raw because no state was set.
    package internal(set) var rawFrameCount = 0

    /// How long the session is, or was, open.
    package var age: Duration { (endedAt ?? .now) - openedAt }

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
            for id in ids.prefix(4) { note(track: String(id.dropFirst("a=msid:".count))) }
        case .iceCandidate(let candidate):
            if candidate?.candidate.isEmpty ?? true {
                receivedEndOfCandidates = true
            } else {
                remoteCandidateCount += 1
            }
        case .unknown: unknownCount += 1
        case .livekitJoin: askedForRoom = true
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

    mutating func note(track: String) { trackTexts.add(track) }

    mutating func note(stream rid: String) { streamTexts.add(rid) }

    private mutating func note(prompt: String) {
        promptCount += 1
        promptTexts.add(prompt)
    }
}
