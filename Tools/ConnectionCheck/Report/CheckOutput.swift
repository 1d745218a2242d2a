// The results for people and for programs.
import CommandLineOptions
package import DecartProtocol

package struct CheckOutput: Sendable {
    package var service: String
    package var model: String
    package var results: [ProbeResult] { didSet { results = results.map { $0.mappingText { redact($0) } } } }
    /// nil without --deep and --report.
    package var session: SessionSummary? { didSet { session = session?.mappingText { redact($0) } } }
    /// Facts that are no failures, such as an unused proxy; without secrets.
    package var notes: [String] = []
    private let redact: TextRedactor

    /// - Parameter secrets: texts that must not appear, although a peer's text in a result may repeat them.
    package init(
        service: String, model: String, results: [ProbeResult], session: SessionSummary? = nil, secrets: [String] = []
    ) {
        let redact = TextRedactor(secrets)
        self.redact = redact
        self.service = service
        self.model = model
        self.results = results.map { $0.mappingText { redact($0) } }
        self.session = session?.mappingText { redact($0) }
    }

    /// nil: everything that was tried is fine.
    package var cause: Cause? { results.cause }

    // MARK: Table

    /// The table, in lines of at most `width` characters where words permit it.
    package func table(width: Int = 110) -> String {
        var lines = ["decart-check \(service), model \(model)", ""]
        for result in results {
            let columns = Self.padded(Self.mark(result.outcome), 8) + Self.padded(result.kind.title, 8)
            let head = "  \(columns)\(Self.padded(Self.time(result.duration), 8, right: true))  "
            // The first line names the service.
            let target = [.stun, .turn].contains(result.kind) && !result.target.isEmpty ? "\(result.target): " : ""
            lines.append(head + HelpText.fill(target + result.message, indent: 28, width: width))
        }
        if let session { lines += ["", "Session"] + session.lines.map { "  " + $0 } }
        for text in notes + [verdict] { lines += ["", HelpText.fill(text, indent: 0, width: width)] }
        return lines.joined(separator: "\n")
    }

    private var verdict: String {
        if let cause { return "The first failing cause is \(cause.name) (exit code \(cause.rawValue))." }
        let works = results.contains { $0.outcome == .ok } ? "Everything that was tried works." : "Nothing was tried."
        let untried = results.filter { $0.outcome == .notTried }.map(\.kind)
        guard !untried.isEmpty else { return works }
        let names = untried.map(\.title).joined(separator: ", ")
        let key = untried.contains(.key) ? " Without the key nothing shows that this is the service." : ""
        return "\(works) Not tried: \(names).\(key)"
    }

    private static func mark(_ outcome: ProbeResult.Outcome) -> String {
        switch outcome {
        case .ok: "ok"
        case .failed: "FAILED"
        case .notTried: "-"
        }
    }

    private static func time(_ duration: Duration?) -> String { duration.map { "\($0.milliseconds) ms" } ?? "" }

    private static func padded(_ text: String, _ width: Int, right: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - text.count))
        return right ? space + text : text + space
    }

    // MARK: JSON

    package var json: JSONValue {
        .fields([
            "format": .integer(1), "service": .string(service), "model": .string(model),
            "exit-code": .integer(Int(cause?.rawValue ?? 0)), "cause": cause.map { .string($0.name) } ?? .null,
            "probes": .array(results.map(\.json)), "notes": .array(notes.map { .string($0) }), "session": session?.json,
        ])
    }
}

extension ProbeResult {
    fileprivate func mappingText(_ change: (String) -> String) -> ProbeResult {
        var copy = self
        copy.message = change(message)
        return copy
    }

    package var json: JSONValue {
        let outcome: JSONValue =
            switch outcome {
            case .ok: "ok"
            case .failed: "failed"
            case .notTried: "not-tried"
            }
        return .fields([
            "probe": .string(kind.rawValue), "target": .string(target), "outcome": outcome,
            "cause": failure.map { .string($0.name) },
            "duration-ms": duration.map { .integer($0.milliseconds) }, "message": .string(message),
            "quota": quota?.json,
        ])
    }
}

extension RealtimeQuota {
    fileprivate var json: JSONValue {
        func number(_ value: Int?) -> JSONValue { value.map { .integer($0) } ?? .null }
        return .fields(["limit": number(limit), "active": number(active), "remaining": number(remaining)])
    }
}
