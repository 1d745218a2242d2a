extension FaultKind {
    /// The list of all faults, wrapped for a terminal of 80 columns.
    package static var help: String {
        let width = (all.map(\.name.count).max() ?? 0) + 4
        return all.map { kind in
            let name = "  " + kind.name
            let indent = String(repeating: " ", count: width)
            return name + indent.dropFirst(name.count) + wrap(kind.summary, 79 - width).joined(separator: "\n" + indent)
        }.joined(separator: "\n")
    }

    private static func wrap(_ text: String, _ width: Int) -> [String] {
        var lines = [""]
        for word in text.split(separator: " ") {
            let last = lines[lines.count - 1]
            if last.isEmpty {
                lines[lines.count - 1] = String(word)
            } else if last.count + 1 + word.count <= width {
                lines[lines.count - 1] = last + " " + word
            } else {
                lines.append(String(word))
            }
        }
        return lines
    }
}
