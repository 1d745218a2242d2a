/// Takes the secrets and prompts of a run out of text that a peer wrote, in which it may repeat what it was told: as it
/// was, in another case, percent-encoded as a whole or in parts, or in base64. A value.
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
    /// The texts in the order in which they came.
    private var texts: [String] = []

    package init(_ texts: some Sequence<String> = []) {
        for text in texts { add(text) }
    }

    package mutating func add(_ text: String) {
        guard text.utf8.count >= Self.minimumSize, !texts.contains(text) else { return }
        texts.append(text)
        if texts.count > Self.maximumCount { texts.removeFirst() }
        needles = Set(texts.flatMap(Self.forms)).filter { $0.count >= Self.minimumSize }
            .sorted { $0.count > $1.count }
    }

    private static func forms(_ text: String) -> [[UInt8]] {
        let bytes = Array(text.utf8)
        // The last digit depends on what follows.
        let coded = [Base64.encode(bytes, alphabet: .url), Base64.encode(bytes).filter { $0 != "=" }].map {
            Array($0.utf8.dropLast())
        }
        return ([bytes] + coded).map { Folded($0).bytes }
    }

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
        for end in folded.cuts {
            guard let length = needles.lazy.compactMap({ folded.lengthOfPart(of: $0, endingAt: end) }).max() else {
                continue
            }
            for index in end - length..<end { isHidden[index] = true }
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

    /// Bytes without percent-encoding and in lower case, with the place of each in the original.
    private struct Folded {
        private(set) var bytes: [UInt8]
        /// One more than there are bytes.
        private(set) var starts: [Int]

        init(_ original: [UInt8]) {
            bytes = original
            starts = Array(0...original.count)
            for _ in 0..<TextRedactor.levels where bytes.contains(UInt8(ascii: "%")) { decode() }
            bytes = bytes.map { (0x41...0x5A).contains($0) ? $0 + 0x20 : $0 }
        }

        // MARK: Texts that were shortened

        private static let ellipsis = Array("…".utf8)
        private static let maximumCuts = 8
        private static let maximumPart = 512

        /// The ends of what was left of shortened texts, without a part of a percent-encoded byte.
        var cuts: [Int] {
            var ends: [Int] = []
            var start = 0
            while ends.count < Self.maximumCuts, let range = bytes[start...].firstRange(of: Self.ellipsis) {
                let end = range.lowerBound
                let escape = bytes[max(end - 2, 0)..<end].firstIndex(of: UInt8(ascii: "%"))
                ends.append(escape ?? end)
                start = range.upperBound
            }
            return ends
        }

        /// Returns the length of a beginning of the needle that ends there; nil: none that is long enough.
        func lengthOfPart(of needle: [UInt8], endingAt end: Int) -> Int? {
            let longest = min(needle.count - 1, end, Self.maximumPart)
            guard longest >= TextRedactor.minimumSize else { return nil }
            return (TextRedactor.minimumSize...longest).last {
                bytes[end - $0..<end].elementsEqual(needle.prefix($0))
            }
        }

        private mutating func decode() {
            var (decoded, places): ([UInt8], [Int]) = ([], [])
            var index = 0
            while index < bytes.count {
                places.append(starts[index])
                let escape = bytes[index..<min(index + 3, bytes.count)]
                if let byte = PercentEncoding.byte(escape) {
                    decoded.append(byte)
                    index += 3
                } else {
                    decoded.append(bytes[index])
                    index += 1
                }
            }
            places.append(starts[bytes.count])
            (bytes, starts) = (decoded, places)
        }
    }
}
