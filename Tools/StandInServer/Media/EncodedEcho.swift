// Returns encoded frames as they came: nothing is decoded. For clients whose frames must come back bit by bit.
import GStreamerKit
import RTP
import Synchronization
import WebRTCTransport

/// Frames pass two pads that belong to no element, as those of `PaintingBin` do.
struct EncodedEcho {
    private let bin: Bin
    private let end: Pad
    /// Drops frames until `send`; passes keyframe requests to the client.
    let echoed: Pad

    /// More than any client sends: frames leave as they came, as those that LiveKit's server forwards. A lower target would
    /// make them wait, and no encoder here could follow it.
    private static let bitrate = 100_000_000

    /// The echo takes each profile, whatever is installed, because nothing is decoded.
    static func prepare(_ configuration: inout PeerConnectionConfiguration) {
        (configuration.usableCodecs, configuration.h264) = ([.h264, .vp8, .vp9], .any)
        (configuration.adaptsBitrate, configuration.startBitrate) = (false, bitrate)
    }

    init(_ codec: VideoCodec, painter: FramePainter, faults: MediaFaults) throws {
        bin = try EncodedVideoBin.makeReceiver(codec)
        let end = Pad(name: "echo", direction: .sink)
        let echoed = Pad(name: "echoed", direction: .source)
        let state = Mutex<(caps: Caps?, wait: KeyframeWait)>((nil, KeyframeWait(isWaiting: false)))
        end.setEventFunction { event in
            if let caps = event.caps { state.withLock { $0.caps = caps } }
            if [.streamStart, .caps, .segment].contains(event.kind) { echoed.push(event) }
            return .handled(true)
        }
        end.setChainFunction { [end = end.unowned] frame in
            let isPaused = painter.isPaused
            // A keyframe that came before the message which ends the pause was dropped. LiveKit's server, too, forwards from
            // the next keyframe on.
            let (caps, step) = state.withLock { state -> (Caps?, KeyframeWait.Step) in
                guard !isPaused else {
                    state.wait.begin()
                    return (state.caps, .drop)
                }
                return (state.caps, state.wait.add(isKeyframe: !frame.isDeltaUnit))
            }
            if step == .dropAndRequest { end.push(Event.forceKeyUnitUpstream()) }
            guard step == .pass else { return .ok }
            faults.frameArrived()
            painter.pass()
            if !faults.isOn(.silent) {
                painter.noteSent()
                if let caps {
                    painter.viewers.show(frame, caps)
                    painter.viewers.input?.show(frame, caps)
                }
                _ = echoed.pushIfLinked(frame)
            }
            return .ok
        }
        echoed.setEventFunction { [end = end.unowned] event in
            // A new event: that of the sending RTP session has its SSRC.
            .handled(event.isForceKeyUnit && end.push(Event.forceKeyUnitUpstream()))
        }
        (self.end, self.echoed) = (end, echoed)
        let source = Viewers.EncodedSource(codec: codec) { [weak end] in
            end?.push(Event.forceKeyUnitUpstream())
        }
        painter.viewers.encoded = source
        painter.viewers.input?.encoded = source
        painter.measure { $0.codec = codec.encodingName }
    }

    func receive(from connection: PeerConnection, _ media: PipelineMedia) throws {
        [end, echoed].forEach(media.own)
        media.pipeline.add([bin])
        try bin.pad("src").link(end)
        try connection.bin.link("rtp_src", to: bin, "sink")
        bin.syncStateWithParent()
    }
}
