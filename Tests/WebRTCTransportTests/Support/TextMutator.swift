import TestSupport
/// Damages text like a fuzzer, with a fixed seed.
struct TextMutator {
    private var generator: SeededGenerator
    private static let words = [
        "0", "-1", "4294967296", "99999999999999999999999", "\u{0}", "\r\n", "a=", "m=video 9 ", " ", ":", "/", "%n%s",
        "\u{ff}",
    ]

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    mutating func mutate(_ seed: [UInt8]) -> [UInt8] {
        var bytes = seed
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            let at = Int.random(in: 0...bytes.count, using: &generator)
            let length = min(bytes.count - at, Int.random(in: 0...64, using: &generator))
            switch Int.random(in: 0..<8, using: &generator) {
            case 0 where at < bytes.count: bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            case 1 where at < bytes.count: bytes[at] = UInt8.random(in: 0...255, using: &generator)
            case 2: bytes.removeSubrange(at..<(at + length))
            case 3: bytes.insert(contentsOf: bytes[at..<(at + length)], at: at)
            case 4: bytes.insert(contentsOf: Self.words.randomElement(using: &generator)!.utf8, at: at)
            case 5: removeLine(from: &bytes)
            case 6: swapLines(in: &bytes)
            default: if Int.random(in: 0..<16, using: &generator) == 0 { bytes.removeSubrange(at...) }
            }
        }
        return bytes
    }

    private mutating func removeLine(from bytes: inout [UInt8]) {
        var lines = bytes.split(separator: 10, omittingEmptySubsequences: false)
        lines.remove(at: Int.random(in: 0..<lines.count, using: &generator))
        bytes = Array(lines.joined(separator: [10]))
    }

    private mutating func swapLines(in bytes: inout [UInt8]) {
        var lines = bytes.split(separator: 10, omittingEmptySubsequences: false)
        lines.swapAt(
            Int.random(in: 0..<lines.count, using: &generator), Int.random(in: 0..<lines.count, using: &generator))
        bytes = Array(lines.joined(separator: [10]))
    }
}
