private import COpenSSL

/// A warning for the user if the OpenSSL in use has DTLS vulnerabilities that a peer can reach, else nil.
///
/// 3.0.22 fixes three of them (CVE-2026-75806, CVE-2026-54874, CVE-2026-84782). Branches after 3.0 are not checked,
/// because their fixed versions are unknown here.
package var securityWarning: String? {
    knownFaults(
        major: Int(OPENSSL_version_major()), minor: Int(OPENSSL_version_minor()), patch: Int(OPENSSL_version_patch()))
}

/// The check behind `securityWarning`, for a given OpenSSL version.
package func knownFaults(major: Int, minor: Int, patch: Int) -> String? {
    guard (major, minor) == (3, 0), patch < 22 else { return nil }
    return "OpenSSL \(major).\(minor).\(patch) has known faults in DTLS: install the security update (3.0.22 or later)"
}
