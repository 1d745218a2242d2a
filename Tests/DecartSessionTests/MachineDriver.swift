import DecartProtocol
import DecartSession
import TestSupport

/// A machine on virtual time, with its timers. `walk…` brings it to a state; `takeActions` returns the new actions.
struct MachineDriver {
    private(set) var machine: SessionMachine
    private var timers = VirtualTimers<TimerID>()
    private(set) var actions: [SessionAction] = []
    private(set) var attemptReports: [AttemptReport] = []
    /// Traffic of the media path as sampled.
    var traffic = MediaTraffic.nothing
    /// Added to the traffic with every sample.
    var flow = MediaTraffic.flowing
    var jitter = 0.0
    private(set) var attempt = AttemptID(0)
    private var nextRequest: RequestID = 1

    init(
        prompt: String? = "Lego World", image: ReferenceImage? = nil, maximumRetries: Int? = 5,
        at phase: Phase = .idle, change: (inout SessionConfiguration) -> Void = { _ in }
    ) throws {
        let content = SessionContent(prompt: try prompt.map { try Prompt($0) }, image: image.map { .image($0) })
        var configuration = SessionConfiguration(initial: content, retry: RetryPolicy(maximumRetries: maximumRetries))
        change(&configuration)
        machine = SessionMachine(configuration: configuration)
        switch phase {
        case .idle: break
        case .opening: handle(.start)
        case .open: walkToOpen()
        case .awaitingInitialAck: walkToAwaitingInitialAck()
        case .negotiating: walkToNegotiating()
        case .connected: walkToConnected()
        }
    }

    /// A connected driver, whose actions so far are taken.
    static func connected(
        prompt: String? = "Lego World", for time: Duration = .zero,
        change: (inout SessionConfiguration) -> Void = { _ in }
    ) throws -> MachineDriver {
        var driver = try MachineDriver(prompt: prompt, at: .connected, change: change)
        if time > .zero { driver.wait(time) }
        _ = driver.takeActions()
        return driver
    }

    /// A driver that keeps media while it reconnects, after three seconds of a connected attempt.
    static func keepingMedia() throws -> (driver: MachineDriver, attempt: AttemptID) {
        let driver = try connected(for: .seconds(3)) { $0.keepsMediaWhileReconnecting = true }
        return (driver, driver.attempt)
    }

    enum Phase { case idle, opening, open, awaitingInitialAck, negotiating, connected }

    var snapshot: SessionSnapshot { machine.snapshot }
    var state: SessionState { machine.snapshot.state }
    var now: Duration { timers.now }
    var runningTimers: Set<TimerID> { timers.running }

    // MARK: Events

    mutating func handle(_ event: SessionEvent) {
        let known = machine.snapshot.lastAttempt
        let taken = machine.handle(event, now: now, jitter: jitter)
        if let report = machine.snapshot.lastAttempt, report != known { attemptReports.append(report) }
        for action in taken {
            actions.append(action)
            switch action {
            case .openChannel(let id, _, _): attempt = id
            case .schedule(let timer, let delay): timers.schedule(timer, after: delay)
            case .cancel(let timer): timers.cancel(timer)
            case .sampleMedia(let id):
                traffic.sent += flow.sent
                traffic.received += flow.received
                traffic.packetsReceived += flow.packetsReceived
                traffic.packetsLost += flow.packetsLost
                traffic.oversizedFrames += flow.oversizedFrames
                handle(.mediaSampled(id, traffic))
            default: break
            }
        }
    }

    mutating func server(_ message: ServerMessage) { handle(.channelMessage(attempt, message)) }
    mutating func media(_ event: MediaEvent) { handle(.media(attempt, event)) }

    @discardableResult
    mutating func update(_ text: String, image: PromptUpdate.Image = .unchanged) throws -> RequestID {
        defer { nextRequest += 1 }
        handle(.update(PromptUpdate(prompt: try Prompt(text), image: image), id: nextRequest))
        return nextRequest
    }

    @discardableResult
    mutating func update(image: PromptUpdate.Image) -> RequestID {
        defer { nextRequest += 1 }
        handle(.update(PromptUpdate(image: image), id: nextRequest))
        return nextRequest
    }

    /// Advances the time and fires every timer in order.
    mutating func wait(_ duration: Duration) {
        let end = now + duration
        while let timer = timers.next(until: end) { handle(.timerFired(timer)) }
    }

    /// Advances the time until the scheduled retry.
    mutating func waitForRetry() {
        guard let due = timers[.retry] else { return }
        wait(due - now)
    }

    /// The same with another flow of media, from now on.
    mutating func wait(_ duration: Duration, flow: MediaTraffic) {
        self.flow = flow
        wait(duration)
    }

    /// Advances the time as if the process were suspended: timers fire only at the end.
    mutating func sleep(_ duration: Duration) {
        timers.sleep(duration)
        wait(.zero)
    }

    // MARK: Walks

    /// Up to the open channel of a service that has not reported anything yet.
    mutating func walkToOpen() {
        handle(.start)
        handle(.channelOpened(attempt, transport: nil, upgrade: nil))
    }

    mutating func walkToAwaitingInitialAck() {
        handle(.start)
        open()
    }

    mutating func open() {
        handle(.channelOpened(attempt, transport: .milliseconds(20), upgrade: .milliseconds(10)))
        server(.status("Ready"))
    }

    /// Acknowledges every prompt and image in flight.
    mutating func acknowledgeAll() {
        for message in sent() {
            switch message {
            case .prompt(let prompt): server(.promptAck(PromptAck(prompt: prompt.text, success: true)))
            case .setImage: server(.setImageAck(SetImageAck(success: true)))
            default: break
            }
        }
    }

    mutating func walkToNegotiating() {
        walkToAwaitingInitialAck()
        acknowledgeAll()
    }

    static let roomInfo = ServerMessage.livekitRoomInfo(
        LiveKitRoomInfo(url: "wss://room.example", token: Secret("t"), roomName: "r", sessionID: "s"))

    /// Up to the connected media of a room, before their first frame.
    mutating func joinRoom() {
        server(Self.roomInfo)
        media(.connected(ice: nil, dtls: nil))
    }

    /// Up to the first frame.
    mutating func connectMedia() {
        media(.offer(sdp: "offer"))
        server(.answer(sdp: "answer"))
        media(.connected(ice: .milliseconds(5), dtls: .milliseconds(6)))
    }

    mutating func negotiate() {
        connectMedia()
        media(.firstFrame)
    }

    mutating func walkToConnected() {
        walkToNegotiating()
        negotiate()
    }

    /// Walks from `.openChannel` to connected media, before their first frame.
    mutating func reconnectMedia() {
        open()
        acknowledgeAll()
        connectMedia()
    }

    /// Walks from `.openChannel` to connected.
    mutating func reconnect() {
        reconnectMedia()
        media(.firstFrame)
    }

    /// Waits for the retry, and walks to connected.
    mutating func redial() {
        waitForRetry()
        reconnect()
    }

    /// Walks to each phase of an attempt.
    static var phases: [(String, (inout MachineDriver) -> Void)] {
        [
            ("opening", { $0.handle(.start) }),
            ("open", { $0.walkToOpen() }),
            (
                "queued",
                {
                    $0.walkToAwaitingInitialAck()
                    $0.server(.queuePosition(QueuePosition(position: 3)))
                }
            ),
            ("awaiting the initial ack", { $0.walkToAwaitingInitialAck() }),
            ("negotiating", { $0.walkToNegotiating() }),
            (
                "offered",
                {
                    $0.walkToNegotiating()
                    $0.media(.offer(sdp: "x"))
                }
            ),
            ("connected", { $0.walkToConnected() }),
            (
                "generating",
                {
                    $0.walkToConnected()
                    $0.server(.generationStarted)
                }
            ),
        ]
    }

    // MARK: Results

    /// Returns the actions since the last call, without timers and media samples.
    mutating func takeActions() -> [SessionAction] {
        defer { actions = [] }
        return actions.filter {
            switch $0 {
            case .schedule, .cancel, .sampleMedia: false
            default: true
            }
        }
    }

    /// Messages sent by the current attempt since the last `takeActions`.
    func sent() -> [ClientMessage] {
        actions.compactMap { if case .send(attempt, let message) = $0 { message } else { nil } }
    }

    func results() -> [PromptResult] {
        actions.compactMap { if case .report(.promptResult(let result)) = $0 { result } else { nil } }
    }

    func failures() -> [SessionError] {
        actions.compactMap { if case .report(.failed(let error)) = $0 { error } else { nil } }
    }

    func warnings() -> [SessionError] {
        actions.compactMap { if case .report(.warning(let error)) = $0 { error } else { nil } }
    }

    func opens() -> Int {
        actions.count { if case .openChannel = $0 { true } else { false } }
    }

    /// True if channel and media path of the attempt have ended.
    func hasEnded(_ id: AttemptID) -> Bool { actions.contains(.closeChannel(id)) && actions.contains(.stopMedia(id)) }

    func startsMedia() -> Bool {
        actions.contains { if case .startMedia = $0 { true } else { false } }
    }
}

extension MediaTraffic {
    static let flowing = MediaTraffic(sent: 12, received: 12)
    static let sending = MediaTraffic(sent: 12, received: 0)
    static let receiving = MediaTraffic(sent: 0, received: 12)
    static let nothing = MediaTraffic(sent: 0, received: 0)
}

/// The smallest image that passes the checks.
func testImage(_ width: Int = 16) throws -> ReferenceImage {
    func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
        [0, 0, 0, UInt8(data.count)] + type.utf8 + data + [0, 0, 0, 0]
    }
    let header = [0, 0, UInt8(width >> 8), UInt8(width & 255), 0, 0, 0, 16, 8, 2, 0, 0, 0]
    return try ReferenceImage(
        bytes: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A] + chunk("IHDR", header) + chunk("IDAT", [1])
            + chunk("IEND", []))
}

extension ClientMessage {
    static func text(_ text: String, enhance: Bool = false) -> ClientMessage {
        .prompt(PromptMessage(text: text, enhance: enhance))
    }
}
