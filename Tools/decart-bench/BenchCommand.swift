import CommandLineOptions

@main
enum BenchCommand {
    private static var commands: CommandGroup {
        CommandGroup(
            "decart-bench",
            abstract: "Measures the transport against webrtcbin doing the same work, and what the element costs.",
            commands: [
                .init(RunCommand.self), .init(ElementCommand.self), .init(EncodedCommand.self),
                .init(StartCommand.self),
                .init(PeerCommand.self, isHidden: true), .init(MeasureCommand.self, isHidden: true),
            ])
    }

    static func main() { commands.main() }
}

extension OptionTable {
    /// The table of a subcommand.
    static func bench(
        _ name: String, abstract: String, discussion: String = "", options: [CommandOption<Values>],
        positional: CommandOption<Values>? = nil
    ) -> Self {
        Self(
            "decart-bench \(name)", abstract: abstract, discussion: discussion,
            options: options, positional: positional, others: .gstreamer())
    }
}
