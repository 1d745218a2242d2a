/// The name that a misspelt one most likely means.
enum NearestName {
    /// A name that begins with the other one, or the first with the fewest characters to change, insert or remove: at most one
    /// of four characters, and two of more.
    static func of(_ text: String, among names: [String]) -> String? {
        guard text.count >= 3 else { return nil }
        if let longer = names.filter({ $0.hasPrefix(text) }).min(by: { $0.count < $1.count }) { return longer }
        let near = names.map { (name: $0, distance: distance(text, $0)) }.min { $0.distance < $1.distance }
        guard let near, near.distance <= (text.count > 4 ? 2 : 1) else { return nil }
        return near.name
    }

    /// The optimal string alignment distance: two neighbours that are exchanged count once.
    private static func distance(_ left: String, _ right: String) -> Int {
        let (left, right) = (Array(left), Array(right))
        var before: [Int] = []
        var last = Array(0...right.count)
        for row in left.indices {
            var next = [row + 1]
            for column in right.indices {
                let isSame = left[row] == right[column]
                var cost = min(last[column] + (isSame ? 0 : 1), last[column + 1] + 1, next[column] + 1)
                if row > 0, column > 0, left[row] == right[column - 1], left[row - 1] == right[column] {
                    cost = min(cost, before[column - 1] + 1)
                }
                next.append(cost)
            }
            (before, last) = (last, next)
        }
        return last[right.count]
    }
}
