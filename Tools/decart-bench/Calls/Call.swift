import Dispatch
import GStreamerKit
import RTP
import Synchronization
import WebRTCTransport

/// One peer of a call: a transport in its own pipeline, the media it sends and the handling of the media it receives.
// @unchecked: fields are set on one thread while the call is built; data from streaming threads is in a mutex.
final class Call: @unchecked Sendable {
    enum Sending: Sendable {
        /// Raw frames with their number stamped in, through the product's encoder bin.
        case frames(TestPattern)
        case clip(Clip)
        /// Sends the received frames back.
        case echo
    }

    enum Receiving: Sendable { case decode, discard }

    let pipeline = Pipeline()
    let transport: any Transport
    private let sending: Sending
    private let receiving: Receiving
    private let send: @Sendable (PeerMessage) -> Void
    private var source: PacedSource?
    private let echo: EchoBridge
    private var hasReceiver = false
    private let forward: FactForward
    let progress = CallProgress()

    /// - Parameter send: Sends a message to the remote peer.
    init(
        _ implementation: Implementation, sending: Sending, receiving: Receiving,
        send: @escaping @Sendable (PeerMessage) -> Void
    ) throws {
        self.sending = sending
        self.receiving = receiving
        self.send = send
        let forward = FactForward()
        self.forward = forward
        echo = EchoBridge(pipeline: pipeline)
        transport = try implementation.makeTransport { fact in forward.call?.handle(fact) }
        forward.call = self
        pipeline.add(transport.element)
    }

    private func handle(_ fact: TransportEvent) {
        switch fact {
        case .candidate(let text): send(PeerMessage(.candidate, text))
        case .iceConnected: progress.reached(.ice)
        case .connected: progress.reached(.connected)
        case .failed(let text): progress.fail(text)
        case .receiver(let pad):
            if (try? buildReceiver(from: pad)) == nil { progress.fail("could not build the receiver") }
        }
    }

    /// Starts the pipeline and sends our offer.
    func start() throws {
        pipeline.setState(.playing)
        try transport.prepareOffer()
        if transport.sendParameters != nil { try buildSender() }
        try transport.offer { [send] text in send(PeerMessage(.offer, text)) }
    }

    func receive(_ message: PeerMessage) {
        do {
            switch message.kind {
            case .offer:
                pipeline.setState(.playing)
                try transport.answer(
                    message.text, ready: { try buildSender() },
                    then: { [send] text in send(PeerMessage(.answer, text)) })
            case .answer:
                progress.reached(.answered)
                try transport.accept(answer: message.text)
                if source == nil { try buildSender() }
            case .candidate: transport.add(candidate: message.text)
            case .stop: break
            }
        } catch {
            progress.fail("\(error)")
        }
    }

    // MARK: Media

    private func buildSender() throws {
        guard let parameters = transport.sendParameters, let target = transport.sender() else {
            throw BenchError("the transport has no sender")
        }
        var chain: [Element] = []
        var input: PacedSource?
        switch sending {
        case .frames(let pattern):
            let encoder = try VideoEncoderBin(parameters: parameters, bitrate: Clip.bitrate)
            chain.append(encoder.bin)
            let progress = progress
            // Only the streaming thread uses the frame number; numbers start at 1.
            nonisolated(unsafe) var number = 0
            input = PacedSource(caps: TestPattern.caps, pipeline: pipeline) { _ in
                number += 1
                progress.captured(number)
                return pattern.frame(number)
            }
        case .clip(let clip):
            chain.append(try VideoPayloader.make(parameters))
            input = PacedSource(caps: Clip.caps, pipeline: pipeline, next: clip.player(progress.captured))
        case .echo:
            chain.append(try VideoPayloader.make(parameters))
        }
        if let caps = transport.senderCaps {
            let filter = try Element(factory: "capsfilter")
            filter.set("caps", caps: try Caps(caps))
            chain.append(filter)
        }
        let first = try pipeline.insert(chain, before: target)
        if let input {
            try input.pad.link(first)
            source = input
            try input.start()
        } else {
            try echo.input.link(first)
        }
    }

    private func buildReceiver(from pad: Pad) throws {
        guard !hasReceiver else { return }
        hasReceiver = true
        if case .echo = sending {
            let depayloader = try Element(factory: "rtpvp8depay")
            depayloader.set("request-keyframe", true)
            let sink = try pipeline.insert([depayloader], before: echo.output)
            try pad.link(sink)
            return
        }
        let sink = try Element(factory: "fakesink")
        sink.set("sync", false)
        sink.set("async", false)
        let first: Element
        switch receiving {
        case .decode: first = try VideoDecoderBin.make(codec: .vp8)
        case .discard: first = try Element(factory: "rtpvp8depay")
        }
        pipeline.add([first, sink])
        try first.link(sink)
        let last = sink.staticPad("sink")
        let number = numberOfFrame
        last?.addProbe(.buffer) { [progress] item in
            guard case .buffer(let buffer) = item else { return .pass }
            progress.received(buffer.withBytes(number) ?? nil)
            return .pass
        }
        sink.syncStateWithParent()
        first.syncStateWithParent()
        if let input = first.staticPad("sink") { try pad.link(input) }
    }

    /// Returns the function that finds the number of a received frame, as `captured` got it.
    private var numberOfFrame: @Sendable (UnsafeRawBufferPointer) -> Int? {
        switch (receiving, sending) {
        case (.decode, _): TestPattern.number
        case (.discard, .clip(let clip)): clip.finder()
        case (.discard, _): { _ in nil }
        }
    }

    func stop() {
        transport.close()
        pipeline.setState(.null)
        source?.stop()
        echo.stop()
        pipeline.remove(transport.element)
        transport.dismantle()
        source = nil
        forward.call = nil
    }
}

/// A weak link from the transport to its call, cut when the call stops.
final class FactForward: Sendable {
    private struct Weak: Sendable { weak var call: Call? }
    private let target = Mutex(Weak())
    var call: Call? {
        get { target.withLock { $0.call } }
        set { target.withLock { $0.call = newValue } }
    }
}

/// Passes encoded frames from the receiver to the sender through two bare pads: linked elements would make the pipeline
/// a ring.
// @unchecked: only the receiver's streaming thread uses the flag.
final class EchoBridge: @unchecked Sendable {
    /// Linked to the depayloader's output.
    let output = Pad(name: "echo_out", direction: .sink)
    /// Linked to the payloader's input.
    let input = Pad(name: "echo_in", direction: .source)
    private var announced = false

    init(pipeline: Pipeline) {
        let (output, input) = (output.unowned, input.unowned)
        self.output.setChainFunction { [weak self, weak pipeline] buffer in
            guard let self, let copy = buffer.copyOfMetadata(), let now = pipeline?.currentRunningTime else {
                return .ok
            }
            announce()
            copy.pts = now
            copy.dts = nil
            _ = input.push(copy)
            return .ok
        }
        self.output.setEventFunction { _ in .handled(true) }
        // Forward a keyframe request as a new event: the original one names the SSRC of the sent stream.
        self.input.setEventFunction { event in
            if event.isForceKeyUnit { output.push(Event.forceKeyUnitUpstream()) }
            return .handled(true)
        }
        self.output.setActive(true)
        self.input.setActive(true)
    }

    private func announce() {
        guard !announced else { return }
        announced = true
        input.push(Event.streamStart(id: "decart-bench/echo", groupID: Event.nextGroupID()))
        if let caps = try? Caps(Clip.caps) { input.push(Event.caps(caps)) }
        input.push(Event.timeSegment())
    }

    func stop() {
        input.setActive(false)
        output.setActive(false)
    }
}
