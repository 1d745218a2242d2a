// Faults below HTTP and WebSocket as channel handlers: resets, slow writes, endless writes.
import Glibc
import NIOCore

/// Resets the connection, as a crashed process or a firewall does. RFC 9293 §3.10.4: with a linger time of zero,
/// closing sends RST instead of FIN.
enum Reset {
    /// Call on the channel's event loop.
    static func close(_ channel: any Channel) {
        // The option is set synchronously, because this is the event loop.
        _ = (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
        // Close below TLS, which would send close_notify first.
        if let bottom = try? channel.pipeline.syncOperations.context(name: DripWriter.bottom) {
            bottom.close(promise: nil)
        } else {
            channel.close(promise: nil)
        }
    }
}

final class ResetOnAccept: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    func channelActive(context: ChannelHandlerContext) {
        Reset.close(context.channel)
    }
}

/// Passes bytes on; with an interval, one byte each interval, as a slow peer or a bad link does.
final class DripWriter: ChannelOutboundHandler, ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Position next to the socket, below TLS.
    static let bottom = "drip-bottom"
    /// Position between TLS and HTTP or WebSocket.
    static let top = "drip-top"
    private static let limit = 4 << 20

    var interval: TimeAmount?
    private var waiting = ByteBuffer()
    private var timer: RepeatedTask?

    init(interval: TimeAmount? = nil) {
        self.interval = interval
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard let interval else {
            context.write(data, promise: promise)
            return
        }
        var bytes = unwrapOutboundIn(data)
        // Succeed at once: a writer that waits for the promise would wait until the last byte is sent.
        promise?.succeed()
        guard waiting.readableBytes + bytes.readableBytes <= Self.limit else { return context.close(promise: nil) }
        waiting.writeBuffer(&bytes)
        if timer == nil { schedule(context, interval) }
    }

    private func schedule(_ context: ChannelHandlerContext, _ interval: TimeAmount) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        timer = context.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: interval) { _ in
            let (handler, context) = bound.value
            handler.drip(context)
        }
    }

    private func drip(_ context: ChannelHandlerContext) {
        guard let byte = waiting.readSlice(length: 1) else { return }
        waiting.discardReadBytes()
        context.writeAndFlush(wrapOutboundOut(byte), promise: nil)
    }

    /// Bytes still waiting are lost with the connection.
    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.cancel()
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        context.fireChannelInactive()
    }
}

/// Writes the same bytes repeatedly, as fast as the peer reads them, until it disconnects.
enum EndlessWriter {
    static func write(_ bytes: ByteBuffer, from context: ChannelHandlerContext) {
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.whenSuccess {
            // Yield to the event loop first, so that other connections are served too.
            bound.eventLoop.execute { write(bytes, from: bound.value) }
        }
        context.writeAndFlush(NIOAny(bytes), promise: written)
    }
}
