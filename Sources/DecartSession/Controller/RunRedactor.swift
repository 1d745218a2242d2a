import DecartProtocol
package import Log
import Synchronization

/// Knows what the peers of a run were told, for all that gives out a text which one of them may have written: the session,
/// and the logs of all layers, on any thread.
package final class RunRedactor: Sendable {
    private let redactor: Mutex<TextRedactor>

    /// - Parameter texts: stay, whatever is added.
    package init(_ texts: [String]) { redactor = Mutex(TextRedactor(texts)) }

    package convenience init(_ configuration: SessionConfiguration) {
        self.init(configuration.secrets.map { $0.reveal() } + [configuration.initial.text])
    }

    package func add(_ text: String) { redactor.withLock { $0.add(text) } }

    /// Nothing waits for the search.
    package func callAsFunction(_ text: String) -> String {
        let known = redactor.withLock { $0 }
        return known(text)
    }

    /// Returns the logger for a layer that may write what its peer wrote, and as often as that does.
    package func guarding(_ logger: Logger) -> Logger { logger.mapping { [self] in self($0) }.limited() }
}
