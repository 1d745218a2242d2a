// Notices that no video leaves although frames come in, from one reading of the counters a second, and names the stage.

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

        package init() {}
    }

    package enum Stall: Sendable, Equatable {
        /// The encoded input sends no keyframe that could be sent first.
        case noKeyframe
        /// All frames are smaller than their caps say.
        case incompleteFrames
        /// The encoder takes frames and returns none.
        case encoder

        package var sentence: String {
            switch self {
            case .noKeyframe:
                "The input has sent no keyframe for 5 s, and an encoded stream can begin with one only: in H.264 with an "
                    + "IDR, which intra refresh and open GOPs lack. Set a shorter interval of IDR frames, or use an "
                    + "encoder that answers force-key-unit events."
            case .incompleteFrames: "All buffers of the input have been smaller than their caps say for 5 s."
            case .encoder: "The encoder has returned nothing for 5 s although it gets frames."
            }
        }
    }

    private static let seconds = 5
    private var last: Reading?
    private var current: (stall: Stall, seconds: Int)?

    package init() {}

    /// The stage that has been stalled for five seconds or longer.
    package var stall: Stall? { current.flatMap { $0.seconds >= Self.seconds ? $0.stall : nil } }

    /// Call once a second.
    /// - Returns: a stall once, when it has lasted for five seconds.
    package mutating func add(_ reading: Reading) -> Stall? {
        defer { last = reading }
        guard let now = last.flatMap({ stall(from: $0, to: reading) }) else {
            current = nil
            return nil
        }
        let seconds = current?.stall == now ? (current?.seconds ?? 0) + 1 : 1
        current = (now, seconds)
        return seconds == Self.seconds ? now : nil
    }

    private func stall(from before: Reading, to after: Reading) -> Stall? {
        func rose(_ path: KeyPath<Reading, UInt64>) -> Bool { after[keyPath: path] > before[keyPath: path] }
        if after.isEncodedInput {
            let isWaiting = rose(\.framesIn) && !after.hasKeyframe || rose(\.droppedToKeyframe)
            return isWaiting && !rose(\.framesSent) ? .noKeyframe : nil
        }
        if rose(\.droppedIncomplete), !rose(\.framesSent) { return .incompleteFrames }
        return after.isConnected && rose(\.framesSent) && !rose(\.framesEncoded) ? .encoder : nil
    }
}
