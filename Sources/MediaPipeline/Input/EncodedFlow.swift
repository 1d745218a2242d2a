// Decides which frames of an encoded input are sent: from a keyframe on, and no more than the network and the model
// take. A value; frames cannot be dropped singly here, because later ones depend on them.

package struct EncodedFlow: Sendable {
    package struct Decision: Sendable, Equatable {
        package var isSent: Bool
        /// Request a keyframe from the input.
        package var requestsKeyframe = false
        /// Frames are dropped from here to a later keyframe.
        package var overload: EncodedOverload?

        package init(isSent: Bool, requestsKeyframe: Bool = false, overload: EncodedOverload? = nil) {
            (self.isSent, self.requestsKeyframe, self.overload) = (isSent, requestsKeyframe, overload)
        }
    }

    /// bit/s; nil: not known yet.
    package var target: Int?
    package var framerate: Int
    private var needsKeyframe = true
    private var lastSequence: UInt64?
    /// A keyframe request of the remote peer that waits for its time.
    private var isRequestWaiting = false
    /// Each lost packet and each viewer may request a keyframe, and a burst of keyframes congests the path that lost
    /// the packet.
    private var requests = Throttle(.milliseconds(300))
    /// Bits and frames sent above target and frame rate so far: two leaky buckets.
    private var excess = (bits: 0.0, frames: 0.0)
    private var updatedAt: Duration?
    /// Dropping because of an overload: the next keyframe waits until the buckets have drained.
    private var isRecovering = false
    private var meter = Meter()

    /// The buckets hold one second of the target and of the frame rate: a burst is no overload.
    private static let capacity = 1.0
    private static let drained = 0.5
    /// Clocks of cameras and rates like 30000/1001 differ: a few percent too many are not worth the rest of a GOP.
    private static let tolerance = 1.04

    /// - Parameter framerate: frames per second that the model takes.
    package init(framerate: Int) { self.framerate = max(framerate, 1) }

    /// Call for each frame that arrives while the connection takes frames.
    /// - Parameters:
    ///   - sequence: counts the input's frames; a gap means that frames were lost on the way.
    ///   - now: monotonic.
    package mutating func frame(bytes: Int, isKeyframe: Bool, sequence: UInt64, now: Duration) -> Decision {
        drain(now)
        meter.add(bits: Double(bytes) * 8, now: now)
        if let lastSequence, sequence != lastSequence &+ 1 { needsKeyframe = true }
        lastSequence = sequence
        guard !needsKeyframe else { return beginning(bytes, isKeyframe, now) }
        if let overload = overload(adding: bytes) {
            (needsKeyframe, isRecovering) = (true, true)
            return Decision(isSent: false, overload: overload)
        }
        return send(bytes, isKeyframe, now)
    }

    private mutating func beginning(_ bytes: Int, _ isKeyframe: Bool, _ now: Duration) -> Decision {
        if isRecovering {
            guard excess.bits <= Self.drained * Double(target ?? .max),
                excess.frames <= Self.drained * Double(framerate)
            else { return Decision(isSent: false) }
        }
        guard isKeyframe else { return Decision(isSent: false, requestsKeyframe: requests.allows(at: now)) }
        (needsKeyframe, isRecovering) = (false, false)
        return send(bytes, isKeyframe, now)
    }

    private mutating func send(_ bytes: Int, _ isKeyframe: Bool, _ now: Duration) -> Decision {
        excess.bits += Double(bytes) * 8
        excess.frames += 1
        if isKeyframe { isRequestWaiting = false }
        let requestsKeyframe = isRequestWaiting && requests.allows(at: now)
        if requestsKeyframe { isRequestWaiting = false }
        return Decision(isSent: true, requestsKeyframe: requestsKeyframe)
    }

    private func overload(adding bytes: Int) -> EncodedOverload? {
        var reason: EncodedOverload.Reason?
        if let target, excess.bits + Double(bytes) * 8 > Self.capacity * Double(target) { reason = .bitrate }
        if excess.frames + 1 > Self.capacity * Double(framerate) { reason = .framerate }
        return reason.map {
            EncodedOverload(
                reason: $0, bitrate: meter.bitrate, target: target ?? 0, framerate: meter.framerate,
                maximumFramerate: framerate)
        }
    }

    private mutating func drain(_ now: Duration) {
        defer { updatedAt = now }
        guard let updatedAt, now > updatedAt else { return }
        let seconds = (now - updatedAt) / .seconds(1)
        excess.frames = max(0, excess.frames - seconds * Double(framerate) * Self.tolerance)
        excess.bits = target.map { max(0, excess.bits - seconds * Double($0)) } ?? 0
    }

    /// The remote peer requests a keyframe.
    /// - Returns: true if the request goes upstream now; else it waits for a later frame.
    package mutating func keyframeRequested(now: Duration) -> Bool {
        let isNow = requests.allows(at: now)
        isRequestWaiting = !isNow
        return isNow
    }

    /// The next frame that is sent is a keyframe, as after a pause.
    package mutating func restart() { needsKeyframe = true }

    /// Rates of the input over the last one to two seconds, or since it began.
    private struct Meter: Sendable {
        private var began: Duration?
        private var latest = Duration.zero
        private var sum = (bits: 0.0, frames: 0.0)
        private var previous = (bits: 0.0, frames: 0.0, seconds: 0.0)

        mutating func add(bits: Double, now: Duration) {
            if let began, now - began >= .seconds(1) {
                previous = (sum.bits, sum.frames, (now - began) / .seconds(1))
                (self.began, sum) = (now, (0, 0))
            }
            if began == nil { began = now }
            latest = now
            sum = (sum.bits + bits, sum.frames + 1)
        }

        private var seconds: Double { max(previous.seconds + (latest - (began ?? latest)) / .seconds(1), 0.1) }
        var bitrate: Int { Int(min((previous.bits + sum.bits) / seconds, 1e12)) }
        var framerate: Double { (previous.frames + sum.frames) / seconds }
    }
}

/// An encoded input sends more than can be sent on: frames are dropped up to a later keyframe.
package struct EncodedOverload: Sendable, Equatable {
    package enum Reason: String, Sendable {
        /// More bits than the target.
        case bitrate
        /// More frames than the model takes.
        case framerate
    }
    package var reason: Reason
    /// Rates of the input, and what is taken: bit/s and frames per second. A target of 0 is not known yet.
    package var bitrate: Int
    package var target: Int
    package var framerate: Double
    package var maximumFramerate: Int
}
