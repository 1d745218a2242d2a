// The first of the two protocols that are all a session knows of its environment; `MediaTransport` is the second. An
// implementation may use any threads; it calls back on any thread, one event at a time and in order.
package import DecartProtocol

/// Events of a channel. `closed` or `failed` is the last one.
package enum SignallingEvent: Sendable, Equatable {
    /// Carries the durations of the two phases; see `ConnectPhases`.
    case opened(transport: Duration?, upgrade: Duration?)
    /// The body of a text message: valid UTF-8, within the channel's size limit.
    case text([UInt8])
    /// The body of a binary message, only from a channel that is configured for binary messages.
    case binary([UInt8])
    /// The peer has not answered a ping. The channel stays open, because packets may pass again; the owner decides.
    case silent(SessionError)
    /// Something arrived after `probe`.
    case answered
    /// Closed by the peer or by us. `code` is that of RFC 6455 §7.4; nil: the peer sent none.
    case closed(code: Int?, reason: String)
    case failed(SessionError)
}

/// A message channel to the service, for one attempt.
package protocol SignallingChannel: AnyObject, Sendable {
    /// Called once. `opened`, `closed` or `failed` follows within the timeout.
    func open(timeout: Duration)

    /// Queues one message of the channel's type, text or binary. Never blocks; the channel fails if the peer does not
    /// read.
    func send(_ message: [UInt8])

    /// Called when the owner has handled a message that the channel delivered. The channel may stop reading while too
    /// many messages are unhandled.
    func messageHandled(size: Int)

    /// Sends a ping now; `answered` follows with whatever arrives next.
    func probe()

    /// Removes the secrets with which this channel was opened from a peer's text.
    func redacting(_ text: String) -> String

    /// The key with which this channel was opened, known once it is open. A peer of the media may have learnt it.
    var secret: Secret? { get }

    /// Longest session that the channel's credentials permit, known once it is open; nil: unknown.
    var sessionLimit: Duration? { get }

    /// May be called on any thread, at any time and repeatedly. Returns at once; `closed` or `failed` follows within a
    /// second, unless it came before.
    func close()
}

extension SignallingChannel {
    package var secret: Secret? { nil }
    package var sessionLimit: Duration? { nil }
    package func messageHandled(size: Int) {}
    package func probe() {}
}
