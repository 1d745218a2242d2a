// Certificates for tls_bad_*. The openssl command makes them in a temporary directory, which is removed before the first
// connection. A client that trusts their authority sees exactly one fault in each of them.
private import CGIO
import DecartProtocol
import Glibc
import MediaSecurity

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
        return TLSContexts(
            good: try authority.context("good"),
            bad: [
                .expired: try authority.context("expired"), .host: try authority.context("host"),
                .ca: try authority.context("unknown"), .old: try authority.context("good", maximum: .tls11),
            ])
    }

    private init() throws(StandInError) {
        var template = Array("/tmp/decart-standin-XXXXXX".utf8CString)
        let made = template.withUnsafeMutableBufferPointer { buffer in
            buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
        }
        guard let made else { throw StandInError("cannot make a directory for certificates in /tmp") }
        directory = made
    }

    private func removeFiles() {
        for name in ["ca", "other", "good", "expired", "host", "unknown"] {
            for suffix in ["key", "pem", "csr", "ext", "srl"] { unlink("\(directory)/\(name).\(suffix)") }
        }
        rmdir(directory)
    }

    private func context(_ name: String, maximum: TLSVersion? = nil) throws(StandInError) -> TLSServerContext {
        try TLSContexts.context(
            for: .init(certificateChain: "\(directory)/\(name).pem", privateKey: "\(directory)/\(name).key"),
            maximum: maximum)
    }

    /// Arguments: the directory, and the path of the authority's certificate.
    private static let script = """
        make() {
            new='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
            for name in ca other; do
                openssl req -x509 $new -keyout $name.key -out $name.pem -days 30 -addext keyUsage=critical,keyCertSign \\
                    -subj "/CN=decart-standin throwaway authority $name" || return
            done
            own=DNS:localhost,IP:127.0.0.1,IP:0:0:0:0:0:0:0:1
            # OpenSSL before 3.4 has no option for the end, and later ones refuse one before the start.
            sign good ca '-days 30' $own && sign host ca '-days 30' DNS:elsewhere.invalid &&
                sign unknown other '-days 30' $own &&
                { sign expired ca '-not_before 20200101000000Z -not_after 20200201000000Z' $own ||
                    sign expired ca '-days -1' $own; }
        }
        sign() {
            echo "subjectAltName=$4" >$1.ext
            openssl req $new -keyout $1.key -out $1.csr -subj /CN=decart-standin &&
                openssl x509 -req -in $1.csr -CA $2.pem -CAkey $2.key -CAcreateserial -extfile $1.ext $3 -out $1.pem
        }
        (cd "$1" && make) || exit
        cp "$1/ca.pem" "$2" || exit 3
        """

    private func create(writingCertificateTo file: String) throws(StandInError) {
        let words = ["/bin/sh", "-c", Self.script, "sh", directory, file]
        var arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var status: Int32 = 0
        // Its standard input is /dev/null too.
        let flags = GSpawnFlags(G_SPAWN_STDOUT_TO_DEV_NULL.rawValue | G_SPAWN_STDERR_TO_DEV_NULL.rawValue)
        guard g_spawn_sync(nil, &arguments, nil, flags, nil, nil, nil, nil, &status, nil) != 0 else {
            throw StandInError("cannot run /bin/sh, which makes certificates")
        }
        switch status >> 8 {
        case _ where status == 0: break
        case 3: throw StandInError("cannot write \(file)")
        case 127: throw StandInError("the openssl command, which makes certificates, is not there")
        default: throw StandInError("the openssl command could not make the certificates")
        }
    }
}

/// The context with the valid certificate, and one for each certificate fault.
struct TLSContexts: Sendable {
    var good: TLSServerContext
    var bad: [FaultKind.Certificate: TLSServerContext] = [:]

    func context(_ plan: FaultPlan) -> TLSServerContext {
        plan.first { fault in
            if case .tls(let certificate) = fault.kind { bad[certificate] } else { nil }
        } ?? good
    }

    /// - Parameter maximum: The newest TLS version to accept; nil: any version from 1.2.
    static func context(
        for files: StandInConfiguration.TLSFiles, maximum: TLSVersion? = nil
    ) throws(StandInError) -> TLSServerContext {
        for (option, path) in [("--tls-cert", files.certificateChain), ("--tls-key", files.privateKey)] {
            do throws(BoundedFileError) {
                _ = try BoundedFile.read(path: path, maximumSize: 1 << 20)
            } catch {
                throw StandInError("\(option): the file \(path) cannot be read: \(error)")
            }
        }
        do throws(TLSError) {
            return try TLSServerContext(
                certificateChainFile: files.certificateChain, privateKeyFile: files.privateKey, maximumVersion: maximum)
        } catch {
            throw StandInError(
                "cannot use the certificate of --tls-cert with the key of --tls-key"
                    + (error.library.map { ": \($0)" } ?? "") + ". Both are PEM files, and belong together.")
        }
    }
}
