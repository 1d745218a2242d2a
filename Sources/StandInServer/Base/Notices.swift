/// User event to every connection: the stand-in shuts down.
struct ShutdownNotice: Sendable {}

/// User event to a viewer's connection: the session has ended.
struct SessionEnded: Sendable {}
