private import COpenSSL
private import EventLoopThreads

/// OpenSSL's own `atexit` handler frees what our threads use. A host may exit at any time, also with sessions that play.
enum OpenSSLLibrary {
    /// Read it before each call that may be the first use of OpenSSL. False: OpenSSL does not start.
    static let isPrepared: Bool = {
        // Without effect if the host has used OpenSSL before; then its handler calls ours first.
        OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil) == 1
            && OPENSSL_atexit { NetworkThread.haltAll(within: .seconds(1)) } == 1
    }()
}
