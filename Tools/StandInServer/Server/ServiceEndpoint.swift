import DecartProtocol
import EventLoopThreads
import MediaSecurity
import Network

/// Serves the connections to the service: decides on each request, which gets an answer or becomes a WebSocket.
struct ServiceEndpoint: Sendable {
    let configuration: StandInConfiguration
    let services: SessionServices
    let faults: FaultBoard
    let clientTokens: ClientTokens
    let replay: ReplayBoard?
    let tls: TLSContexts?
    let connections: OpenConnections

    func accept(_ stream: ByteStream) {
        guard !connections.isFull else { return stream.close() }
        // Clients make connections ahead, and may not use them: only a request counts, unless a fault acts before it.
        let early = faults.plan.actsOnTransport ? faults.next() : nil
        let plan = early ?? FaultPlan()
        guard !plan.contains(.rstOnAccept) else { return stream.reset() }
        if let context = tls?.context(plan) {
            if let fault = plan.first(.slow(.tls)) {
                stream.pace = ByteStream.Pace(interval: Self.interval(fault), isBelowTLS: true)
            }
            guard let session = try? TLSSession(server: context) else { return stream.close() }
            stream.secure(session)
        }
        connections.add(
            ClientConnection(stream) { connection, head, body in
                guard let body else { return connection.close() }
                respond(to: head, body, on: connection, early)
            })
    }

    private func respond(
        to head: HTTPRequestHead, _ body: [UInt8], on connection: ClientConnection, _ early: FaultPlan?
    ) {
        let plan = early ?? faults.next()
        if let refusal = browserGuard.refusal(of: head.fields) { return refuse(refusal, on: connection) }
        if let preflight = CrossOrigin.preflight(head) { return connection.answer(preflight) }
        let isUpgrade = WebSocketUpgrade.problem(of: head) == nil
        if isUpgrade, case .admitted(let room, let join) = RoomAdmission(head, services.rooms) {
            faults.uncount()
            upgrade(connection)
            return connection.serve(by: RoomHandler(connection, room: room, join: join, services: services))
        }
        var admission = watchStream(head, plan, connection) ?? refuseRoom(head) ?? admit(head, plan)
        var recorded: RecordedSession?
        if case .admitted(let request, _) = admission, request.viewedSessionID == nil {
            recorded = replay?.next()
            if let answer = recorded?.refusal { admission = .refused(answer) }
        }
        switch admission {
        case .neverAnswered:
            configuration.log("answers with header fields without end")
            connection.answerEndlessly(
                "HTTP/1.1 101 Switching Protocols\r\n", String(repeating: "X-Fault: endless_headers\r\n", count: 64))
        case .admitted(let request, let plan) where isUpgrade: open(request, plan, recorded, on: connection)
        case .admitted:
            let answer = accountAnswer(head, body, plan) ?? HTTPAnswer(426, "this is a WebSocket service")
            refuse(CrossOrigin.permitting(answer, to: head), on: connection)
        case .refused(let answer):
            refuse(CrossOrigin.permitting(accountAnswer(head, body, plan) ?? answer, to: head), on: connection)
        }
    }

    private func refuse(_ answer: HTTPAnswer, on connection: ClientConnection) {
        var answer = answer
        configuration.log("refused: HTTP \(answer.status), \(answer.text)")
        if answer.status == 426 {
            // RFC 9110 §15.5.22 and RFC 6455 §4.4: the answer names the protocol and its version.
            answer.headers = ["Upgrade": "websocket", "Sec-WebSocket-Version": WebSocketUpgrade.version]
        }
        connection.answer(answer)
    }

    // MARK: Decisions

    private var browserGuard: BrowserGuard {
        BrowserGuard(
            allowsBrowsers: configuration.allowsBrowsers, address: configuration.host, pageHost: configuration.pageHost)
    }

    /// Returns nil unless this is a viewer's request for a room. Even a successful answer is a refusal of the upgrade.
    private func watchStream(_ head: HTTPRequestHead, _ plan: FaultPlan, _ connection: ClientConnection) -> Admission? {
        let url = RoomAddress.url(host: head.host, connection)
        return WatchStreamRequest.answer(head, services.rooms, keys, url: url).map { .refused(plan.answer ?? $0) }
    }

    /// Returns nil unless this is a request for a client token or for the quota.
    private func accountAnswer(_ head: HTTPRequestHead, _ body: [UInt8], _ plan: FaultPlan) -> HTTPAnswer? {
        let answer =
            ClientTokenEndpoint.answer(
                head, body, keys, clientTokens, limit: configuration.maximumSessionDuration, now: WallClock.seconds)
            ?? QuotaEndpoint.answer(
                head, keys, limit: configuration.sessionLimit, active: services.board.ownSessionCount)
        return answer.map { (plan + ((try? FaultPlan(target: head.target)) ?? FaultPlan())).answer ?? $0 }
    }

    private var keys: KeyPolicy {
        var keys = configuration.keys
        keys.clientTokens = clientTokens
        return keys
    }

    private func refuseRoom(_ head: HTTPRequestHead) -> Admission? {
        guard case .refused(var answer) = RoomAdmission(head, services.rooms) else { return nil }
        faults.uncount()
        // As LiveKit's servers answer: their client for browsers asks why a room refused it.
        answer.headers["Access-Control-Allow-Origin"] = "*"
        return .refused(answer)
    }

    private func admit(_ head: HTTPRequestHead, _ plan: FaultPlan) -> Admission {
        Admission(
            target: head.target, host: head.host, userAgent: head.fields.first("User-Agent"), keys: keys,
            isFull: services.board.openCount >= configuration.maximumSessionCount, limitAnswer: limitAnswer, plan: plan,
            isSession: { services.viewers.viewers(of: $0) != nil })
    }

    private var limitAnswer: LimitAnswer? {
        guard let limit = configuration.sessionLimit, services.board.ownSessionCount >= limit else { return nil }
        return configuration.limitAnswer
    }

    // MARK: Sessions

    private func upgrade(_ connection: ClientConnection) {
        connection.upgrade(messageSize: configuration.maximumMessageSize, fragments: 4096)
        connection.keepAlive()
    }

    private func open(
        _ request: ConnectionRequest, _ plan: FaultPlan, _ recorded: RecordedSession?, on connection: ClientConnection
    ) {
        if let fault = plan.first(.slow(.upgrade)) { connection.drip(Self.interval(fault)) }
        upgrade(connection)
        if let fault = plan.first(.slow(.frame)) { connection.drip(Self.interval(fault)) }
        let rules = rules(for: request, plan, connection)
        connection.serve(
            by: ConnectionHandler(
                connection, request: request, rules: rules, plan: plan, services: services,
                viewers: request.viewedSessionID.flatMap { services.viewers.viewers(of: $0) },
                replay: recorded.map { ReplayScript($0.entries, identity: rules.identity) }))
    }

    private func rules(
        for request: ConnectionRequest, _ plan: FaultPlan, _ connection: ClientConnection
    ) -> ControlStateMachine.Rules {
        let recorded = replay?.transports ?? []
        let id = "standin-" + String(UInt64.random(in: .min ... .max), radix: 36)
        let address = connection.localAddress
        return ControlStateMachine.Rules(
            identity: SessionIdentity(id: id, serverIP: address?.ip, serverPort: address?.port),
            transports: recorded.isEmpty ? configuration.transports : recorded, asksForRoom: request.asksForRoom,
            trickles: configuration.tricklesCandidates || plan.bendsCandidates,
            isViewer: request.viewedSessionID != nil, idleOutput: configuration.idleOutput)
    }

    private static func interval(_ fault: Fault) -> Duration { Duration(seconds: max(fault.interval ?? 1, 0.001)) }
}
