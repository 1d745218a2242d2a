// Signals belong to the host: its dispositions stay as they are, and our threads do not take its signals.
import Glibc
import Synchronization

/// Runs `body`, which creates a thread, with the signals blocked: a new thread inherits its creator's mask, so there is no
/// moment at which a signal could hit it.
func blocking<Result>(_ signals: sigset_t, _ body: () -> Result) -> Result {
    var (signals, creators) = (signals, sigset_t())
    pthread_sigmask(SIG_BLOCK, &signals, &creators)
    defer { pthread_sigmask(SIG_SETMASK, &creators, nil) }
    return body()
}

/// Runs `body`, which starts a library that makes the whole process ignore SIGPIPE, and then restores the host's
/// disposition. Every child process that the host starts would inherit the other one. One caller at a time: of two, each
/// could restore what the other's library has set.
package func keepingHostsSIGPIPE<Result: Sendable>(_ body: () -> Result) -> Result {
    disposition.withLock { _ in restoringSIGPIPE(body) }
}

private let disposition = Mutex(())

private func restoringSIGPIPE<Result>(_ body: () -> Result) -> Result {
    var (hosts, former) = (sigaction(), sigaction())
    sigaction(SIGPIPE, nil, &hosts)
    let result = body()
    sigaction(SIGPIPE, &hosts, &former)
    // A thread of the host may have set another disposition meanwhile: that one stays.
    let handler: (@convention(c) (CInt) -> Void)? = former.__sigaction_handler.sa_handler
    let isIgnored = handler.map { unsafeBitCast($0, to: UInt.self) } == unsafeBitCast(SIG_IGN, to: UInt.self)
    if !isIgnored { sigaction(SIGPIPE, &former, nil) }
    return result
}
