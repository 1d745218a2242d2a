import ArgumentParser
struct RunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "run", abstract: "Everything; prints Markdown.")
    func run() throws {}
}
