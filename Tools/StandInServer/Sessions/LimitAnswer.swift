/// Answers of a service whose account has all its sessions in use.
package enum LimitAnswer: String, Sendable, CaseIterable {
    /// An `error`, and then a close with code 1013.
    case error
    /// A close with code 1013.
    case close
    case http

    static let text = "Concurrent session limit reached"
}
