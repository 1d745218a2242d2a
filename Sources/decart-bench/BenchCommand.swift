import ArgumentParser

@main
struct BenchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "decart-bench",
        abstract: """
            Measures the transport against webrtcbin doing the same work, the flip, the scaler, and what the plugin and its \
            element cost.
            """,
        subcommands: [
            RunCommand.self, FlipCommand.self, ScaleCommand.self, ElementCommand.self, EncodedCommand.self,
            StartCommand.self, PeerCommand.self, MeasureCommand.self, PluginLoadCommand.self,
        ],
        defaultSubcommand: RunCommand.self)
}
