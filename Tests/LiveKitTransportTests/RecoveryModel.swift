import DecartProtocol
import DecartSession
import Recovery
import Testing
import WebRTCTransport

/// A direct session on virtual time with a monitor for each path, and a model of its network and of the service, which
/// answers at once whatever arrives.
struct RecoveryModel {
    static let step = Duration.milliseconds(50)

    struct Link {
        var up = true
        var down = true
        var passes: Bool { up && down }
    }

    private struct Channel {
        var isOpen = false
        var isDead = false
        var isProbing = false
        var hasReceived = true
        var nextPing = Duration.zero
        var sent: [ClientMessage] = []
    }

    private struct Path {
        var monitor: PathMonitor
        var isOverTCP: Bool
        var hasLostItsAddress = false
        var hasCheck = false
        var traffic = MediaTraffic(sent: 0, received: 0)
    }

    var udp = Link()
    var answersRestarts = true
    var findsNoPath = false
    /// TCP carries control channels and, once ICE has restarted without UDP, media.
    private var tcp = true
    private var cableReturnsAt: Duration?
    private var machine: SessionMachine
    private var now = Duration.zero
    private var timers: [TimerID: Duration] = [:]
    private var events: [SessionEvent] = []
    private var channels: [AttemptID: Channel] = [:]
    private var paths: [AttemptID: Path] = [:]
    private var restartEnds: [AttemptID: Duration] = [:]
    private var lossAt = Duration.zero
    private var lastFrame = Duration.zero

    let first = AttemptID(1)
    // Since the loss.
    private(set) var states: [SessionState] = []
    private(set) var lostAt: Duration?
    private(set) var warnings: [Duration] = []
    private(set) var dials = 0
    private(set) var recoveries = 0
    private(set) var longestGap = Duration.zero
    private(set) var endedAt: Duration?

    var state: SessionState { machine.snapshot.state }
    var keepsSession: Bool { channels[first] != nil && paths[first] != nil }
    var isOverTCP: Bool { paths[first]?.isOverTCP == true }

    /// A session of three seconds.
    static func connected() throws -> RecoveryModel {
        let content = SessionContent(prompt: try Prompt("Lego World"))
        var configuration = SessionConfiguration(initial: content)
        configuration.keepsMediaWhileReconnecting = true
        var model = RecoveryModel(machine: SessionMachine(configuration: configuration))
        model.handle(.start)
        model.run(for: .seconds(3))
        #expect(model.state == .connected && model.keepsSession)
        model.beginLoss()
        return model
    }

    private init(machine: SessionMachine) { self.machine = machine }

    private mutating func beginLoss() {
        (lossAt, lastFrame, longestGap, dials) = (now, now, .zero, 0)
        (states, warnings, lostAt, endedAt) = ([state], [], nil, nil)
    }

    // MARK: Losses

    mutating func cutCable(for time: Duration) {
        (udp, tcp, cableReturnsAt) = (Link(up: false, down: false), false, now + time)
    }

    mutating func changeAddress() {
        paths[first]?.hasLostItsAddress = true
        channels[first]?.isDead = true
        handle(.networkChanged(lost: first))
    }

    mutating func killChannel() { channels[first]?.isDead = true }

    // MARK: Time

    mutating func run(for time: Duration) {
        let end = now + time
        while now < end {
            now += Self.step
            advance()
        }
    }

    private mutating func advance() {
        if let time = cableReturnsAt, now >= time { (udp, tcp, cableReturnsAt) = (Link(), true, nil) }
        for id in channels.keys.sorted() { advanceChannel(id) }
        for (id, end) in restartEnds where end <= now {
            restartEnds[id] = nil
            handle(.media(id, .restartFailed))
        }
        var hasFrame = false
        for id in paths.keys.sorted() where advancePath(id) { hasFrame = true }
        if hasFrame {
            longestGap = max(longestGap, now - lastFrame)
            lastFrame = now
        }
        while let (timer, due) = timers.min(by: { $0.value < $1.value }), due <= now {
            timers[timer] = nil
            handle(.timerFired(timer))
        }
    }

    private mutating func advanceChannel(_ id: AttemptID) {
        guard var channel = channels[id] else { return }
        let isAlive = tcp && !channel.isDead
        var received: [SessionEvent] = []
        if !channel.isOpen {
            guard isAlive else { return }
            (channel.isOpen, channel.nextPing) = (true, now + RecoveryPlan.Channel.pingInterval)
            received = [
                .channelOpened(id, transport: nil, upgrade: nil), .channelMessage(id, .status("Ready")),
            ]
        } else if isAlive {
            channel.hasReceived = true
            if channel.isProbing { received.append(.channelAnswered(id)) }
            channel.isProbing = false
            for message in exchange(&channel.sent, with: []) {
                if let answer = answer(to: message, id) { received.append(.channelMessage(id, answer)) }
            }
        }
        if channel.isOpen, now >= channel.nextPing {
            if !channel.hasReceived {
                let error = SessionError(.webSocket, "no answer to a ping", stage: .channel)
                received.append(.channelSilent(id, error))
            }
            (channel.hasReceived, channel.nextPing) = (false, now + RecoveryPlan.Channel.pingInterval)
        }
        channels[id] = channel
        for event in received { handle(event) }
    }

    private func answer(to message: ClientMessage, _ id: AttemptID) -> ServerMessage? {
        switch message {
        case .prompt(let prompt): .promptAck(PromptAck(prompt: prompt.text, success: true))
        case .offer: answersRestarts || paths[id] == nil ? .answer(sdp: "answer") : nil
        default: nil
        }
    }

    /// - Returns: true if a frame arrived.
    private mutating func advancePath(_ id: AttemptID) -> Bool {
        guard var path = paths[id] else { return false }
        var link = path.isOverTCP ? Link(up: tcp, down: tcp) : udp
        if path.hasLostItsAddress { link = Link(up: false, down: false) }
        path.traffic.sent += 1
        var verdicts: [PathMonitor.Verdict] = []
        if link.down {
            path.traffic.received += 1
            path.traffic.packetsReceived += 1
            verdicts += [path.monitor.arrived(.media, now: now)].compactMap(\.self)
        }
        if link.passes {
            verdicts += [path.monitor.arrived(.acknowledgement, now: now)].compactMap(\.self)
            if path.hasCheck { verdicts += [path.monitor.arrived(.consent, now: now)].compactMap(\.self) }
        }
        path.hasCheck = false
        verdicts += path.monitor.tick(now: now, jitter: 0.5, sends: true)
        path.hasCheck = verdicts.contains(.check)
        paths[id] = path
        for verdict in verdicts {
            switch verdict {
            case .check: break
            case .disconnected:
                lostAt = lostAt ?? now - lossAt
                handle(.media(id, .pathLost))
            case .reconnected: handle(.media(id, .pathRecovered))
            case .expired: handle(.media(id, .failed(SessionError(.webRTC, "consent has expired", stage: .media))))
            }
        }
        return link.down
    }

    // MARK: The session

    mutating func handle(_ event: SessionEvent) {
        events.append(event)
        // An action's event follows after all actions of the present one.
        guard events.count == 1 else { return }
        while let next = events.first {
            let actions = machine.handle(next, now: now)
            if states.last != state { states.append(state) }
            for action in actions { perform(action) }
            events.removeFirst()
        }
    }

    private mutating func perform(_ action: SessionAction) {
        switch action {
        case .openChannel(let id, _, _):
            dials += 1
            channels[id] = Channel()
        case .send(let id, let message): channels[id]?.sent.append(message)
        case .probeChannel(let id): channels[id]?.isProbing = true
        case .closeChannel(let id):
            channels[id] = nil
            if id == first { endedAt = now - lossAt }
        case .startMedia(let id, _): handle(.media(id, .offer(sdp: "offer")))
        case .recover(let id):
            recoveries += 1
            handle(.media(id, .offer(sdp: "restart")))
        case .applyAnswer(let id, _):
            if findsNoPath, paths[id] != nil {
                restartEnds[id] = now + RecoveryPlan.ICE.restartTimeout
            } else {
                connect(id)
            }
        case .sampleMedia(let id): if let path = paths[id] { handle(.mediaSampled(id, path.traffic)) }
        case .stopMedia(let id): (paths[id], restartEnds[id]) = (nil, nil)
        case .schedule(let timer, let delay): timers[timer] = now + delay
        case .cancel(let timer): timers[timer] = nil
        case .report(.warning): warnings.append(now - lossAt)
        case .report(.failed(let error)): Issue.record("The session failed: \(error)")
        default: break
        }
    }

    /// Connectivity checks find UDP, or TCP in its place.
    private mutating func connect(_ id: AttemptID) {
        guard udp.passes || tcp else { return }
        let former = paths[id]
        var path = Path(monitor: PathMonitor(now: now), isOverTCP: !udp.passes)
        if let former { path.traffic = former.traffic }
        paths[id] = path
        guard let former else {
            handle(.media(id, .connected(ice: nil, dtls: nil)))
            return handle(.media(id, .firstFrame))
        }
        if former.monitor.isDisconnected { handle(.media(id, .pathRecovered)) }
    }
}
