import Glibc

/// A program with subcommands.
package struct CommandGroup {
    private let name: String
    private let abstract: String
    private let commands: [Entry]

    package struct Entry {
        let name: String
        let abstract: String
        let isHidden: Bool
        let main: ([RawArgument]) -> Never

        /// - Parameter isHidden: true for a command that the help does not show.
        package init<Subcommand: Command>(_ type: Subcommand.Type, isHidden: Bool = false) {
            let table = Subcommand.table
            name = table.name.split(separator: " ").last.map { String($0) } ?? ""
            (abstract, self.isHidden) = (table.abstract, isHidden)
            main = { Subcommand.main($0) }
        }
    }

    /// - Parameter commands: the first one is that of a command line that names none.
    package init(_ name: String, abstract: String, commands: [Entry]) {
        (self.name, self.abstract, self.commands) = (name, abstract, commands)
    }

    package func main(_ arguments: [RawArgument] = RawArgument.ofProcess) {
        let (first, rest) = (arguments.first?.text, Array(arguments.dropFirst()))
        if let command = commands.first(where: { $0.name == first }) { command.main(rest) }
        if first == "help", let command = commands.first(where: { $0.name == rest.first?.text }) {
            command.main([RawArgument("--help")])
        }
        if first == "help" || first == "--help" || first == "-h" {
            write(help, to: STDOUT_FILENO)
        } else {
            commands.first?.main(arguments)
        }
    }

    package var help: String {
        let rows = commands.filter { !$0.isHidden }.map { (term: $0.name, text: $0.abstract) }
        return [
            HelpText.wrap("OVERVIEW: " + abstract), "USAGE: \(name) [<subcommand>] [<options>]",
            "SUBCOMMANDS:\n" + HelpText.rows(rows), "  See '\(name) <subcommand> --help' for its options.",
        ].joined(separator: "\n\n") + "\n"
    }
}
