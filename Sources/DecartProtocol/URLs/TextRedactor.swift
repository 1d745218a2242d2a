/// Takes the secrets and prompts of a run out of text that a peer wrote, in which it may repeat what it was told: as it
/// was, in another case, escaped as a whole or in parts (as in URLs, forms, JSON and HTML), in hexadecimal digits, or in
/// base64, also behind other bytes. A value.
package struct TextRedactor: Sendable {
    package static let mark = "<redacted>"
    /// Shorter texts could occur in any sentence.
    package static let minimumSize = 6
    /// The oldest texts go first: a service may name any number of tokens.
    private static let maximumCount = 128
    /// A text may be encoded more than once.
    private static let levels = 3

    /// In the form of `Folded`, longest first: a secret may contain another one.
    private var needles: [[UInt8]] = []
    /// The texts in the order in which they came, with their needles.
    private var texts: [(text: String, forms: [[UInt8]])] = []

    package init(_ texts: some Sequence<String> = []) {
        for text in texts { add(text) }
    }

    package mutating func add(_ text: String) {
        guard text.utf8.count >= Self.minimumSize, !texts.contains(where: { $0.text == text }) else { return }
        texts.append((text, Self.forms(text)))
        if texts.count > Self.maximumCount { texts.removeFirst() }
        needles = Set(texts.flatMap(\.forms)).filter { $0.count >= Self.minimumSize }
            .sorted { $0.count > $1.count }
    }

    private static func forms(_ text: String) -> [[UInt8]] {
        let bytes = Array(text.utf8)
        // A base64 digit has six bits: the first ones also depend on the bytes before the text, the last one on those behind.
        let coded = (0..<3).flatMap { before -> [ArraySlice<UInt8>] in
            let whole = [UInt8](repeating: 0, count: before) + bytes
            let digits = Base64.encode(whole).utf8.filter { $0 != UInt8(ascii: "=") }
            let other = Array(Base64.encode(whole, alphabet: .url).utf8)
            return [digits, other].map { $0.dropFirst(before == 0 ? 0 : before + 1).dropLast() }
        }
        let digits = bytes.flatMap { [hexDigits[Int($0 >> 4)], hexDigits[Int($0 & 15)]] }
        return ([bytes, digits] + coded.map { Array($0) }).map { Folded($0).bytes }
    }

    private static let hexDigits = [UInt8]("0123456789abcdef".utf8)

    package func callAsFunction(_ text: String) -> String {
        guard !needles.isEmpty, text.utf8.count >= Self.minimumSize else { return text }
        let original = Array(text.utf8)
        let folded = Folded(original)
        var isHidden = [Bool](repeating: false, count: folded.bytes.count)
        for needle in needles {
            var start = 0
            while let range = folded.bytes[start...].firstRange(of: needle) {
                for index in range { isHidden[index] = true }
                start = range.lowerBound + 1
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
                let escape = TextEscape(bytes[index...])
                let new = escape?.bytes ?? [bytes[index]]
                decoded += new
                places += new.map { _ in starts[index] }
                index += escape?.length ?? 1
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
            let longest = min(needle.count - 1, end, Self.maximumPart)
            guard longest >= TextRedactor.minimumSize else { return 0 }
            return (TextRedactor.minimumSize...longest).last {
                bytes[end - $0..<end].elementsEqual(needle.prefix($0))
            } ?? 0
        }

        /// Returns the length of an end of the needle that begins there; 0: none that is long enough.
        func lengthOfPart(of needle: [UInt8], beginningAt start: Int) -> Int {
            let longest = min(needle.count - 1, bytes.count - start, Self.maximumPart)
            guard longest >= TextRedactor.minimumSize else { return 0 }
            return (TextRedactor.minimumSize...longest).last {
                bytes[start..<start + $0].elementsEqual(needle.suffix($0))
            } ?? 0
        }
    }
}
