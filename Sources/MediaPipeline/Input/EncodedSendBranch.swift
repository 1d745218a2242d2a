// The payloader of one media path for an encoded input; there is no encoder. It knows RTP; it must not know how
// connections are established.
package import GStreamerKit
import Log
import Synchronization
package import RTP
package import WebRTCTransport

// @unchecked: `entry` belongs to the queue that calls `start` and `close`; the rest is constant or locked.
package final class EncodedSendBranch: SendBranch, @unchecked Sendable {
    private let path: PathID
    private let input: InputChain
    private let codec: VideoCodec
    private let onOverload: @Sendable (EncodedOverload) -> Void

    /// In front of the payloader.
    private var entry: Pad?
    private let flow: Mutex<EncodedFlow>

    /// - Parameters:
    ///   - framerate: frames per second that the model takes.
    ///   - onOverload: called on upstream's thread.
    package init(
        path: PathID, input: InputChain, codec: VideoCodec, framerate: Int,
        onOverload: @escaping @Sendable (EncodedOverload) -> Void
    ) {
        self.path = path
        self.input = input
        self.codec = codec
        self.onOverload = onOverload
        flow = Mutex(EncodedFlow(framerate: framerate))
    }

    package func setFramerate(_ framerate: Int) { flow.withLock { $0.framerate = max(framerate, 1) } }

    package func apply(target: BitrateTarget) { flow.withLock { $0.target = target.target } }

    package func requestKeyframe() {
        flow.withLock { $0.restart() }
        input.encoded.requestKeyframe()
    }

    package func start(
        _ parameters: RTPSendParameters, to sink: Pad, in bin: Bin, markers: LatencyMarkers?,
        onEncoder: (_ encoder: Element, _ followsBitrate: Bool) -> Void,
        onFrame: @escaping @Sendable (_ size: (width: Int, height: Int)) -> Void
    ) throws {
        let senderSink = try bin.insert([try EncodedVideoBin.makeSender(parameters)], before: sink)
        let entry = Pad(name: "encoded_in", direction: .source)
        entry.setEventFunction { [weak self] event in
            if event.isForceKeyUnit { self?.remoteWantsKeyframe() }
            return .handled(true)
        }
        entry.setActive(true)
        try entry.link(senderSink)
        self.entry = entry
        entry.push(Event.streamStart(id: "decart/encoded", groupID: Event.nextGroupID()))
        entry.push(Event.caps(try Caps(EncodedVideoBin.senderCaps(codec))))
        entry.push(Event.timeSegment())
        input.addDelivery(path: path) { [weak self] frame in
            if self?.deliver(frame, to: entry) == true { onFrame(frame.size) }
            return true
        }
    }

    /// - Returns: true if the frame was sent.
    private func deliver(_ frame: EncoderFrame, to entry: Pad) -> Bool {
        guard let info = frame.encoded, info.codec == codec else { return false }
        let decision = flow.withLock {
            $0.frame(
                bytes: frame.buffer.size, isKeyframe: info.isKeyframe, sequence: info.sequence, now: MonotonicTime.now)
        }
        if decision.requestsKeyframe { input.encoded.requestKeyframe() }
        if let overload = decision.overload {
            input.encoded.requestKeyframe()
            onOverload(overload)
        }
        guard decision.isSent, let time = frame.runningTime, let buffer = frame.buffer.copyOfMetadata() else {
            input.gate.countDroppedToKeyframe()
            return false
        }
        input.gate.countSent()
        buffer.pts = time
        buffer.dts = nil
        _ = entry.push(buffer)
        return true
    }

    /// Called on the network thread.
    private func remoteWantsKeyframe() {
        if flow.withLock({ $0.keyframeRequested(now: MonotonicTime.now) }) { input.encoded.requestKeyframe() }
    }

    package func stop() { input.removeDelivery(path: path) }

    package func close() { entry.take()?.setActive(false) }
}

package struct SendStatus: Sendable {
    /// RIDs of the simulcast layers that are sent now, highest resolution first; empty: one stream.
    package var layers: [String] = []
    /// Factory of the encoder; nil before `start`.
    package var encoder: String?
    /// Frames encoded so far.
    package var codingTime = CodingTime()
    /// Fraction of the frames that the CPU carries.
    package var cpuShare = 1.0
}

/// The sending half of a media path: encoder or not, and payloader. Any thread may call what `VideoSendBranch` says so of.
package protocol SendBranch: Sendable {
    var status: SendStatus { get }
    func apply(target: BitrateTarget)
    /// Takes at most so many frames a second.
    func setFramerate(_ framerate: Int)
    func requestKeyframe()
    func setWanted(_ rids: Set<String>)
    func start(
        _ parameters: RTPSendParameters, to sink: Pad, in bin: Bin, markers: LatencyMarkers?,
        onEncoder: (_ encoder: Element, _ followsBitrate: Bool) -> Void,
        onFrame: @escaping @Sendable (_ size: (width: Int, height: Int)) -> Void
    ) throws
    func stop()
    func close()
}

extension EncodedSendBranch {
    /// No frame of an encoded input can be dropped for the CPU's sake alone.
    package var status: SendStatus { SendStatus() }
    /// The application encodes, whoever receives it.
    package func setWanted(_ rids: Set<String>) {}
}
