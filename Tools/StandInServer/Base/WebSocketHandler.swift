/// The server's end of a WebSocket: a control channel, a room's signalling, or a video of the page. Used on the thread of
/// its connection.
protocol WebSocketHandler: AnyObject, Sendable {
    func opened()
    func receive(text: [UInt8])
    func receive(binary: [UInt8])
    func receive(notice: any Sendable)
    func willClose(code: UInt16?)
    func receivedClose(code: UInt16?)
    /// The connection is closed, by either side. The last call.
    func ended()
    func log(_ text: String)
}

extension WebSocketHandler {
    func willClose(code: UInt16?) {}
    func receivedClose(code: UInt16?) {}
}
