import GStreamerKit

extension Pad {
    /// Activates a source pad, and pushes the events in front of I420 frames at 30 fps.
    func startRawVideo(width: Int, height: Int) throws {
        setActive(true)
        push(Event.streamStart(id: "test/raw", groupID: Event.nextGroupID()))
        push(
            Event.caps(
                try Caps(
                    "video/x-raw, format=(string)I420, width=(int)\(width), height=(int)\(height), framerate=(fraction)30/1"
                )))
        push(Event.timeSegment())
    }
}
