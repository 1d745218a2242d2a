import NIOCore
import NIOHTTP1
import NIOWebSocket

/// The WebSockets of the page on the control port.
enum PageUpgrade {
    static func upgrader(
        _ access: PageAccess, _ viewers: ViewerBoard, _ media: MediaServices
    ) -> NIOWebSocketServerUpgrader {
        NIOWebSocketServerUpgrader(
            maxFrameSize: WatchHandler.maximumMessageSize,
            shouldUpgrade: { channel, head in
                let isAdmitted = WatchAdmission(head, access, viewers) != nil
                let headers: HTTPHeaders? =
                    isAdmitted ? ["Sec-WebSocket-Protocol": PageAccess.subprotocol] : nil
                return channel.eventLoop.makeSucceededFuture(headers)
            },
            upgradePipelineHandler: { channel, head in
                channel.eventLoop.makeCompletedFuture {
                    // A session that has ended meanwhile.
                    guard let admission = WatchAdmission(head, access, viewers) else {
                        throw ChannelError.operationUnsupported
                    }
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(FrameRules())
                    try pipeline.addHandler(
                        NIOWebSocketFrameAggregator(
                            minNonFinalFragmentSize: 1, maxAccumulatedFrameCount: 256,
                            maxAccumulatedFrameSize: WatchHandler.maximumMessageSize))
                    try pipeline.addHandler(WatchHandler(admission, media))
                }
            })
    }
}
