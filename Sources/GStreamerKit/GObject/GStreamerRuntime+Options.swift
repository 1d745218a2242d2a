internal import CGStreamer

extension GStreamerRuntime {
    /// Initialises GStreamer with those of the arguments that are its options, such as `--gst-debug=3`, and returns the
    /// others. Call it before anything else initialises GStreamer.
    package static func initialise(arguments: [String]) throws(GStreamerError) -> [String] {
        // GStreamer moves the pointers within the vector, and does not free what it removes.
        let strings = ([""] + arguments).map { g_strdup($0) }
        defer { for string in strings { g_free(string) } }
        var vector = strings + [nil]
        var count = gint(strings.count)
        var error: UnsafeMutablePointer<GError>?
        let isInitialised = vector.withUnsafeMutableBufferPointer { buffer in
            var start = buffer.baseAddress
            return gst_init_check(&count, &start, &error) != 0
        }
        guard isInitialised else {
            defer { g_clear_error(&error) }
            let message = error.flatMap { $0.pointee.message }.map { String(cString: $0) }
            throw GStreamerError(.badOption, message ?? "GStreamer cannot be initialised")
        }
        return vector.prefix(max(0, Int(count))).dropFirst().compactMap { $0.map { String(cString: $0) } }
    }

    /// The help of GStreamer's options. It does not need GStreamer to be initialised.
    package static var optionHelp: String {
        let context = g_option_context_new(nil)
        defer { g_option_context_free(context) }
        guard let group = gst_init_get_option_group() else { return "" }
        g_option_context_add_group(context, group)
        guard let text = g_option_context_get_help(context, 0, group) else { return "" }
        defer { g_free(text) }
        return String(cString: text)
    }
}
