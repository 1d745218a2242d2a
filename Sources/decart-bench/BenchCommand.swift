import ArgumentParser

@main
struct BenchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "decart-bench",
        abstract: "Measures the transport against webrtcbin doing the same work, and what the element costs.",
        subcommands: [
            RunCommand.self, ElementCommand.self, EncodedCommand.self, StartCommand.self, PeerCommand.self,
            MeasureCommand.self,
        ],
        defaultSubcommand: RunCommand.self)
}
