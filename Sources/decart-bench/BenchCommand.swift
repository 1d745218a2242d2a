import ArgumentParser

@main
struct BenchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "decart-bench",
        abstract: "Measures the transport against webrtcbin doing the same work, the flip, and what the plugin costs.",
        subcommands: [
            RunCommand.self, FlipCommand.self, PeerCommand.self, MeasureCommand.self, PluginLoadCommand.self,
        ],
        defaultSubcommand: RunCommand.self)
}
