/// A video codec that participants publish.
package enum RoomCodec: String, Sendable, CaseIterable {
    // In the order of LiveKit's servers.
    case vp8, h264, vp9
}
