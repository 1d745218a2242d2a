/// The Swift side of a GstVideoFilter that changes the pixels of a frame and nothing else: caps, size and times stay.
/// All but `upstream` is called by the streaming thread.
package protocol VideoFilterImplementation: ElementImplementation {
    /// Pictures of this kind will come.
    func negotiated(_ video: VideoInfo)
    /// Asked before each frame and with new caps: whether frames are changed from here on. As long as they are not,
    /// buffers pass untouched.
    func changesFrames() -> Bool
    /// Changes a frame. `target` is `source` where the buffer may be written. False: the frame is not usable; it is
    /// dropped.
    func transform(_ source: VideoFrameRef, into target: VideoFrameRef) -> Bool
    /// The changed frame's buffer, for what its metas say of the picture.
    func transformed(_ buffer: BufferRef, size: (width: Int, height: Int))
    /// An event on its way downstream, before it is forwarded.
    func downstream(_ event: Event)
    /// What is forwarded for an event on its way upstream. Any thread.
    func upstream(_ event: Event) -> Event
}
