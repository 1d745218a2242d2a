/// Notice to every connection: the stand-in shuts down.
struct ShutdownNotice: Sendable {}

/// Notice to a viewer's connection: the session has ended.
struct SessionEnded: Sendable {}
