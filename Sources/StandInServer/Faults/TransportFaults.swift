// Faults below HTTP and WebSocket, as channel handlers: resets, dripped bytes, bytes without end.
import Glibc
import NIOCore

/// Resets the connection: what a crashed process or a firewall looks like. RFC 9293 §3.10.4: with a linger time of
/// zero, closing sends RST in place of FIN.
enum Reset {
    /// On the channel's event loop.
    static func close(_ channel: any Channel) {
        // Done at once: we are on the event loop.
        _ = (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
        // TLS would say goodbye first: the transport below it is closed.
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

/// Passes bytes on, or, once told to, one byte at a time: a slow peer, or a link that barely lives.
final class DripWriter: ChannelOutboundHandler, ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Next to the socket, below TLS.
    static let bottom = "drip-bottom"
    /// Between TLS and HTTP or WebSocket.
    static let top = "drip-top"
    private static let limit = 4 << 20

    private var interval: TimeAmount?
    private var waiting = ByteBuffer()
    private var timer: RepeatedTask?

    init(interval: TimeAmount? = nil) {
        self.interval = interval
    }

    /// From now on.
    func start(_ interval: TimeAmount) {
        self.interval = interval
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard let interval else {
            context.write(data, promise: promise)
            return
        }
        var bytes = unwrapOutboundIn(data)
        // Taken: who waits for the promise would otherwise wait for as long as the dripping takes.
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

    /// What still drips is lost with the connection.
    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.cancel()
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        context.fireChannelInactive()
    }
}

/// Writes the same bytes again and again, as fast as the peer takes them, until it has gone or `rounds` are over.
enum EndlessWriter {
    /// - Parameter context: writes pass on from there towards the socket.
    static func write(_ bytes: ByteBuffer, rounds: Int?, from context: ChannelHandlerContext) {
        guard rounds != 0 else { return }
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.whenSuccess {
            // Not before the loop has turned: other connections are served too.
            bound.eventLoop.execute { write(bytes, rounds: rounds.map { $0 - 1 }, from: bound.value) }
        }
        context.writeAndFlush(NIOAny(bytes), promise: written)
    }
}
