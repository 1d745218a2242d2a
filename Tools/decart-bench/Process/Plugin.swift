import CGStreamer

enum Plugin {
    /// Loads a plugin from its file, whatever GStreamer's registry has.
    static func load(_ file: String) throws {
        guard let loaded = gst_plugin_load_file(file, nil) else { throw BenchError("\(file) does not load") }
        gst_object_unref(UnsafeMutableRawPointer(loaded))
    }
}
