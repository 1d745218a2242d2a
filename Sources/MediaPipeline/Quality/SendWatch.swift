// Notices that video has stopped on its way to the service or from it, by one reading of the counters a second, and
// names the stage. A value.

package struct SendWatch {
    /// Counters of one moment, since any fixed time.
    package struct Reading {
        package var framesIn: UInt64 = 0
        package var framesSent: UInt64 = 0
        /// Frames of an encoded input that were dropped because a keyframe had to come first.
        package var droppedToKeyframe: UInt64 = 0
        /// Frames that were dropped because they are smaller than their caps say.
        package var droppedIncomplete: UInt64 = 0
        /// Frames that left the encoder.
        package var framesEncoded: UInt64 = 0
        package var isEncodedInput = false
        /// An encoded input has sent a keyframe.
        package var hasKeyframe = false
        package var isConnected = false
        /// Frames are to be expected: in PLAYING, before EOS, and while video is neither muted nor withheld.
        package var isDue = false
        package var isLinked = true
        /// No session begins before video has come.
        package var awaitsInput = false
        /// Nominal time between two frames of the input; nil: unknown.
        package var interval: Duration?
        /// Frames that came back, and those that left the element.
        package var framesReceived: UInt64 = 0
        package var framesOut: UInt64 = 0
        /// A sink holds each frame for this long.
        package var latency = Duration.zero
        /// Frames looked at and changed, of those sent and those received; zero: frames that cannot be read.
        package var sent = MotionMeter.Counts()
        package var received = MotionMeter.Counts()

        package init() {}
    }

    package enum Stall: Sendable, Equatable {
        /// The encoded input sends no keyframe that could be sent first.
        case noKeyframe
        /// All frames are smaller than their caps say.
        case incompleteFrames
        /// The encoder takes frames and returns none.
        case encoder
        /// No video is linked, none has come, or it has stopped.
        case unlinked, noVideo, noFrames
        /// Downstream takes no frames.
        case downstream
        /// The service returns the same frame again and again although the input changes.
        case repeatedFrame

        package var sentence: String {
            switch self {
            case .noKeyframe:
                "The input has sent no keyframe for 5 s, and an encoded stream can begin with one only: in H.264 with an "
                    + "IDR, which intra refresh and open GOPs lack. Set a shorter interval of IDR frames, or use an "
                    + "encoder that answers force-key-unit events."
            case .incompleteFrames: "All buffers of the input have been smaller than their caps say for 5 s."
            case .unlinked: "Nothing is linked to the pad sink, so no session begins. Link video to it."
            case .noVideo:
                "No video has come to the pad sink for 5 s, so no session begins. Check the elements in front of it."
            case .noFrames:
                "The input has sent no frame for 5 s or longer; the session goes on. Check the camera or source."
            case .downstream:
                "Downstream has taken no frame for 5 s although the service returns them. Check the elements behind src."
            case .repeatedFrame:
                "The service has returned the same frame for 5 s although the input moves; the session goes on."
            case .encoder: "The encoder has returned nothing for 5 s although it gets frames."
            }
        }
    }

    private static let seconds = 5
    private var last: Reading?
    /// Counts down the seconds until the stall is reported.
    private var current: (stall: Stall, left: Int)?
    private var input = SilenceWatch()
    /// Set while `input` is silent.
    private var silence: Stall?

    package init() {}

    /// The stage that has been stalled for five seconds or longer.
    package var stall: Stall? { silence ?? current.flatMap { $0.left <= 0 ? $0.stall : nil } }

    /// Call once a second.
    /// - Returns: a stall once, when it has lasted for five seconds.
    package mutating func add(_ reading: Reading) -> Stall? {
        defer { last = reading }
        let hasStopped = input.add(count: reading.framesIn, interval: reading.interval, isDue: reading.isDue)
        silence =
            !input.isSilent ? nil : !reading.awaitsInput ? .noFrames : reading.isLinked ? .noVideo : .unlinked
        if hasStopped {
            current = nil
            return silence
        }
        guard let now = last.flatMap({ stall(from: $0, to: reading) }) else {
            current = nil
            return nil
        }
        let held = now == .downstream ? Int(reading.latency / .seconds(1)) : 0
        let left = (current.flatMap { $0.stall == now ? $0.left : nil } ?? Self.seconds + held) - 1
        current = (now, left)
        return left == 0 ? now : nil
    }

    private func stall(from before: Reading, to after: Reading) -> Stall? {
        func rose(_ path: KeyPath<Reading, UInt64>) -> Bool { after[keyPath: path] > before[keyPath: path] }
        if after.isEncodedInput {
            let isWaiting = rose(\.framesIn) && !after.hasKeyframe || rose(\.droppedToKeyframe)
            return isWaiting && !rose(\.framesSent) ? .noKeyframe : nil
        }
        if rose(\.droppedIncomplete), !rose(\.framesSent) { return .incompleteFrames }
        guard after.isConnected else { return nil }
        if rose(\.framesSent), !rose(\.framesEncoded) { return .encoder }
        guard after.isDue, rose(\.framesReceived) else { return nil }
        if !rose(\.framesOut) { return .downstream }
        let isRepeated = rose(\.sent.changes) && rose(\.received.frames) && !rose(\.received.changes)
        return isRepeated ? .repeatedFrame : nil
    }
}
