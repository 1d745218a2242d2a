import Glibc

/// Help for a terminal.
package enum HelpText {
    /// The second column of options begins here.
    private static let column = 26

    /// The width of a line: `COLUMNS` if the environment has it, as for the man pages, else 80.
    package static var width: Int {
        let number = getenv("COLUMNS").flatMap { Int(String(cString: $0)) } ?? 0
        return number >= 2 * column ? number : 80
    }

    /// Rows of two columns, such as an option and its help. A long term has a line of its own.
    package static func rows(_ rows: [(term: String, text: String)], width: Int = width) -> String {
        rows.map { term, text in
            let isShort = term.count + 4 <= column
            return "  \(term)" + (isShort ? spaces(column - term.count - 2) : "\n" + spaces(column))
                + fill(text, indent: column, width: width)
        }.joined(separator: "\n")
    }

    /// Breaks the lines of a text. The rest of a line begins below its last column, which two spaces separate.
    package static func wrap(_ text: String, width: Int = width) -> String {
        text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            guard line.count > width else { return String(line) }
            var column = line.prefix { $0 == " " }.count
            if column > 0 {
                let words = Array(line.prefix(width / 2))
                column = words.indices.last { $0 > 1 && words[$0 - 2...$0 - 1] == [" ", " "] } ?? column
            }
            return line.prefix(column) + fill(String(line.dropFirst(column)), indent: column, width: width)
        }.joined(separator: "\n")
    }

    /// Fills lines with the words of a text that begins in column `indent`.
    package static func fill(_ text: String, indent: Int, width: Int) -> String {
        var lines: [String] = []
        for word in text.split(separator: " ") {
            if let last = lines.last, indent + last.count + 1 + word.count <= width {
                lines[lines.count - 1] += " " + word
            } else {
                lines.append(String(word))
            }
        }
        return lines.joined(separator: "\n" + spaces(indent))
    }

    private static func spaces(_ count: Int) -> String { String(repeating: " ", count: max(0, count)) }
}

extension OptionTable {
    /// The command line in short.
    package var usage: String {
        let required = options.filter(\.isRequired) + [positional].compactMap { $0 }
        return ([name] + required.map(\.spelling) + ["[<options>]"]).joined(separator: " ")
    }

    package func help(_ defaults: Values) -> String {
        let rows = allOptions(defaults).map { option in
            let term = (option.short.map { "-\($0), " } ?? "") + option.spelling
            guard case .store(let storage) = option.action, !option.isRequired,
                let standard = storage.standard(defaults), !standard.isEmpty
            else { return (term: term, text: option.help) }
            return (term: term, text: option.help + " (default: \(standard))")
        }
        let argument = positional.map { "ARGUMENTS:\n" + HelpText.rows([($0.spelling, $0.help)]) }
        let parts = [
            HelpText.wrap("OVERVIEW: " + abstract), discussion.isEmpty ? nil : HelpText.wrap(discussion),
            "USAGE: " + usage, argument, "OPTIONS:\n" + HelpText.rows(rows),
        ]
        return parts.compactMap { $0 }.joined(separator: "\n\n") + "\n"
    }
}
