internal import CGStreamer

/// The options that GLib's GOption finds on a command line. Values are strings of C as they are, and need not be UTF-8.
package struct OptionContext {
    package struct Option {
        let name: String
        let short: Character?
        let takesValue: Bool

        package init(name: String, short: Character?, takesValue: Bool) {
            (self.name, self.short, self.takesValue) = (name, short, takesValue)
        }
    }

    /// The options in their order; a value is nil for an option that takes none.
    package private(set) var options: [(name: String, value: [CChar]?)] = []
    /// The other arguments: unknown options and positional ones.
    package private(set) var rest: [[CChar]] = []
    /// GOption's message if an option has no value.
    package private(set) var failure: String?

    /// - Parameter arguments: strings of C, without the program's name.
    package init(parsing arguments: [[CChar]], program: String, options known: [Option]) {
        let collector = Collector(known)
        // GOption keeps these pointers until its context is freed.
        let names = known.map { g_strdup($0.name) }
        defer { for name in names { g_free(name) } }
        let callback: GOptionArgFunc = { name, value, data, _ in
            guard let name, let data else { return 0 }
            Unmanaged<Collector>.fromOpaque(data).takeUnretainedValue().add(String(cString: name), value)
            return 1
        }
        var entries = zip(known, names).map { option, name in
            // Without the flag for file names, GOption converts values from the locale's encoding, or rejects them.
            let flag = option.takesValue ? G_OPTION_FLAG_FILENAME : G_OPTION_FLAG_NO_ARG
            return GOptionEntry(
                long_name: name, short_name: option.short?.asciiValue.map { gchar(bitPattern: $0) } ?? 0,
                flags: gint(flag.rawValue), arg: G_OPTION_ARG_CALLBACK,
                arg_data: unsafeBitCast(callback, to: gpointer.self), description: nil, arg_description: nil)
        }
        // The end of the table, which GOption copies.
        entries.append(GOptionEntry())
        let group = g_option_group_new("", "", "", Unmanaged.passUnretained(collector).toOpaque(), nil)
        g_option_group_add_entries(group, entries)
        let context = g_option_context_new(nil)
        defer { g_option_context_free(context) }
        g_option_context_set_main_group(context, group)
        g_option_context_set_help_enabled(context, 0)
        // GStreamer may know them.
        g_option_context_set_ignore_unknown_options(context, 1)

        var pointers = [g_strdup(program)] + arguments.map { g_strdup($0) } + [nil]
        // GOption frees the strings that it removes from a vector of this kind.
        var vector = g_strdupv(&pointers)
        for pointer in pointers { g_free(pointer) }
        defer { g_strfreev(vector) }
        var error: UnsafeMutablePointer<GError>?
        if withExtendedLifetime(collector, { g_option_context_parse_strv(context, &vector, &error) }) == 0 {
            failure = error.flatMap { $0.pointee.message }.map { String(cString: $0) } ?? "The command line is wrong"
            g_clear_error(&error)
        }
        options = collector.options
        var next = vector.map { $0 + 1 }
        while let string = next?.pointee {
            rest.append(Self.copy(string))
            next = next.map { $0 + 1 }
        }
    }

    private static func copy(_ string: UnsafePointer<gchar>) -> [CChar] {
        Array(UnsafeBufferPointer(start: string, count: strlen(string) + 1))
    }

    private final class Collector {
        private let known: [Option]
        private(set) var options: [(name: String, value: [CChar]?)] = []

        init(_ known: [Option]) { self.known = known }

        /// - Parameter spelling: "--name" or "-n".
        func add(_ spelling: String, _ value: UnsafePointer<gchar>?) {
            let option = known.first { "--\($0.name)" == spelling || $0.short.map { "-\($0)" } == spelling }
            if let option { options.append((option.name, value.map { OptionContext.copy($0) })) }
        }
    }
}
