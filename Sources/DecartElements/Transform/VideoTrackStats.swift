// Size, bitrate and last activity of our video track while the element runs, for `stats`. The streaming threads write
// it.
import GStreamerKit
import Synchronization
import WebRTCTransport

/// Name and source under which other participants see the track.
struct TrackLabel: Sendable {
    var name: String?
    var source = TransformSettings.TrackSource.camera

    /// Name in a LiveKit room; the default is the one that LiveKit's own clients use.
    var roomName: String {
        guard let name else { return source == .screen ? "screen_share" : "camera" }
        return String(String.UnicodeScalarView(name.unicodeScalars.prefix(128)))
    }

    /// `stream track` of an SDP `msid` (RFC 8830: 1 to 64 token characters each); nil: a random one.
    var msid: String? {
        guard let name else { return nil }
        let token = String(name.unicodeScalars.prefix(64).map { Self.isToken($0) ? Character($0) : "-" })
        return "\(token) \(token)"
    }

    /// True for a `token-char` of RFC 8866.
    private static func isToken(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value > 0x20 && scalar.value < 0x7F && !"\"(),/:;<=>?@[\\]".unicodeScalars.contains(scalar)
    }
}

final class VideoTrackStats: Sendable {
    enum Publication: String, Sendable { case none, publishing, published, withdrawn }

    private struct State {
        var size: (width: Int, height: Int)?
        var lastSent: ClockTime?
        var lastReceived: ClockTime?
        var window: (start: Duration, bytes: UInt64)?
        var bitrate: Int?

        /// Measures the bitrate over a second or more of the connection's byte counter. A counter that has fallen
        /// belongs to a new connection and starts over.
        mutating func measure(_ bytes: UInt64, now: Duration) {
            guard let window, bytes >= window.bytes else {
                self.window = (now, bytes)
                return
            }
            let time = (now - window.start) / .milliseconds(1)
            guard time >= 1000 else { return }
            bitrate = Int(min(Double(bytes &- window.bytes) * 8000 / time, 1e12))
            self.window = (now, bytes)
        }
    }
    private let state = Mutex(State())

    /// Records a frame that goes to the encoder.
    /// - Parameters:
    ///   - bytes: bytes that the connection has sent so far.
    ///   - time: the element's running time.
    func sent(_ size: (width: Int, height: Int), bytes: UInt64, at time: ClockTime?) {
        state.withLock { state in
            (state.size, state.lastSent) = (size, time ?? state.lastSent)
            state.measure(bytes, now: MonotonicTime.now)
        }
    }

    func received(at time: ClockTime?) { state.withLock { $0.lastReceived = time ?? $0.lastReceived } }

    /// - Parameter bytes: bytes that the connection has sent so far; nil without a connection.
    func write(to stats: Structure, _ label: TrackLabel, _ publication: Publication, sid: String?, bytes: UInt64?) {
        let facts = state.withLock { state in
            if let bytes { state.measure(bytes, now: MonotonicTime.now) }
            return state
        }
        stats["track-name"] = GValueBox(label.roomName)
        stats["track-source"] = GValueBox(label.source == .screen ? "screen" : "camera")
        stats["track-state"] = GValueBox(publication.rawValue)
        stats["track-sid"] = GValueBox(sid)
        stats["track-width"] = GValueBox(int: facts.size?.width ?? -1)
        stats["track-height"] = GValueBox(int: facts.size?.height ?? -1)
        stats["track-bitrate"] = GValueBox(int64: bytes == nil ? 0 : facts.bitrate ?? -1)
        stats["last-sample"] = GValueBox(int64: facts.lastSent.map { Int(clamping: $0) } ?? -1)
        stats["last-sample-received"] = GValueBox(int64: facts.lastReceived.map { Int(clamping: $0) } ?? -1)
    }
}
