import Glibc

/// A program, or a subcommand of one, whose properties the command line sets.
package protocol Command {
    /// All properties have their defaults.
    init()
    static var table: OptionTable<Self> { get }
    /// Throws `UsageError` if values do not go together.
    func validate() throws
    func run() throws
}

/// Ends the program with a status and without a message.
package struct ExitStatus: Error {
    let code: CInt
    package init(_ code: CInt) { self.code = code }
}

extension Command {
    package func validate() {}

    /// Parses the arguments, runs the command, and ends the process.
    ///
    /// - Parameter usageStatus: the exit status of a wrong command line; other errors give 1.
    package static func main(_ arguments: [RawArgument] = RawArgument.ofProcess, usageStatus: CInt = EX_USAGE) -> Never
    {
        do {
            switch try table.parse(arguments, into: Self()) {
            case .text(let text): write(text, to: STDOUT_FILENO)
            case .values(let command):
                try command.validate()
                try command.run()
            }
            exit(EXIT_SUCCESS)
        } catch let error as UsageError {
            write(
                "Error: \(error)\nUsage: \(table.usage)\n  See '\(table.name) --help' for more information.\n",
                to: STDERR_FILENO)
            exit(usageStatus)
        } catch let status as ExitStatus {
            exit(status.code)
        } catch {
            write("Error: \(error)\n", to: STDERR_FILENO)
            exit(EXIT_FAILURE)
        }
    }
}

/// Stops at an error, which cannot be reported.
func write(_ text: String, to descriptor: CInt) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
        guard count > 0 else { return }
        rest = rest.dropFirst(count)
    }
}
