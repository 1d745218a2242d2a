/// A one-sentence explanation why the stand-in could not start or could not do what was requested, or of a mistake in a
/// fault.
package struct StandInError: Error, Sendable, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}
