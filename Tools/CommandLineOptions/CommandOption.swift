/// A type that an option's value may have.
package protocol OptionValue {
    init?(argument: RawArgument)
    /// The value as a command line has it.
    var argument: String { get }
    /// The values that there are, if they are few.
    static var choices: [String] { get }
}

extension OptionValue {
    package static var choices: [String] { [] }
}

extension String: OptionValue {
    package init?(argument: RawArgument) {
        guard let text = argument.text else { return nil }
        self = text
    }

    package var argument: String { self }
}

extension RawArgument: OptionValue {
    package init?(argument: RawArgument) { self = argument }
    package var argument: String { description }
}

extension Int: OptionValue {
    package init?(argument: RawArgument) { self.init(argument.text ?? "") }
    package var argument: String { String(self) }
}

extension Double: OptionValue {
    package init?(argument: RawArgument) { self.init(argument.text ?? "") }
    package var argument: String {
        let text = String(self)
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }
}

extension OptionValue where Self: RawRepresentable & CaseIterable, RawValue == String {
    package init?(argument: RawArgument) { self.init(rawValue: argument.text ?? "") }
    package var argument: String { rawValue }
    package static var choices: [String] { allCases.map(\.rawValue) }
}

/// A row of a table of options: its name, its value, its help, and the property that it sets.
package struct CommandOption<Values> {
    let name: String
    let short: Character?
    /// Nil for an option without a value.
    let valueName: String?
    let isRequired: Bool
    let help: String
    let action: Action

    enum Action {
        case store(Storage)
        /// The program prints this text and ends.
        case print(() -> String)
    }

    struct Storage {
        /// The default that the help shows.
        var standard: (Values) -> String? = { _ in nil }
        /// The expected value in the words of an error.
        var domain: String?
        /// Returns false for an invalid value. An option without a value gets nil.
        let store: (inout Values, RawArgument?) -> Bool
    }
}

// MARK: - Kinds

extension CommandOption {
    package static func flag(
        _ name: String, short: Character? = nil, _ key: WritableKeyPath<Values, Bool>, _ help: String
    ) -> Self {
        let storage = Storage { values, _ in
            values[keyPath: key] = true
            return true
        }
        return Self(
            name: name, short: short, valueName: nil, isRequired: false, help: help, action: .store(storage))
    }

    /// An option that prints a text and ends the program.
    package static func page(
        _ name: String, short: Character? = nil, _ help: String, _ text: @escaping () -> String
    ) -> Self {
        Self(name: name, short: short, valueName: nil, isRequired: false, help: help, action: .print(text))
    }

    /// An option with a default. If it is given more than once, the last one counts.
    package static func value<Value: OptionValue>(
        _ name: String, _ valueName: String, _ key: WritableKeyPath<Values, Value>, isRequired: Bool = false,
        _ help: String
    ) -> Self {
        make(name, valueName, isRequired: isRequired, help, standard: { $0[keyPath: key] }) { $0[keyPath: key] = $1 }
    }

    package static func value<Value: OptionValue>(
        _ name: String, _ valueName: String, _ key: WritableKeyPath<Values, Value?>, _ help: String
    ) -> Self {
        make(name, valueName, help) { $0[keyPath: key] = $1 }
    }

    package static func number<Value: OptionValue & Comparable>(
        _ name: String, _ valueName: String, _ key: WritableKeyPath<Values, Value>, in range: ClosedRange<Value>,
        _ help: String
    ) -> Self {
        make(name, valueName, help, domain: .init(range), standard: { $0[keyPath: key] }) { $0[keyPath: key] = $1 }
    }

    package static func number<Value: OptionValue & Comparable>(
        _ name: String, _ valueName: String, _ key: WritableKeyPath<Values, Value?>, in range: ClosedRange<Value>,
        _ help: String
    ) -> Self {
        make(name, valueName, help, domain: .init(range)) { $0[keyPath: key] = $1 }
    }

    /// An option that may be given more than once.
    package static func list<Value: OptionValue>(
        _ name: String, _ valueName: String, _ key: WritableKeyPath<Values, [Value]>, _ help: String
    ) -> Self {
        make(name, valueName, help) { $0[keyPath: key].append($1) }
    }

    private static func make<Value: OptionValue>(
        _ name: String, _ valueName: String, isRequired: Bool = false, _ help: String, domain: Domain<Value>? = nil,
        standard: @escaping (Values) -> Value? = { _ in nil }, store: @escaping (inout Values, Value) -> Void
    ) -> Self {
        let choices = Value.choices.isEmpty ? nil : "one of " + Value.choices.joined(separator: ", ")
        let storage = Storage(
            standard: { standard($0)?.argument }, domain: domain?.description ?? choices,
            store: { values, argument in
                guard let value = argument.flatMap({ Value(argument: $0) }), domain?.contains(value) != false else {
                    return false
                }
                store(&values, value)
                return true
            })
        return Self(
            name: name, short: nil, valueName: valueName, isRequired: isRequired, help: help, action: .store(storage))
    }

    private struct Domain<Value: OptionValue> {
        let description: String
        let contains: (Value) -> Bool

        init(_ range: ClosedRange<Value>) where Value: Comparable {
            description = "a number from \(range.lowerBound.argument) to \(range.upperBound.argument)"
            contains = { range.contains($0) }
        }
    }
}
