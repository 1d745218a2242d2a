import DecartProtocol

struct SessionJournal {
    private let journal: Journal
    private let number: Int
    private let id: String
    private let openedAt: ContinuousClock.Instant

    init(_ journal: Journal, number: Int, id: String, openedAt: ContinuousClock.Instant = .now) {
        (self.journal, self.number, self.id, self.openedAt) = (journal, number, id, openedAt)
    }

    func note(_ message: ClientMessage) {
        add(.received, LogText.clean(message.type), JournalText.text(message, showsPrompts: journal.showsPrompts))
    }

    func note(_ message: ServerMessage) {
        add(.sent, message.type, JournalText.text(message, showsPrompts: journal.showsPrompts))
    }

    /// - Parameter text: quotes nothing of the frame.
    func noteMalformed(size: Int, _ text: String) {
        add(.received, "malformed", ["size": .integer(size), "error": .string(text)])
    }

    /// Bytes that are no message, which a fault sends.
    func noteRaw(size: Int) { add(.sent, "raw", ["size": .integer(size)]) }

    func noteClose(_ direction: Journal.Direction, code: UInt16?) {
        add(direction, "close", ["code": .optional(code.map(Int.init))])
    }

    func noteEvent(_ type: String) { add(.event, type, [:]) }

    /// The stand-in's user has changed the prompt.
    func noteOverride(_ prompt: String) {
        let text = JournalText.prompt(prompt, showsPrompts: journal.showsPrompts)
        add(.event, "prompt", ["prompt": .string(text)])
    }

    private func add(_ direction: Journal.Direction, _ type: String, _ fields: KeyValuePairs<String, JSONValue?>) {
        add(direction, type, JSONValue.fields(fields).compactText)
    }

    private func add(_ direction: Journal.Direction, _ type: String, _ message: String) {
        journal.add(
            Journal.Entry(
                session: number, sessionID: id, time: ContinuousClock.now - openedAt, direction: direction, type: type,
                message: message))
    }
}
