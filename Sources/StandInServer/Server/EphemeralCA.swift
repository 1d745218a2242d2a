// Certificates for tls_bad_*. The openssl command makes them in a temporary directory, which is removed before the first
// connection. A client that trusts their authority sees exactly one fault in each of them.
import Glibc
import NIOSSL

/// A certificate authority for tests.
struct EphemeralCA {
    private let directory: String

    /// The TLS contexts with the certificates of a new authority, whose keys are in memory only on return. Blocks for some
    /// tenths of a second while the openssl command runs.
    /// - Parameter file: Path to write the authority's certificate to, PEM.
    static func contexts(writingCertificateTo file: String) throws(StandInError) -> TLSContexts {
        let authority = try EphemeralCA()
        defer { authority.removeFiles() }
        try authority.create(writingCertificateTo: file)
        return try authority.contexts()
    }

    private init() throws(StandInError) {
        var template = Array("/tmp/decart-standin-XXXXXX".utf8CString)
        let made = template.withUnsafeMutableBufferPointer { buffer in
            buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
        }
        guard let made else { throw StandInError("cannot make a directory for certificates in /tmp") }
        directory = made
    }

    private func create(writingCertificateTo file: String) throws(StandInError) {
        for name in ["ca", "other"] {
            try openssl(
                "req", "-x509", Self.newKey, "-keyout", path("\(name).key"), "-out", path("\(name).pem"), "-days", "30",
                "-subj", "/CN=decart-standin throwaway authority \(name)", "-addext", "keyUsage=critical,keyCertSign")
        }
        try copy(path("ca.pem"), to: file)
    }

    private func removeFiles() {
        for name in ["ca", "other", "good", "expired", "host", "unknown"] {
            for suffix in ["key", "pem", "csr", "ext", "srl"] { unlink(path("\(name).\(suffix)")) }
        }
        rmdir(directory)
    }

    private func contexts() throws(StandInError) -> TLSContexts {
        try sign("good", by: "ca")
        try sign("expired", by: "ca", days: -1)
        try sign("host", by: "ca", subject: "DNS:elsewhere.invalid")
        try sign("unknown", by: "other")
        return TLSContexts(
            good: try context("good"),
            bad: [
                .expired: try context("expired"), .host: try context("host"), .ca: try context("unknown"),
                .old: try context("good", maximum: .tlsv11),
            ])
    }

    private func context(_ name: String, maximum: TLSVersion? = nil) throws(StandInError) -> NIOSSLContext {
        try ServerTLS.context(
            for: .init(certificateChain: path("\(name).pem"), privateKey: path("\(name).key")), maximum: maximum)
    }

    private func sign(
        _ name: String, by authority: String, days: Int = 30,
        subject: String = "DNS:localhost,IP:127.0.0.1,IP:0:0:0:0:0:0:0:1"
    ) throws(StandInError) {
        try write("subjectAltName=\(subject)\n", to: path("\(name).ext"))
        try openssl(
            "req", Self.newKey, "-keyout", path("\(name).key"), "-out", path("\(name).csr"), "-subj",
            "/CN=decart-standin")
        try openssl(
            "x509", "-req", "-in", path("\(name).csr"), "-CA", path("\(authority).pem"), "-CAkey",
            path("\(authority).key"), "-CAcreateserial", "-extfile", path("\(name).ext"), "-days", String(days),
            "-out", path("\(name).pem"))
    }

    private static let newKey = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"

    private func path(_ name: String) -> String { directory + "/" + name }

    private func write(_ text: String, to path: String) throws(StandInError) {
        guard let file = fopen(path, "w") else { throw StandInError("cannot write \(path)") }
        let bytes = Array(text.utf8)
        let written = fwrite(bytes, 1, bytes.count, file)
        guard fclose(file) == 0, written == bytes.count else { throw StandInError("cannot write \(path)") }
    }

    private func copy(_ source: String, to target: String) throws(StandInError) {
        guard let file = fopen(source, "r") else { throw StandInError("cannot read \(source)") }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        bytes.removeLast(bytes.count - fread(&bytes, 1, bytes.count, file))
        try write(String(decoding: bytes, as: UTF8.self), to: target)
    }

    /// Runs the command without a shell. Only `newKey` is split at spaces.
    private func openssl(_ arguments: String...) throws(StandInError) {
        let words =
            ["openssl"]
            + arguments.flatMap { $0 == Self.newKey ? $0.split(separator: " ").map(String.init) : [$0] }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] {
            posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0)
        }
        var pointers = words.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        var process = pid_t()
        guard posix_spawnp(&process, "openssl", &actions, nil, &pointers, environ) == 0 else {
            throw StandInError("the openssl command, which makes certificates, is not there")
        }
        var status: Int32 = 0
        while waitpid(process, &status, 0) == -1, errno == EINTR {}
        guard status == 0 else { throw StandInError("openssl \(arguments.first ?? "") failed") }
    }
}

/// The context with the valid certificate, and one for each certificate fault.
struct TLSContexts: Sendable {
    var good: NIOSSLContext
    var bad: [FaultKind.Certificate: NIOSSLContext] = [:]

    func context(_ plan: FaultPlan) -> NIOSSLContext {
        plan.first { fault in
            if case .tls(let certificate) = fault.kind { bad[certificate] } else { nil }
        } ?? good
    }
}
