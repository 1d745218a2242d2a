import DecartProtocol
import NIOCore
import NIOHTTP1
import NIOSSL
import NIOWebSocket

/// Installs the handlers of an accepted connection: TLS, HTTP until the upgrade, then the WebSocket session.
struct ChildPipeline: Sendable {
    let configuration: StandInConfiguration
    let services: SessionServices
    let faults: FaultBoard
    let clientTokens: ClientTokens
    let replay: ReplayBoard?
    let tls: TLSContexts?

    func install(on channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        let plan = faults.next()
        guard !plan.contains(.rstOnAccept) else { return try pipeline.addHandler(ResetOnAccept()) }
        let ticket = replay.map(ReplayTicket.init)
        let handshakePace = tls == nil ? nil : plan.first(.slow(.tls)).map(Self.pace)
        try pipeline.addHandler(DripWriter(interval: handshakePace), name: DripWriter.bottom)
        if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls.context(plan))) }
        try pipeline.addHandler(DripWriter(), name: DripWriter.top)
        let upgrader = NIOWebSocketServerUpgrader(
            maxFrameSize: configuration.maximumMessageSize,
            shouldUpgrade: { channel, head in
                channel.eventLoop.makeSucceededFuture(upgrades(head, plan, ticket, channel) ? [:] : nil)
            },
            upgradePipelineHandler: { channel, head in
                channel.eventLoop.makeCompletedFuture {
                    if case .admitted(let room, let join) = RoomAdmission(head, services.rooms) {
                        try installFrames(on: channel)
                        faults.uncount()
                        return try channel.pipeline.syncOperations.addHandler(
                            RoomHandler(room: room, join: join, services: services))
                    }
                    try installSession(on: channel, head: head, plan: plan, ticket)
                }
            })
        try pipeline.configureHTTPServerPipeline(
            withServerUpgrade: (
                upgraders: [upgrader],
                completionHandler: { context in
                    context.pipeline.syncOperations.removeHandler(name: RefusalHandler.name, promise: nil)
                }
            ))
        try pipeline.addHandler(
            RefusalHandler(
                admit: {
                    refuseBrowser($0) ?? watchStream($0, plan, channel) ?? refuseRoom($0) ?? admit($0, plan, ticket)
                },
                answer: { refuseBrowser($0) == nil ? accountAnswer($0, $1, plan) : nil },
                log: configuration.log),
            name: RefusalHandler.name)
    }

    /// Returns true if the request becomes a WebSocket.
    private func upgrades(
        _ head: HTTPRequestHead, _ plan: FaultPlan, _ ticket: ReplayTicket?, _ channel: any Channel
    ) -> Bool {
        guard browserGuard.refusal(of: head.headers) == nil else { return false }
        if case .admitted = RoomAdmission(head, services.rooms) { return true }
        guard case .admitted(_, let plan) = admit(head, plan, ticket) else { return false }
        if let fault = plan.first(.slow(.upgrade)) { Self.drip(fault, on: channel) }
        return true
    }

    private var browserGuard: BrowserGuard {
        BrowserGuard(allowsBrowsers: configuration.allowsBrowsers, address: configuration.host)
    }

    private func refuseBrowser(_ head: HTTPRequestHead) -> Admission? {
        browserGuard.refusal(of: head.headers).map(Admission.refused)
    }

    /// Returns nil unless this is a viewer's request for a room. Even a successful answer is a refusal of the upgrade.
    private func watchStream(_ head: HTTPRequestHead, _ plan: FaultPlan, _ channel: any Channel) -> Admission? {
        let url = RoomAddress.url(host: head.host, channel)
        return WatchStreamRequest.answer(head, services.rooms, keys, url: url).map { .refused(plan.answer ?? $0) }
    }

    /// Returns nil unless this is a request for a client token or for the quota.
    private func accountAnswer(_ head: HTTPRequestHead, _ body: [UInt8], _ plan: FaultPlan) -> HTTPAnswer? {
        let answer =
            ClientTokenEndpoint.answer(
                head, body, keys, clientTokens, limit: configuration.maximumSessionDuration, now: WallClock.seconds)
            ?? QuotaEndpoint.answer(
                head, keys, limit: configuration.sessionLimit, active: services.board.ownSessionCount)
        return answer.map { (plan + ((try? FaultPlan(target: head.uri)) ?? FaultPlan())).answer ?? $0 }
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

    private func admit(_ head: HTTPRequestHead, _ plan: FaultPlan, _ ticket: ReplayTicket?) -> Admission {
        let admission = Admission(
            target: head.uri, host: head.host, userAgent: head.headers.first(name: "User-Agent"), keys: keys,
            isFull: services.board.openCount >= configuration.maximumSessionCount, limitAnswer: limitAnswer, plan: plan,
            isSession: { services.viewers.viewers(of: $0) != nil })
        guard case .admitted(let request, _) = admission, request.viewedSessionID == nil,
            let answer = ticket?.refusal
        else { return admission }
        return .refused(answer)
    }

    private var limitAnswer: LimitAnswer? {
        guard let limit = configuration.sessionLimit, services.board.ownSessionCount >= limit else { return nil }
        return configuration.limitAnswer
    }

    private func installSession(
        on channel: any Channel, head: HTTPRequestHead, plan: FaultPlan, _ ticket: ReplayTicket?
    ) throws {
        // The same head was admitted a moment ago on this thread; a refusal now means that no session is free any more.
        guard case .admitted(let request, let plan) = admit(head, plan, ticket) else {
            throw ChannelError.operationUnsupported
        }
        if let fault = plan.first(.slow(.frame)) { Self.drip(fault, on: channel) }
        try installFrames(on: channel)
        let rules = rules(for: request, plan, channel)
        try channel.pipeline.syncOperations.addHandler(
            ConnectionHandler(
                request: request, rules: rules, plan: plan, services: services,
                viewers: request.viewedSessionID.flatMap { services.viewers.viewers(of: $0) },
                replay: rules.isViewer ? nil : ticket?.script(rules.identity)))
    }

    private func installFrames(on channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        // Limits how long a client that vanished without a FIN occupies its session; pings go out every 10 s.
        try pipeline.addHandler(IdleStateHandler(readTimeout: .seconds(30)))
        try pipeline.addHandler(FrameRules())
        try pipeline.addHandler(
            NIOWebSocketFrameAggregator(
                minNonFinalFragmentSize: 1, maxAccumulatedFrameCount: 4096,
                maxAccumulatedFrameSize: configuration.maximumMessageSize))
    }

    private func rules(
        for request: ConnectionRequest, _ plan: FaultPlan, _ channel: any Channel
    ) -> ControlStateMachine.Rules {
        let recorded = replay?.transports ?? []
        let id = "standin-" + String(UInt64.random(in: .min ... .max), radix: 36)
        return ControlStateMachine.Rules(
            identity: SessionIdentity(
                id: id, serverIP: channel.localAddress?.ipAddress, serverPort: channel.localAddress?.port),
            transports: recorded.isEmpty ? configuration.transports : recorded, asksForRoom: request.asksForRoom,
            trickles: configuration.tricklesCandidates || plan.bendsCandidates,
            isViewer: request.viewedSessionID != nil, idleOutput: configuration.idleOutput)
    }

    private static func drip(_ fault: Fault, on channel: any Channel) {
        let pipeline = channel.pipeline.syncOperations
        let writer = (try? pipeline.context(name: DripWriter.top))?.handler as? DripWriter
        writer?.interval = pace(fault)
    }

    private static func pace(_ fault: Fault) -> TimeAmount { TimeAmount(seconds: max(fault.interval ?? 1, 0.001)) }
}
