private import COpenSSL

/// OpenSSL's queue of errors, which belongs to the thread. It must be empty before each call whose result is passed to
/// `SSL_get_error`.
struct ErrorQueue {
    /// The reason codes of the SSL library, oldest first.
    private(set) var reasons: [Int32] = []
    /// All reasons in words, for logs; nil if there are none. They contain no key material.
    private(set) var text: String?

    static func clear() { ERR_clear_error() }

    /// Empties the queue.
    static func drain() -> ErrorQueue {
        var drained = ErrorQueue()
        var texts: [String] = []
        while texts.count < 8 {
            let number = ERR_get_error()
            if number == 0 { break }
            if ERR_GET_LIB(number) == ERR_LIB_SSL { drained.reasons.append(ERR_GET_REASON(number)) }
            texts.append(ERR_reason_error_string(number).map { String(cString: $0) } ?? "error \(number)")
        }
        ERR_clear_error()
        if !texts.isEmpty { drained.text = texts.joined(separator: ", ") }
        return drained
    }
}
