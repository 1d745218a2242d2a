// The audio of one media path: what sends and receives it, alongside that for video. Opus packets pass without encoder
// and decoder. It knows RTP and the element's audio track; it must not know connections.
//
// Every method runs on the session's queue, which may block in GStreamer.
package import GStreamerKit
import Synchronization
package import WebRTCTransport

// @unchecked: the fields are confined to the session's queue, except the mutex.
package final class AudioPath: @unchecked Sendable {
    private let path: PathID
    private let track: AudioTrack
    private let isDiscontinuous: Bool
    /// Runs work on the session's queue.
    private let perform: @Sendable (@escaping @Sendable () -> Void) -> Void
    /// Kept for the lifetime of its connection: a new payloader would restart the sequence numbers of the SSRC, and SRTP
    /// would drop the packets as replays.
    private var sender: (payloader: Element, sink: Pad, bin: Bin)?
    /// That of the payloader's packets.
    private var redundancy = SentRedundancy()
    /// Exists while the input is raw.
    private var encoder: Bin?
    private var receiver: (elements: [Element], exit: Pad, source: Pad)?

    /// The pad into which the input's audio is pushed: linked to the encoder, or to the payloader.
    private struct Entry {
        let pad: Pad
        let takesPackets: Bool
        /// Number of channels in the caps pushed last; 0: none yet.
        var channels = 0
        /// The input is of the other kind now, and `sender` is about to follow.
        var isOutdated = false
    }
    private let entry = Mutex<Entry?>(nil)
    /// The present entry takes Opus packets; nil: there is no entry.
    private var entryTakesPackets: Bool?

    /// - Parameter isDiscontinuous: as in `AudioSendParameters`, for raw input.
    package init(
        path: PathID, track: AudioTrack, isDiscontinuous: Bool = false,
        perform: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
    ) {
        self.path = path
        self.track = track
        self.isDiscontinuous = isDiscontinuous
        self.perform = perform
    }

    // MARK: Sending

    /// - Parameter sink: accepts RTP.
    package func send(_ parameters: AudioSendParameters, to sink: Pad, in bin: Bin) throws {
        if sender.map({ $0.sink.raw != sink.raw }) ?? true {
            var parameters = parameters
            parameters.isDiscontinuous = isDiscontinuous
            let redundancy = SentRedundancy()
            let payloader = try OpusPayloader.make(parameters, redundancy)
            try bin.insert([payloader], before: sink)
            removeEntry()
            (sender, self.redundancy) = ((payloader, sink, bin), redundancy)
        }
        update(parameters)
        try makeEntry(takesPackets: track.takesPackets)
        track.setDelivery(path: path) { [weak self] in self?.deliver($0) }
    }

    /// Follows a later negotiation of the connection through which audio is sent.
    package func update(_ parameters: AudioSendParameters) {
        redundancy.set(payloadType: parameters.redundancyType)
    }

    /// Builds what the input needs in front of the payloader, in place of what another input has needed.
    private func makeEntry(takesPackets: Bool) throws {
        guard let (payloader, _, bin) = sender, let sink = payloader.staticPad("sink"),
            takesPackets != entryTakesPackets
        else { return }
        removeEntry()
        // The offsets of an encoder of ours count samples at 48 kHz; those of others may count anything.
        payloader.set("perfect-rtptime", !takesPackets)
        let pad = Pad(name: takesPackets ? "audio_packets_in" : "audio_raw_in", direction: .source)
        pad.setActive(true)
        if takesPackets {
            try pad.link(sink)
        } else {
            let encoder = try AudioEncoderBin.make(isDiscontinuous: isDiscontinuous)
            self.encoder = encoder
            try pad.link(try bin.insert([encoder], before: sink))
        }
        pad.push(Event.streamStart(id: "decart/audio", groupID: Event.nextGroupID()))
        if takesPackets {
            pad.push(Event.caps(try Caps(OpusPacket.caps(channels: 2))))
            pad.push(Event.timeSegment())
        }
        set(entry: Entry(pad: pad, takesPackets: takesPackets))
    }

    /// - Returns: the former one's pad.
    @discardableResult private func set(entry next: Entry?) -> Pad? {
        entryTakesPackets = next?.takesPackets
        return entry.withLock { exchange(&$0, with: next) }?.pad
    }

    private func removeEntry() {
        let pad = set(entry: nil)
        if let encoder {
            // Locked, or the parent could raise its state again on the way down.
            encoder.setLockedState(true)
            encoder.setState(.null)
        }
        pad?.setActive(false)
        if let pad, let peer = pad.peer { pad.unlink(peer) }
        if let encoder { sender?.bin.remove(encoder) }
        encoder = nil
    }

    /// Called on the thread of the input.
    private func deliver(_ frame: AudioFrame) {
        let isPacket = frame.packet != nil
        let (pad, isNew, isOutdated) = entry.withLock { entry -> (Pad?, Bool, Bool) in
            guard let now = entry else { return (nil, false, false) }
            guard now.takesPackets == isPacket else {
                entry?.isOutdated = true
                return (nil, false, !now.isOutdated)
            }
            entry?.channels = frame.channels
            return (now.pad, now.channels != frame.channels, false)
        }
        if isOutdated { perform { [weak self] in try? self?.makeEntry(takesPackets: isPacket) } }
        guard let pad else { return }
        if isNew {
            if let caps = try? Caps(AudioFormat.capsText(channels: frame.channels)) { pad.push(Event.caps(caps)) }
            pad.push(Event.timeSegment())
        }
        guard let time = frame.runningTime, let buffer = frame.buffer.copyOfMetadata() else { return }
        buffer.pts = time
        buffer.dts = nil
        _ = pad.push(buffer)
    }

    // MARK: Receiving

    /// - Parameter source: pushes RTP, now or later, and may stay unlinked.
    package func receive(from source: Pad, in bin: Bin) throws {
        stopReceiving(in: bin)
        let givesPackets = track.givesPackets
        var chain: [Element] = [try AudioDecoderBin.make(decodes: !givesPackets)]
        if !givesPackets {
            let format = try Element(factory: "capsfilter")
            format.set("caps", caps: try Caps(AudioFormat.returnedCaps))
            chain += [try Element(factory: "audioconvert"), try Element(factory: "audioresample"), format]
        }
        let exit = Pad(name: "audio_received", direction: .sink)
        receiver = (chain, exit, source)
        exit.setChainFunction { [track, path] buffer in
            track.submit(buffer, path: path)
            return .ok
        }
        exit.setEventFunction { _ in .handled(true) }
        exit.setActive(true)
        try source.link(try bin.insert(chain, before: exit))
    }

    /// Stops sending and receiving; the connections stay. May be called more than once.
    package func stop(in bin: Bin) {
        track.setDelivery(path: path, nil)
        stopReceiving(in: bin)
    }

    /// Called after the connections, and the bin with the encoder, have been taken down.
    package func close() {
        set(entry: nil)?.setActive(false)
        (sender, encoder) = (nil, nil)
    }

    private func stopReceiving(in bin: Bin) {
        guard let (elements, exit, source) = receiver else { return }
        receiver = nil
        if let sink = source.peer { source.unlink(sink) }
        bin.takeOut(elements)
        exit.setActive(false)
    }
}
