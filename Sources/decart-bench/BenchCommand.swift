import ArgumentParser

@main
struct BenchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "decart-bench",
        abstract: "Measures the transport against webrtcbin doing the same work, and what the plugin costs.",
        subcommands: [RunCommand.self, PeerCommand.self, MeasureCommand.self, PluginLoadCommand.self],
        defaultSubcommand: RunCommand.self)
}
