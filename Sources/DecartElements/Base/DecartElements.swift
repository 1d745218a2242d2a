internal import CRelease

/// Registers the package's elements, for the plugin library and for programs that link the elements directly. One
/// process must not do both: the GType names would clash.
package enum DecartElements {
    package static let version = DECART_VERSION
    package static let releaseDate = DECART_RELEASE_DATE
    /// Version and commit, as `gst-inspect-1.0` shows them.
    package static let build = "\(version), \(String(cString: decart_build_name()))"
    static let userAgent = "gst-decart/\(version) lang/swift os/linux"
}
