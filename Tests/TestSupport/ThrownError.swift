/// The error of this type that `body` throws, or nil. `#expect(throws:)` returns it from Swift 6.1 on only.
package func thrown<Failure: Error, Result>(_ type: Failure.Type, by body: () throws -> Result) -> Failure? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as? Failure
    }
}
