import Glibc

/// A certificate authority, and the certificates that it signs. The openssl command makes them in a temporary folder.
package final class TestAuthority {
    package struct Failure: Error { package var command: String }

    /// Paths of PEM files.
    package struct Files: Sendable {
        package var certificate: String
        package var key: String
    }

    private let folder: String
    package let authority: Files

    /// - Parameters:
    ///   - key: what `openssl req -newkey` takes.
    ///   - digest: of the authority's signatures.
    package init(key: String = "ec -pkeyopt ec_paramgen_curve:P-256", digest: String = "sha256") throws {
        var template = Array("/tmp/decart-tls-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(command: "mkdtemp") }
        folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        authority = Files(certificate: folder + "/ca.pem", key: folder + "/ca.key")
        let settings = """
            [ca]
            default_ca=d
            [d]
            database=index.txt
            serial=serial
            new_certs_dir=.
            default_md=\(digest)
            policy=p
            unique_subject=no
            [p]
            commonName=supplied
            """
        try run(
            "printf '%s\\n' '\(settings)' >ca.cnf && touch index.txt && echo 01 >serial && "
                + "openssl req -x509 -newkey \(key) -nodes -keyout ca.key -out ca.pem -days 3 -subj /CN=TestAuthority")
    }

    deinit { try? run("rm -r \"$PWD\"") }

    package func path(_ name: String) -> String { folder + "/" + name }

    /// Runs a command of the shell in the folder.
    package func run(_ command: String) throws {
        guard system("cd '\(folder)' && { \(command); } >/dev/null 2>&1 </dev/null") == 0 else {
            throw Failure(command: command)
        }
    }

    /// Signs a certificate.
    /// - Parameters:
    ///   - name: of the files and of the subject.
    ///   - extensions: lines of a section of openssl.cnf.
    ///   - days: the time from `startDays`, which counts from now.
    ///   - issuer: the name of another certificate that signs, or "ca".
    package func issue(
        _ name: String, commonName: String? = nil, extensions: String, days: Int = 3, startDays: Int = 0,
        key: String = "ec -pkeyopt ec_paramgen_curve:P-256", signedBy issuer: String = "ca",
        includesIssuer: Bool = false
    ) throws -> Files {
        let start = "$(date -u -d '\(startDays) days' +%Y%m%d%H%M%SZ)"
        let end = "$(date -u -d '\(startDays + days) days' +%Y%m%d%H%M%SZ)"
        try run(
            "openssl req -newkey \(key) -nodes -keyout \(name).key -out \(name).csr -subj '/CN=\(commonName ?? name)' && "
                + "printf '%s\\n' '\(extensions)' >\(name).ext && "
                + "openssl ca -batch -config ca.cnf -notext -cert \(issuer).pem -keyfile \(issuer).key "
                + "-in \(name).csr -out \(name).pem -extfile \(name).ext -startdate \(start) -enddate \(end)")
        if includesIssuer { try run("cat \(issuer).pem >>\(name).pem") }
        return Files(certificate: path(name + ".pem"), key: path(name + ".key"))
    }

    /// Makes a certificate that is its own authority.
    package func selfSigned(_ name: String, extensions: String = "subjectAltName=DNS:localhost") throws -> Files {
        try run(
            "openssl req -x509 -newkey rsa:2048 -nodes -keyout \(name).key -out \(name).pem -days 3 -subj /CN=localhost "
                + "-addext \(extensions)")
        return Files(certificate: path(name + ".pem"), key: path(name + ".key"))
    }
}
