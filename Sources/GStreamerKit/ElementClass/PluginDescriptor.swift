internal import CGStreamer

/// What a plugin library exports.
public enum PluginDescriptor {
    /// Allocates the C descriptor, which lives as long as the process. `releaseDate` is "YYYY-MM-DD"; `register` is a plain
    /// C function, because GStreamer stores only a function pointer.
    public static func make(
        name: String, summary: String, version: String, license: String, source: String, package: String,
        origin: String, releaseDate: String, register: @escaping @convention(c) (OpaquePointer?) -> Int32
    ) -> UnsafeRawPointer {
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
        descriptor.pointee.release_datetime = UnsafePointer(g_strdup(releaseDate))
        return UnsafeRawPointer(descriptor)
    }
}

extension PluginHandle {
    /// Takes the pointer that the plugin's initialisation gets.
    public init?(_ plugin: OpaquePointer?) {
        guard let plugin else { return nil }
        pointer = plugin
    }

    /// The folder of the library, by the path by which GStreamer found it: symbolic links are not followed.
    private var folder: String? {
        guard let file = gst_plugin_get_filename(pointer) else { return nil }
        return String(cString: file).split(separator: "/", omittingEmptySubsequences: false).dropLast()
            .joined(separator: "/")
    }

    /// True if the library lies in the folder of GStreamer's core elements, where distributions put their plugins.
    package var isAmongGStreamersOwn: Bool {
        guard let folder else { return false }
        return g_file_test(folder + "/libgstcoreelements.so", G_FILE_TEST_EXISTS) != 0
    }

    /// Makes GStreamer load the plugin again when `file` has changed, whose path is relative to the plugin's folder.
    package func follow(folder relative: String, file: String) {
        guard let folder else { return }
        gst_plugin_add_dependency_simple(
            pointer, nil, folder + "/" + relative, file, GST_PLUGIN_DEPENDENCY_FLAG_NONE)
    }
}
