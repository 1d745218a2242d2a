/// Takes the secrets and prompts of a run out of text that a peer wrote, in which it may repeat what it was told: as it
/// was, in another case, escaped as a whole or in parts (as in URLs, forms, JSON and HTML), in hexadecimal digits, or in
/// base64, also behind other bytes. A value.
package struct TextRedactor: Sendable {
    package static let mark = "<redacted>"
    /// Shorter texts could occur in any sentence.
    package static let minimumSize = 6
    /// Longer texts of a peer are hidden as a whole. No secret and no prompt is longer.
    private static let maximumSize = 64 << 10
    /// Beyond these limits, the texts that were added first are forgotten: a service may name any number of tokens, of any
    /// length.
    private static let maximumAdded = (count: 128, size: 1 << 20)
    /// A text may be encoded more than once.
    private static let levels = 3

    /// In the form of `Folded`.
    private let needles: [[UInt8]]
    /// The texts in the order in which they came, with their needles.
    private var added: [(text: String, needles: [[UInt8]])] = []
    private var addedSize = 0

    /// - Parameter texts: stay, whatever is added.
    package init(_ texts: some Sequence<String> = []) {
        needles = Set(texts).flatMap(Self.needles)
    }

    package mutating func add(_ text: String) {
        guard (Self.minimumSize...Self.maximumSize).contains(text.utf8.count),
            !added.contains(where: { $0.text == text })
        else { return }
        added.append((text, Self.needles(text)))
        addedSize += text.utf8.count
        while added.count > Self.maximumAdded.count || addedSize > Self.maximumAdded.size {
            addedSize -= added.removeFirst().text.utf8.count
        }
    }

    private static func needles(_ text: String) -> [[UInt8]] {
        guard text.utf8.count >= minimumSize else { return [] }
        let bytes = Array(text.utf8)
        // A base64 digit has six bits: the first ones also depend on the bytes before the text, the last one on those behind.
        let coded = (0..<3).flatMap { before -> [ArraySlice<UInt8>] in
            let whole = [UInt8](repeating: 0, count: before) + bytes
            let digits = Base64.encode(whole).utf8.filter { $0 != UInt8(ascii: "=") }
            let other = Array(Base64.encode(whole, alphabet: .url).utf8)
            return [digits, other].map { $0.dropFirst(before == 0 ? 0 : before + 1).dropLast() }
        }
        let digits = bytes.flatMap { [hexDigits[Int($0 >> 4)], hexDigits[Int($0 & 15)]] }
        let all = Set(([bytes, digits] + coded.map { Array($0) }).map { Folded($0).bytes })
        return Array(all.filter { $0.count >= minimumSize })
    }

    private static let hexDigits = [UInt8]("0123456789abcdef".utf8)

    package func callAsFunction(_ text: String) -> String {
        let needles = needles + added.flatMap(\.needles)
        guard !needles.isEmpty, text.utf8.count >= Self.minimumSize else { return text }
        guard text.utf8.count <= Self.maximumSize else { return Self.mark }
        let original = Array(text.utf8)
        let folded = Folded(original)
        var isHidden = [Bool](repeating: false, count: folded.bytes.count)
        for needle in needles where needle.count <= folded.bytes.count {
            var match = Match(of: needle[...])
            var end = 0
            for (index, byte) in folded.bytes.enumerated() {
                guard match.isComplete(with: byte) else { continue }
                for hidden in max(end, index + 1 - needle.count)...index { isHidden[hidden] = true }
                end = index + 1
            }
        }
        for cut in folded.cuts {
            let before = needles.lazy.map { folded.lengthOfPart(of: $0, endingAt: cut.lowerBound) }.max() ?? 0
            let behind = needles.lazy.map { folded.lengthOfPart(of: $0, beginningAt: cut.upperBound) }.max() ?? 0
            for index in cut.lowerBound - before..<cut.lowerBound { isHidden[index] = true }
            for index in cut.upperBound..<cut.upperBound + behind { isHidden[index] = true }
        }
        var output: [UInt8] = []
        for index in folded.bytes.indices {
            guard isHidden[index] else {
                output += original[folded.starts[index]..<folded.starts[index + 1]]
                continue
            }
            if index == 0 || !isHidden[index - 1] { output += Self.mark.utf8 }
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// Bytes without escapes, in lower case and with spaces for other white space, with the place of each in the original.
    private struct Folded {
        private(set) var bytes: [UInt8]
        /// One more than there are bytes.
        private(set) var starts: [Int]

        init(_ original: [UInt8]) {
            bytes = original
            starts = Array(0...original.count)
            for _ in 0..<TextRedactor.levels where bytes.contains(where: TextEscape.begins) { decode() }
            bytes = bytes.map { byte in
                switch byte {
                case 0x41...0x5A: byte + 0x20
                // Forms write a plus sign for a space.
                case 0..<0x20, UInt8(ascii: "+"): UInt8(ascii: " ")
                default: byte
                }
            }
        }

        private mutating func decode() {
            var (decoded, places): ([UInt8], [Int]) = ([], [])
            var index = 0
            while index < bytes.count {
                if let escape = TextEscape(bytes[index...]) {
                    decoded += escape.bytes
                    places += repeatElement(starts[index], count: escape.bytes.count)
                    index += escape.length
                } else {
                    decoded.append(bytes[index])
                    places.append(starts[index])
                    index += 1
                }
            }
            places.append(starts[bytes.count])
            (bytes, starts) = (decoded, places)
        }

        // MARK: Texts that were shortened

        private static let ellipses = ["…", "..."].map { Array($0.utf8) }
        private static let maximumCuts = 8
        private static let maximumPart = 512

        /// The marks where something was left out, with a part of an escape before them.
        var cuts: [Range<Int>] {
            Self.ellipses.flatMap { ellipsis in
                var cuts: [Range<Int>] = []
                var start = 0
                while cuts.count < Self.maximumCuts, let range = bytes[start...].firstRange(of: ellipsis) {
                    let end = range.lowerBound
                    let escape = bytes[max(end - 5, 0)..<end].firstIndex(where: TextEscape.begins)
                    cuts.append((escape ?? end)..<range.upperBound)
                    if escape != nil { cuts.append(range) }
                    start = range.upperBound
                }
                return cuts
            }
        }

        /// Returns the length of a beginning of the needle that ends there; 0: none that is long enough.
        func lengthOfPart(of needle: [UInt8], endingAt end: Int) -> Int {
            Self.lengthOfPart(of: needle.prefix(Self.maximumPart), in: bytes[..<end].suffix(Self.maximumPart))
        }

        /// Returns the length of an end of the needle that begins there; 0: none that is long enough.
        func lengthOfPart(of needle: [UInt8], beginningAt start: Int) -> Int {
            Self.lengthOfPart(
                of: Array(needle.suffix(Self.maximumPart).reversed())[...],
                in: bytes[start...].prefix(Self.maximumPart).reversed())
        }

        private static func lengthOfPart(of needle: ArraySlice<UInt8>, in text: some Sequence<UInt8>) -> Int {
            var match = Match(of: needle)
            for byte in text { _ = match.isComplete(with: byte) }
            return match.length >= TextRedactor.minimumSize ? match.length : 0
        }
    }

    /// Finds a needle in bytes that come one by one, with the algorithm of Knuth, Morris and Pratt: a service may choose both,
    /// so that each comparison would fail at the end of the needle only.
    private struct Match {
        private let needle: ArraySlice<UInt8>
        /// For each number of bytes of the needle, the longest smaller number of its first bytes with which they end.
        private var borders = [0, 0]
        /// The number of bytes of the needle with which the bytes end.
        private(set) var length = 0

        /// - Parameter needle: begins at index 0.
        init(of needle: ArraySlice<UInt8>) {
            self.needle = needle
            borders.reserveCapacity(needle.count + 1)
            for byte in needle.dropFirst() { borders.append(next(borders[borders.count - 1], byte)) }
        }

        private func next(_ length: Int, _ byte: UInt8) -> Int {
            var length = length
            while length > 0, length == needle.count || needle[length] != byte { length = borders[length] }
            return needle[length] == byte ? length + 1 : length
        }

        mutating func isComplete(with byte: UInt8) -> Bool {
            length = next(length, byte)
            return length == needle.count
        }
    }
}
