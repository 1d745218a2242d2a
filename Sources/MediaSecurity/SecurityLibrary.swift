private import COpenSSL

/// A sentence for the user when the OpenSSL in use has faults that a peer can reach through DTLS, else `nil`.
///
/// 3.0.22 fixes three of them in DTLS (CVE-2026-75806, CVE-2026-54874, CVE-2026-84782). Branches after 3.0 are not
/// judged: their fixed versions are not known here.
package var securityWarning: String? {
    knownFaults(
        major: Int(OPENSSL_version_major()), minor: Int(OPENSSL_version_minor()), patch: Int(OPENSSL_version_patch()))
}

/// The judgement behind `securityWarning`, for a version of OpenSSL.
package func knownFaults(major: Int, minor: Int, patch: Int) -> String? {
    guard (major, minor) == (3, 0), patch < 22 else { return nil }
    return "OpenSSL \(major).\(minor).\(patch) has known faults in DTLS: install the security update (3.0.22 or later)"
}
