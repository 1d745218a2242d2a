// One of the two protocols that are all a session knows of the outside. An implementation may use any threads; it
// calls back on any thread, one event at a time and in order.

/// What a channel tells. After `closed` or `failed` nothing more comes.
package enum SignallingEvent: Sendable, Equatable {
    /// - Parameters: durations of the two phases, see `ConnectPhases`.
    case opened(transport: Duration?, upgrade: Duration?)
    /// The body of a text message: valid UTF-8, within the channel's bounds.
    case text([UInt8])
    /// The body of a binary message, from a channel that was made for them.
    case binary([UInt8])
    /// Closed by the peer, or by us. Code as in RFC 6455 §7.4; nil: none was given.
    case closed(code: Int?, reason: String)
    case failed(SessionError)
}

/// A message channel to the service, for one attempt.
package protocol SignallingChannel: AnyObject, Sendable {
    /// Called once. Answered with `opened`, `closed` or `failed` within the time-out.
    func open(timeout: Duration)

    /// Queues one message, of the kind that the channel is for. Never blocks; if the peer does not take messages, the channel fails.
    func send(_ message: [UInt8])

    /// The owner has handled a message that the channel delivered. While too many are not handled, the channel may stop
    /// reading.
    func messageHandled(size: Int)

    /// A peer's words without the secrets that this channel was opened with.
    func redacting(_ words: String) -> String

    /// How long the credentials that it was opened with let a session last, once it is open; nil: they do not say.
    var sessionLimit: Duration? { get }

    /// From any thread, at any time, more than once. Returns at once; `closed` or `failed` follows within a second,
    /// unless it was told before.
    func close()
}

extension SignallingChannel {
    package var sessionLimit: Duration? { nil }
    package func messageHandled(size: Int) {}
}
