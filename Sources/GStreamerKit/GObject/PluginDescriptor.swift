internal import CGStreamer

/// The static plugin metadata that GStreamer reads from the library.
package struct PluginDescription: Sendable {
    package var name: String
    package var summary: String
    package var version: String
    package var license: String
    package var source: String
    package var package: String
    package var origin: String

    package init(
        name: String, summary: String, version: String, license: String, source: String, package: String, origin: String
    ) {
        self.name = name
        self.summary = summary
        self.version = version
        self.license = license
        self.source = source
        self.package = package
        self.origin = origin
    }

    /// Allocates the C descriptor, which lives as long as the process. `register` is a plain C function because
    /// GStreamer stores only a function pointer.
    package func makeDescriptor(register: @escaping @convention(c) (OpaquePointer?) -> Int32) -> UnsafeRawPointer {
        let descriptor = UnsafeMutablePointer<GstPluginDesc>.allocate(capacity: 1)
        descriptor.initialize(to: GstPluginDesc())
        descriptor.pointee.major_version = gint(GST_VERSION_MAJOR)
        descriptor.pointee.minor_version = gint(GST_VERSION_MINOR)
        // The strings are never freed, like the descriptor.
        descriptor.pointee.name = UnsafePointer(g_strdup(name))
        descriptor.pointee.description = UnsafePointer(g_strdup(summary))
        descriptor.pointee.plugin_init = register
        descriptor.pointee.version = UnsafePointer(g_strdup(version))
        descriptor.pointee.license = UnsafePointer(g_strdup(license))
        descriptor.pointee.source = UnsafePointer(g_strdup(source))
        descriptor.pointee.package = UnsafePointer(g_strdup(package))
        descriptor.pointee.origin = UnsafePointer(g_strdup(origin))
        return UnsafeRawPointer(descriptor)
    }
}

extension PluginHandle {
    package init?(_ plugin: OpaquePointer?) {
        guard let plugin else { return nil }
        pointer = plugin
    }
}
