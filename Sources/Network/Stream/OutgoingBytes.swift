/// Bytes that wait to be sent. Taking from the front costs no move of the rest.
struct OutgoingBytes {
    private var bytes: [UInt8] = []
    private var start = 0

    var count: Int { bytes.count - start }
    var isEmpty: Bool { count == 0 }

    mutating func append(_ more: some Sequence<UInt8>) { bytes.append(contentsOf: more) }

    /// Lends at most `limit` bytes from the front.
    func withPrefix<Result>(_ limit: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        bytes.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[start..<(start + min(limit, count))])) }
    }

    mutating func remove(_ number: Int) {
        start += min(max(0, number), count)
        if start == bytes.count {
            bytes.removeAll(keepingCapacity: bytes.capacity <= 64 << 10)
            start = 0
        } else if start >= 64 << 10, start > bytes.count / 2 {
            bytes.removeFirst(start)
            start = 0
        }
    }
}
