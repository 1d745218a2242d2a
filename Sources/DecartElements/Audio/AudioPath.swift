// The sound of one media path: encoder and decoder, beside those of the picture. It knows RTP and the element's sound; it
// must not know connections.
//
// Every method runs on the session's queue, which may block in GStreamer.
import GStreamerKit
import Synchronization
import WebRTCTransport

// @unchecked: fields belong to the session's queue.
final class AudioPath: @unchecked Sendable {
    private let rank: Int
    private let track: AudioTrack
    /// Stays with its connection: packets of one source are numbered through, or SRTP takes the later ones for repeats.
    private var encoder: (entry: Pad, sink: Pad)?
    private var decoder: (elements: [Element], exit: Pad, source: Pad)?

    init(rank: Int, track: AudioTrack) {
        self.rank = rank
        self.track = track
    }

    /// - Parameter sink: takes RTP.
    func send(to sink: Pad, through make: () throws(GStreamerError) -> Bin, in bin: Bin) throws {
        let entry: Pad
        if let encoder, encoder.sink.raw == sink.raw {
            entry = encoder.entry
        } else {
            entry = Pad(name: "audio_raw_in", direction: .source)
            try build(try make(), from: entry, to: sink, in: bin)
            encoder = (entry, sink)
        }
        let announced = Mutex(0)
        track.addDelivery(rank: rank) { frame in
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

    /// - Parameter source: gives RTP, sooner or later, and does not mind that nobody takes it.
    func receive(from source: Pad, through make: () throws(GStreamerError) -> Bin, in bin: Bin) throws {
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
        exit.setChainFunction { [track, rank] buffer in
            track.submit(buffer, rank: rank)
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

    /// Nothing is sent or decoded any more; the connections stay. More than once.
    func stop(in bin: Bin) {
        track.removeDelivery(rank: rank)
        stopReceiving(in: bin)
    }

    /// After the connections have been taken apart, and the bin with the encoder.
    func close() {
        encoder?.entry.setActive(false)
        encoder = nil
    }

    private func stopReceiving(in bin: Bin) {
        guard let (elements, exit, source) = decoder else { return }
        decoder = nil
        if let sink = source.peer { source.unlink(sink) }
        for element in elements {
            // Otherwise the parent could raise it again while it goes down.
            element.setLockedState(true)
            element.setState(.null)
        }
        for element in elements { bin.remove(element) }
        exit.setActive(false)
    }
}
