import GStreamerKit

/// A command line that is wrong, as a sentence for the user.
package struct UsageError: Error, CustomStringConvertible, Equatable {
    package let description: String
    package init(_ description: String) { self.description = description }
}

/// All that a command line may have, and what the help says of it.
package struct OptionTable<Values> {
    let name: String
    let abstract: String
    let discussion: String
    let options: [CommandOption<Values>]
    let positional: CommandOption<Values>?
    private let others: OtherOptions<Values>?

    package enum Outcome {
        case values(Values)
        /// The program prints this text, such as its help, and ends.
        case text(String)
    }

    /// - Parameter positional: a required argument without a name.
    package init(
        _ name: String, abstract: String, discussion: String = "", options: [CommandOption<Values>],
        positional: CommandOption<Values>? = nil, others: OtherOptions<Values>? = nil
    ) {
        (self.name, self.abstract, self.discussion) = (name, abstract, discussion)
        (self.options, self.positional, self.others) = (options, positional, others)
    }

    package func parse(_ arguments: [RawArgument], into defaults: Values) throws(UsageError) -> Outcome {
        let options = allOptions(defaults)
        // GOption would drop such a value.
        for argument in arguments.map(\.description).prefix(while: { $0 != "--" }) {
            let option = options.first { $0.valueName == nil && argument.hasPrefix("--\($0.name)=") }
            if let option { throw UsageError("The option '\(option.spelling)' takes no value.") }
        }
        let context = OptionContext(
            parsing: arguments.map(\.bytes), program: name,
            options: options.map { .init(name: $0.name, short: $0.short, takesValue: $0.valueName != nil) })
        let given = context.options.compactMap { name, value in
            options.first { $0.name == name }.map { (option: $0, value: value.map { RawArgument(bytes: $0) }) }
        }
        // Also if something else is wrong.
        for case .print(let text) in given.map({ $0.option.action }) { return .text(text()) }
        if let failure = context.failure { throw UsageError(failure + ".") }

        var values = defaults
        for (option, value) in given { try store(value, of: option, in: &values, options) }
        try storeOthers(context.rest.map { RawArgument(bytes: $0) }, in: &values)
        for option in options where option.isRequired && !given.contains(where: { $0.option.name == option.name }) {
            throw UsageError("Missing option '\(option.spelling)'.")
        }
        return .values(values)
    }

    func allOptions(_ defaults: Values) -> [CommandOption<Values>] {
        let help = CommandOption<Values>.page("help", short: "h", "Show help information.") {
            self.help(defaults)
        }
        return options + [others?.page, help].compactMap { $0 }
    }

    private func store(
        _ value: RawArgument?, of option: CommandOption<Values>, in values: inout Values,
        _ options: [CommandOption<Values>] = []
    ) throws(UsageError) {
        guard case .store(let storage) = option.action else { return }
        // GOption takes any argument for a value. A forgotten value must not swallow the next option.
        if let name = value?.text?.prefix(while: { $0 != "=" }), options.contains(where: { "--\($0.name)" == name }) {
            throw UsageError("Missing value for '\(option.spelling)'.")
        }
        guard !storage.store(&values, value) else { return }
        guard let text = value?.text else { throw UsageError("The value of '\(option.spelling)' is not UTF-8.") }
        let domain = storage.domain.map { ": expected \($0)" } ?? ""
        throw UsageError("The value '\(text)' is invalid for '\(option.spelling)'\(domain).")
    }

    /// The positional argument, and the options of others.
    private func storeOthers(_ arguments: [RawArgument], in values: inout Values) throws(UsageError) {
        var rest: [String] = []
        for argument in arguments {
            guard let text = argument.text else { throw UsageError("The argument '\(argument)' is not UTF-8.") }
            rest.append(text)
        }
        if let others, rest.contains(where: { $0.hasPrefix(others.prefix) }) {
            do { rest = try others.take(values, rest) } catch { throw UsageError("\(error).") }
        }
        var isPositional = false
        var open = positional
        for text in rest {
            if !isPositional, text == "--" {
                isPositional = true
            } else if !isPositional, text.hasPrefix("-"), text != "-" {
                // Its value may be a secret.
                let name = String(text.prefix { $0 != "=" })
                let near = NearestName.of(String(name.drop { $0 == "-" }), among: options.map(\.name))
                throw UsageError("Unknown option '\(name)'." + (near.map { " Is '--\($0)' meant?" } ?? ""))
            } else if let argument = open {
                try store(RawArgument(text), of: argument, in: &values)
                open = nil
            } else {
                let option = text.contains("://") ? options.first { $0.name.hasSuffix("-url") } : nil
                throw UsageError(
                    "Unexpected argument '\(text)'." + (option.map { " Write --\($0.name) in front of it." } ?? ""))
            }
        }
        if let open { throw UsageError("Missing argument '\(open.spelling)'.") }
    }
}

extension CommandOption {
    /// A positional argument.
    package static func argument<Value: OptionValue>(
        _ valueName: String, _ key: WritableKeyPath<Values, Value>, _ help: String
    ) -> Self {
        value("", valueName, key, isRequired: true, help)
    }

    /// The option and its value as help and errors name it.
    var spelling: String {
        let value = valueName.map { "<\($0)>" }
        return (name.isEmpty ? [value] : ["--" + name, value]).compactMap { $0 }.joined(separator: " ")
    }
}
