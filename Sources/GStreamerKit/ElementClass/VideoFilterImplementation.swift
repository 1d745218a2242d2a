/// The Swift side of a GstVideoFilter that changes only the pixels of a frame: caps, size and timestamps stay the same.
/// The streaming thread calls everything except `upstream`.
public protocol VideoFilterImplementation: ElementImplementation {
    /// Called with the format of the frames that follow.
    func negotiated(_ video: VideoInfo)
    /// Called before each frame and after new caps. While it returns false, buffers pass through unchanged.
    func changesFrames() -> Bool
    /// Changes a frame. `target` is the same frame as `source` if the buffer is writable. Returns false if the frame is
    /// unusable; it is then dropped.
    func transform(_ source: VideoFrameRef, into target: VideoFrameRef) -> Bool
    /// Called with the buffer of a changed frame, to adapt metas that depend on the image.
    func transformed(_ buffer: BufferRef, size: (width: Int, height: Int))
    /// Called with the number of bytes of a frame that lacks some, and is dropped.
    func dropped(bytes: Int, needed: Int)
    /// Called with a downstream event before it is forwarded.
    func downstream(_ event: Event)
    /// Returns the event to forward in place of an upstream event. Called on any thread.
    func upstream(_ event: Event) -> Event
}

extension VideoFilterImplementation {
    /// Does nothing.
    public func dropped(bytes: Int, needed: Int) {}
}
