import DecartProtocol
import NIOCore
import NIOHTTP1
import NIOSSL
import NIOWebSocket

/// Lays out the handlers of an accepted connection: TLS, HTTP until the upgrade, then the WebSocket session.
struct ChildPipeline: Sendable {
    let configuration: StandInConfiguration
    let services: ConnectionServices
    let tls: NIOSSLContext?

    func install(on channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls)) }
        let upgrader = NIOWebSocketServerUpgrader(
            maxFrameSize: configuration.maximumMessageSize,
            shouldUpgrade: { channel, head in
                if case .admitted = admit(head) { return channel.eventLoop.makeSucceededFuture([:]) }
                return channel.eventLoop.makeSucceededFuture(nil)
            },
            upgradePipelineHandler: { channel, head in
                channel.eventLoop.makeCompletedFuture { try installSession(on: channel, head: head) }
            })
        try pipeline.configureHTTPServerPipeline(
            withServerUpgrade: (
                upgraders: [upgrader],
                completionHandler: { context in
                    context.pipeline.syncOperations.removeHandler(name: RefusalHandler.name, promise: nil)
                }
            ))
        try pipeline.addHandler(RefusalHandler(admit: admit, log: services.log), name: RefusalHandler.name)
    }

    private func admit(_ head: HTTPRequestHead) -> Admission {
        Admission(
            target: head.uri, keys: configuration.keys,
            isFull: services.board.openCount >= configuration.maximumSessionCount)
    }

    private func installSession(on channel: any Channel, head: HTTPRequestHead) throws {
        // The same head was admitted a moment ago on this thread; anything else means that the last place went meanwhile.
        guard case .admitted(let request) = admit(head) else { throw ChannelError.operationUnsupported }
        let pipeline = channel.pipeline.syncOperations
        // A client that vanishes without a FIN holds its place no longer than this; pings go out every 10 s.
        try pipeline.addHandler(IdleStateHandler(readTimeout: .seconds(30)))
        try pipeline.addHandler(FrameRules())
        try pipeline.addHandler(
            NIOWebSocketFrameAggregator(
                minNonFinalFragmentSize: 1, maxAccumulatedFrameCount: 4096,
                maxAccumulatedFrameSize: configuration.maximumMessageSize))
        try pipeline.addHandler(
            ConnectionHandler(request: request, rules: rules(for: request, channel), services: services))
    }

    private func rules(for request: ConnectionRequest, _ channel: any Channel) -> Conversation.Rules {
        let id = "standin-" + String(UInt64.random(in: .min ... .max), radix: 36)
        return Conversation.Rules(
            identity: SessionIdentity(
                id: id, serverIP: channel.localAddress?.ipAddress, serverPort: channel.localAddress?.port),
            takesReferenceImage: (try? DecartModel(named: request.model))?.supportsReferenceImage ?? true)
    }
}
