// The audio of one media path: its encoder and decoder, alongside those for video. It knows RTP and the element's audio
// track; it must not know connections.
//
// Every method runs on the session's queue, which may block in GStreamer.
package import GStreamerKit
import Synchronization
import WebRTCTransport

// @unchecked: the fields are confined to the session's queue.
package final class AudioPath: @unchecked Sendable {
    private let attempt: Int
    private let track: AudioTrack
    /// Kept for the lifetime of its connection: a new encoder would restart the sequence numbers of the SSRC, and SRTP
    /// would drop the packets as replays.
    private var encoder: (entry: Pad, sink: Pad)?
    private var decoder: (elements: [Element], exit: Pad, source: Pad)?

    package init(attempt: Int, track: AudioTrack) {
        self.attempt = attempt
        self.track = track
    }

    /// - Parameter sink: accepts the encoder's RTP.
    package func send(to sink: Pad, through make: () throws(GStreamerError) -> Bin, in bin: Bin) throws {
        let entry: Pad
        if let encoder, encoder.sink.raw == sink.raw {
            entry = encoder.entry
        } else {
            entry = Pad(name: "audio_raw_in", direction: .source)
            try build(try make(), from: entry, to: sink, in: bin)
            encoder = (entry, sink)
        }
        let announced = Mutex(0)
        track.addDelivery(attempt: attempt) { frame in
            let isNew = announced.withLock { channels in
                defer { channels = frame.channels }
                return channels != frame.channels
            }
            if isNew {
                if let caps = try? Caps(AudioFormat.capsText(channels: frame.channels)) { entry.push(Event.caps(caps)) }
                entry.push(Event.timeSegment())
            }
            guard let time = frame.runningTime, let buffer = frame.buffer.copyOfMetadata() else { return }
            buffer.pts = time
            buffer.dts = nil
            _ = entry.push(buffer)
        }
    }

    private func build(_ encoder: Bin, from entry: Pad, to sink: Pad, in bin: Bin) throws {
        bin.add(encoder)
        guard let encoderSink = encoder.staticPad("sink"), let encoderSource = encoder.staticPad("src") else { return }
        try encoderSource.link(sink)
        entry.setActive(true)
        try entry.link(encoderSink)
        encoder.syncStateWithParent()
        entry.push(Event.streamStart(id: "decart/raw-audio", groupID: Event.nextGroupID()))
    }

    /// - Parameter source: pushes RTP, now or later, and may stay unlinked.
    package func receive(from source: Pad, through make: () throws(GStreamerError) -> Bin, in bin: Bin) throws {
        stopReceiving(in: bin)
        let decoder = try make()
        let convert = try Element(factory: "audioconvert")
        let resample = try Element(factory: "audioresample")
        let format = try Element(factory: "capsfilter")
        format.set("caps", caps: try Caps(AudioFormat.returnedCaps))
        let chain: [Element] = [decoder, convert, resample, format]
        bin.add(chain)
        let exit = Pad(name: "audio_decoded", direction: .sink)
        self.decoder = (chain, exit, source)
        exit.setChainFunction { [track, attempt] buffer in
            track.submit(buffer, attempt: attempt)
            return .ok
        }
        exit.setEventFunction { _ in .handled(true) }
        exit.setActive(true)
        try bin.linkChain(chain)
        guard let first = decoder.staticPad("sink"), let last = format.staticPad("src") else { return }
        try last.link(exit)
        for element in chain.reversed() { element.syncStateWithParent() }
        try source.link(first)
    }

    /// Stops sending and decoding; the connections stay. May be called more than once.
    package func stop(in bin: Bin) {
        track.removeDelivery(attempt: attempt)
        stopReceiving(in: bin)
    }

    /// Called after the connections, and the bin with the encoder, have been taken down.
    package func close() {
        encoder?.entry.setActive(false)
        encoder = nil
    }

    private func stopReceiving(in bin: Bin) {
        guard let (elements, exit, source) = decoder else { return }
        decoder = nil
        if let sink = source.peer { source.unlink(sink) }
        for element in elements {
            // Locked, or the parent could raise its state again on the way down.
            element.setLockedState(true)
            element.setState(.null)
        }
        for element in elements { bin.remove(element) }
        exit.setActive(false)
    }
}
