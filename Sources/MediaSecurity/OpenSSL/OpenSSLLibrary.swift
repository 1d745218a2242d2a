private import COpenSSL
private import Dispatch
private import EventLoopThreads
private import Glibc
private import Synchronization

/// OpenSSL's own `atexit` handler frees what our threads use. A host may exit at any time, also with sessions that play.
enum OpenSSLLibrary {
    private static let exitLimit = Duration.seconds(1)

    /// Read it before each call that may be the first use of OpenSSL. False: OpenSSL does not start.
    static let isPrepared: Bool = {
        // Without effect if the host has used OpenSSL before; then its handler calls ours first.
        OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil) == 1
            && OPENSSL_atexit {
                NetworkThread.haltAll(within: exitLimit)
                haltUsers()
            } == 1
    }()

    private struct Users {
        var count = 0
        /// The thread on which the process exits.
        var exit: pthread_t?
    }
    private static let users = Mutex(Users())
    private static let lastHasEnded = DispatchSemaphore(value: 0)

    /// Calls OpenSSL on another thread than a network thread: an exit of the process waits for the end of `body`, and
    /// after it the call does not return.
    static func use<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        let mayEnter = users.withLock { users in
            guard users.exit == nil || users.exit == pthread_self() else { return false }
            users.count += 1
            return true
        }
        while !mayEnter { pause() }
        defer {
            let isLast = users.withLock { users in
                users.count -= 1
                return users.count == 0 && users.exit != nil
            }
            if isLast { lastHasEnded.signal() }
        }
        return try body()
    }

    private static func haltUsers() {
        let areUsing = users.withLock { users in
            users.exit = pthread_self()
            return users.count > 0
        }
        guard areUsing else { return }
        _ = lastHasEnded.wait(timeout: .now() + .nanoseconds(Int(exitLimit / .nanoseconds(1))))
    }
}
