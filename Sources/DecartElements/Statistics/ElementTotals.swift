// Counters over the life of an element, whose media paths come and go.
package import MediaPipeline
import RTP
import Synchronization
import WebRTCTransport

/// Counters of one media path, or of all.
package struct PathCounters: Sendable {
    package var packetsSent: UInt64 = 0
    var bytesSent: UInt64 = 0
    /// The part of `bytesSent` that only filled up probes of the path.
    var paddingBytesSent: UInt64 = 0
    var packetsReceived: UInt64 = 0
    var bytesReceived: UInt64 = 0
    var packetsRefused: UInt64 = 0
    var nacksSent: UInt64 = 0
    var nacksReceived: UInt64 = 0
    var plisSent: UInt64 = 0
    var plisReceived: UInt64 = 0
    var iceRestarts: UInt64 = 0
    /// Stays in a room that continued after a loss of their signalling connection or of a media path. Counted by the
    /// element only.
    var resumes: UInt64 = 0
    var sendDelay = Duration.zero
    var encoding = CodingTime()
    var decoding = CodingTime()

    package init() {}

    /// - Parameter connections: the first one sends; all receive.
    init(_ connections: [PeerConnectionStatistics], _ codecs: CodecStatistics) {
        for (index, connection) in connections.enumerated() {
            if index == 0 {
                (packetsSent, bytesSent) = (connection.packetsSent, connection.bytesSent)
                (nacksReceived, plisReceived) = (connection.rtp.nacksReceived, connection.rtp.plisReceived)
                (paddingBytesSent, sendDelay) = (connection.paddingBytesSent, connection.totalSendDelay)
            }
            packetsReceived &+= connection.packetsReceived
            bytesReceived &+= connection.bytesReceived
            packetsRefused &+= connection.packetsRefused
            nacksSent &+= connection.rtp.nacksSent
            plisSent &+= connection.rtp.plisSent
            iceRestarts &+= UInt64(clamping: connection.iceRestarts)
        }
        (encoding, decoding) = (codecs.encoding, codecs.decoding)
    }

    private static let fields: [any WritableKeyPath<PathCounters, UInt64> & Sendable] = [
        \.packetsSent, \.bytesSent, \.paddingBytesSent, \.packetsReceived, \.bytesReceived, \.packetsRefused,
        \.nacksSent,
        \.nacksReceived, \.plisSent, \.plisReceived, \.iceRestarts, \.resumes, \.encoding.frames, \.decoding.frames,
    ]
    private static let times: [any WritableKeyPath<PathCounters, Duration> & Sendable] = [
        \.encoding.total, \.decoding.total, \.sendDelay,
    ]

    static func + (left: PathCounters, right: PathCounters) -> PathCounters {
        var sum = left
        for field in fields { sum[keyPath: field] &+= right[keyPath: field] }
        for time in times { sum[keyPath: time] += right[keyPath: time] }
        return sum
    }

    /// Takes the larger value of each counter: one may fall when a source of the RTP session is forgotten.
    mutating func raise(to other: PathCounters) {
        for field in Self.fields { self[keyPath: field] = max(self[keyPath: field], other[keyPath: field]) }
        for time in Self.times { self[keyPath: time] = max(self[keyPath: time], other[keyPath: time]) }
    }
}

/// The sum over all media paths of an element. No counter ever falls.
package final class ElementTotals: Sendable {
    private struct State {
        var ended = PathCounters()
        var current: [PathID: PathCounters] = [:]
    }
    private let state = Mutex(State())

    package init() {}

    /// Counts a path from now on.
    package func begin(_ path: PathID) { state.withLock { $0.current[path] = PathCounters() } }

    /// Any thread. Nothing is counted after the last call: a reader of statistics may come too late with its counters.
    /// - Parameter isLast: the path ends.
    package func count(_ path: PathID, _ counters: PathCounters, isLast: Bool) {
        state.withLock { state in
            guard var latest = state.current[path] else { return }
            latest.raise(to: counters)
            if isLast {
                state.current[path] = nil
                state.ended = state.ended + latest
            } else {
                state.current[path] = latest
            }
        }
    }

    func countResume() { state.withLock { $0.ended.resumes &+= 1 } }

    package var sum: PathCounters { state.withLock { state in state.current.values.reduce(state.ended, +) } }
}
