import GStreamerKit

/// Options that a library knows.
package struct OtherOptions<Values> {
    let prefix: String
    /// Receives what the table does not know, if an argument has the prefix, and returns the rest.
    let take: (Values, [String]) throws -> [String]
    /// The option that prints their help.
    let page: CommandOption<Values>

    package init(
        prefix: String, take: @escaping (Values, [String]) throws -> [String], page: CommandOption<Values>
    ) {
        (self.prefix, self.take, self.page) = (prefix, take, page)
    }

    /// The options of GStreamer's programs.
    ///
    /// - Parameter isUsed: false if the program does not need GStreamer. It is not initialised then, and its options have
    ///   no effect.
    package static func gstreamer(isUsed: @escaping (Values) -> Bool = { _ in true }) -> Self {
        Self(
            prefix: "--gst-",
            take: { values, arguments in
                if isUsed(values) { return try GStreamerRuntime.initialise(arguments: arguments) }
                var rest: [String] = []
                var isValue = false
                for argument in arguments {
                    let isOption = argument.hasPrefix("--gst-")
                    if !isOption, !isValue || argument.hasPrefix("-") { rest.append(argument) }
                    isValue = isOption && !argument.contains("=")
                }
                return rest
            },
            page: .page("help-gst", "Show GStreamer's options, such as --gst-debug.") { GStreamerRuntime.optionHelp })
    }
}
