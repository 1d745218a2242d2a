import Glibc
package import MediaSecurity

/// Certificate authorities and certificates of one test, which the openssl command makes in a temporary directory. The
/// authority is `ca.pem`.
package final class Certificates: Sendable {
    private static let newKey = "-newkey ec -pkeyopt ec_paramgen_curve:P-256"
    private let directory: String

    package struct Failure: Error {
        let command: String
    }

    package init() throws {
        var template = Array("/tmp/decart-tls-XXXXXX".utf8CString)
        let name: String? = template.withUnsafeMutableBufferPointer {
            $0.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
        }
        guard let name else { throw Failure(command: "mkdtemp") }
        directory = name
        try run(
            "req -x509 \(Self.newKey) -nodes -keyout ca.key -out ca.pem -days 3 -subj /CN=TestAuthority"
        )
    }

    deinit {
        _ = shell("rm -r '\(directory)'")
    }

    package func path(_ name: String) -> String { directory + "/" + name }

    private func check(_ command: String) throws { if shell(command) != 0 { throw Failure(command: command) } }

    private func shell(_ command: String) -> Int32 { system("cd '\(directory)' && { \(command); } >/dev/null 2>&1") }

    package func run(_ arguments: String) throws {
        try check("openssl " + arguments)
    }

    /// Returns a server context with a certificate that the authority signed. `days` and `startDays` start today.
    package func server(
        name: String, san: String, days: Int = 3, startDays: Int = 0, signedBy authority: String = "ca",
        includesChain: Bool = false, maximum: TLSVersion? = nil
    ) throws -> TLSServerContext {
        try run("req \(Self.newKey) -nodes -keyout \(name).key -out \(name).csr -subj /CN=\(name)")
        let extensions = san.isEmpty ? "basicConstraints=CA:FALSE" : "subjectAltName=\(san)"
        try check("printf '%s\\n' '\(extensions)' > \(name).ext")
        try check(
            "touch index.txt && (test -f serial || echo 01 > serial) && printf '%s\\n' '[ca]' 'default_ca=d' '[d]' "
                + "'database=index.txt' 'serial=serial' 'new_certs_dir=.' 'policy=p' 'unique_subject=no' '[p]' "
                + "'commonName=supplied' > ca.cnf")
        let start = "$(date -u -d '\(startDays) days' +%Y%m%d%H%M%SZ)"
        let end = "$(date -u -d '\(startDays + days) days' +%Y%m%d%H%M%SZ)"
        try run(
            "ca -batch -config ca.cnf -md sha256 -notext -cert \(authority).pem -keyfile \(authority).key "
                + "-in \(name).csr -out \(name).pem -extfile \(name).ext -startdate \(start) -enddate \(end)")
        if includesChain { try check("cat \(authority).pem >> \(name).pem") }
        return try server(file: name, maximum: maximum)
    }

    /// Returns a server context with a certificate and a key that exist.
    package func server(file name: String, maximum: TLSVersion? = nil) throws -> TLSServerContext {
        try TLSServerContext(
            certificateChainFile: path(name + ".pem"), privateKeyFile: path(name + ".key"), maximumVersion: maximum)
    }
}
