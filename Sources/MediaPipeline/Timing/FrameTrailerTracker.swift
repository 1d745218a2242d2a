// Remembers the frames that were sent with a trailer, and recognises their trailers when they come back. A value without
// a clock.
package import GStreamerKit
package import WebRTCTransport

package struct FrameTrailerTracker: Sendable {
    package struct Entry: Sendable, Equatable {
        /// When the frame was captured: running time, and ns since 1970.
        package var time: ClockTime
        package var unixTime: ClockTime
        /// Bytes once encoded; 0: not known.
        package var size = 0
        var id: UInt32
        var isAnswered = false
    }
    package typealias Answer = (entry: Entry, isFirst: Bool)
    /// Half a minute at 30 frames a second: a model may take long for its first frame.
    private static let capacity = 1024
    /// Received frames without a trailer of ours after which none is expected.
    package static let maximumUnmarked = 10

    private var entries: [Entry] = []
    private var nextID: UInt32 = 1
    private var delays = DelayFilter(window: LatencyMarkerScheduler.burst)
    private var framesWithoutTrailer = 0

    package init() {}

    /// Returns the trailer of a frame that is being sent; nil if this frame gets none.
    package mutating func trailer(time: ClockTime, unixTime: ClockTime) -> [UInt8]? {
        let id = nextID
        // LiveKit takes 0 for none.
        nextID = nextID == .max ? 1 : nextID + 1
        guard let bytes = FrameTrailer(timestamp: unixTime / 1000, frameID: id).bytes else { return nil }
        let entry = Entry(time: time, unixTime: unixTime, id: id)
        let index = Int(id) % Self.capacity
        // The first entry has the index 1, and a frame without a trailer leaves a hole.
        while entries.count <= index { entries.append(Entry(time: 0, unixTime: 0, id: 0)) }
        entries[index] = entry
        return bytes
    }

    /// Returns the sent frame from which the service made a frame with this trailer, and whether it is its first one. The
    /// time is the key, because the service's own SDKs send nothing else; a number that it passes on tells frames of
    /// the same time apart.
    package mutating func answer(_ trailer: FrameTrailer) -> Answer? {
        guard let time = trailer.timestamp, time > 0, let index = index(of: time, trailer.frameID) else { return nil }
        defer { entries[index].isAnswered = true }
        return (entries[index], !entries[index].isAnswered)
    }

    private func index(of time: UInt64, _ id: UInt32?) -> Int? {
        func isSent(_ index: Int) -> Bool { entries[index].id != 0 && entries[index].unixTime / 1000 == time }
        if let id, case let index = Int(id) % Self.capacity, index < entries.count, entries[index].id == id,
            isSent(index)
        {
            return index
        }
        return entries.indices.last(where: isSent)
    }

    /// The frame with this trailer has been encoded to that many bytes.
    package mutating func encoded(_ trailer: FrameTrailer, size: Int) {
        guard let id = trailer.frameID, case let index = Int(id) % Self.capacity, index < entries.count,
            entries[index].id == id
        else { return }
        entries[index].size = size
    }

    /// Takes the delay of an answered frame. Returns the filtered delay.
    package mutating func measured(_ delay: Int64) -> Int64 { delays.add(delay) }

    /// Called for each received frame without a trailer of ours. Returns true when no trailer is to be expected any more.
    package mutating func frameWithoutTrailer() -> Bool {
        guard delays.value == nil else { return false }
        framesWithoutTrailer += 1
        return framesWithoutTrailer >= Self.maximumUnmarked
    }
}
