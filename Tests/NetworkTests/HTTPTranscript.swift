import Network

/// What a reader made of bytes: one line for each head, body and end, an error, and the bytes that it did not read.
struct HTTPTranscript: Equatable, CustomStringConvertible {
    var lines: [String] = []
    var error: HTTPError?
    var rest = ""

    var description: String {
        (lines + [error.map { "\($0)" } ?? ""] + [rest.isEmpty ? "" : "rest \(rest.debugDescription)"])
            .filter { !$0.isEmpty }.joined(separator: " | ")
    }

    /// - Parameters:
    ///   - closes: the connection ends after the pieces
    ///   - messages: it takes the rest after this many
    init<Head: DescribedHead>(
        _ start: HTTPReader<Head>, _ pieces: [ArraySlice<UInt8>], closes: Bool = false, messages: Int = .max
    ) {
        var reader = start
        var body: [UInt8]?
        var missing = messages
        func take(_ event: HTTPEvent<Head>) {
            switch event {
            case .head(let head): lines.append(head.text)
            case .body(let piece): body = (body ?? []) + piece
            case .end:
                if let body { lines.append("body \(String(decoding: body, as: UTF8.self))") }
                (body, missing) = (nil, missing - 1)
                lines.append("end")
            }
        }
        do throws(HTTPError) {
            for piece in pieces {
                reader.append(piece)
                while missing > 0, let event = try reader.next() { take(event) }
            }
            while closes, missing > 0, let event = try reader.end() { take(event) }
        } catch { self.error = error }
        if let body { lines.append("part \(String(decoding: body, as: UTF8.self))") }
        if error == nil { rest = String(decoding: reader.takeRest(), as: UTF8.self) }
    }

    /// The transcripts of the bytes as a whole, one by one, and in two parts wherever they can be split.
    static func all<Head: DescribedHead>(
        _ reader: HTTPReader<Head>, _ text: String, closes: Bool, messages: Int
    ) -> [(way: String, transcript: HTTPTranscript)] {
        let bytes = Array(text.utf8)
        var ways = [("whole", [bytes[...]]), ("by bytes", bytes.indices.map { bytes[$0...$0] })]
        if !bytes.isEmpty { ways += (1..<bytes.count).map { ("split at \($0)", [bytes[..<$0], bytes[$0...]]) } }
        return ways.map { ($0.0, HTTPTranscript(reader, $0.1, closes: closes, messages: messages)) }
    }
}

protocol DescribedHead: HTTPHead {
    var startText: String { get }
}

extension DescribedHead {
    var text: String { ([startText] + fields.all.map { "\($0.name)=\($0.value)" }).joined(separator: " ; ") }
}

extension HTTPRequestHead: DescribedHead {
    var startText: String { "\(method) \(target) 1.\(minorVersion)" }
}

extension HTTPResponseHead: DescribedHead {
    var startText: String { "1.\(minorVersion) \(status) \(reason)" }
}
