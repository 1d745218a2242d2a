import Dispatch

struct MediaServices: Sendable {
    let engine: any MediaEngine
    /// Simulated inference time of a frame.
    let delay: Duration
    let log: @Sendable (String) -> Void
    /// Entered for each media session, left when its teardown has completed.
    let group = DispatchGroup()

    func stop(_ media: (any SessionMedia)?) { media?.stop { [group] in group.leave() } }
}
