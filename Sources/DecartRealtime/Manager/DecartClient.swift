/// Makes managers for an account.
public struct DecartClient: Sendable {
    /// The account.
    public let configuration: DecartConfiguration

    /// A client of the service; nothing is connected yet.
    public init(decartConfiguration: DecartConfiguration) { configuration = decartConfiguration }

    /// A manager for one session at a time. It opens nothing before `connect`.
    ///
    /// Throws `DecartError.invalidAPIKey` without a key, `modelNotFound` for a model whose size is unknown,
    /// `invalidInput` for options out of range, and `processingError` if the process has loaded the plugin
    /// `libgstdecart.so`, which has the same elements.
    public func createRealtimeManager(options: RealtimeConfiguration) throws -> DecartRealtimeManager {
        guard !configuration.apiKey.isEmpty else { throw DecartError.invalidAPIKey }
        try Elements.register()
        return DecartRealtimeManager(
            options: options, properties: try ElementProperties(configuration, options), prompt: options.initialPrompt)
    }
}
