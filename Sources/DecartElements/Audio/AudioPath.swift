// The sound of one media path: encoder and decoder, beside those of the picture. It knows RTP and the element's sound; it
// must not know connections.
//
// Every method runs on the session's queue, which may block in GStreamer, unless it says otherwise.
import GStreamerKit
import Synchronization
import WebRTCTransport

// @unchecked: fields belong to the session's queue, but for what is in the mutex.
final class AudioPath: @unchecked Sendable {
    private let rank: Int
    private let track: AudioTrack
    private var encoder: (bin: Bin, entry: Pad)?
    /// Stays with its connection, whatever becomes of the decoder: a jitter buffer that finds nobody there stops for good.
    private var doors: [(source: Pad, door: PacketDoor)] = []
    private var decoder: (elements: [Element], exit: Pad, door: PacketDoor)?
    /// Of the decoder, for other threads.
    private let decoding = Mutex<[Element]>([])

    init(rank: Int, track: AudioTrack) {
        self.rank = rank
        self.track = track
    }

    /// - Parameter sink: takes RTP.
    func send(through encoder: Bin, to sink: Pad, in bin: Bin) throws {
        stopSending(in: bin)
        bin.add(encoder)
        let entry = Pad(name: "audio_raw_in", direction: .source)
        self.encoder = (encoder, entry)
        guard let encoderSink = encoder.staticPad("sink"), let encoderSource = encoder.staticPad("src") else { return }
        try encoderSource.link(sink)
        entry.setActive(true)
        try entry.link(encoderSink)
        encoder.syncStateWithParent()
        entry.push(Event.streamStart(id: "decart/raw-audio", groupID: Event.nextGroupID()))
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

    /// - Parameter source: gives RTP, sooner or later.
    func receive(from source: Pad, through make: () throws(GStreamerError) -> Bin, in bin: Bin) throws {
        stopReceiving(in: bin)
        let door: PacketDoor
        if let known = doors.first(where: { $0.source.raw == source.raw })?.door {
            door = known
        } else {
            door = PacketDoor()
            doors.append((source, door))
            try door.open(to: source)
        }
        let decoder = try make()
        let convert = try Element(factory: "audioconvert")
        let resample = try Element(factory: "audioresample")
        let format = try Element(factory: "capsfilter")
        format.set("caps", caps: try Caps(AudioFormat.returnedCaps))
        let chain: [Element] = [decoder, convert, resample, format]
        bin.add(chain)
        let exit = Pad(name: "audio_decoded", direction: .sink)
        self.decoder = (chain, exit, door)
        decoding.withLock { $0 = chain }
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
        try door.link(to: first)
    }

    /// What was built for sound goes, the connections stay. More than once.
    func stop(in bin: Bin) {
        stopSending(in: bin)
        stopReceiving(in: bin)
    }

    /// After the connections have been taken apart.
    func close() {
        for (_, door) in doors { door.close() }
        doors.removeAll()
    }

    private func stopSending(in bin: Bin) {
        track.removeDelivery(rank: rank)
        guard let (encoder, entry) = encoder else { return }
        self.encoder = nil
        entry.setActive(false)
        if let sink = entry.peer { entry.unlink(sink) }
        takeDown([encoder], from: bin)
    }

    private func stopReceiving(in bin: Bin) {
        guard let (elements, exit, door) = decoder else { return }
        decoder = nil
        decoding.withLock { $0 = [] }
        door.unlink()
        takeDown(elements, from: bin)
        exit.setActive(false)
    }

    private func takeDown(_ elements: [Element], from bin: Bin) {
        for element in elements {
            // Otherwise the parent could raise it again while it goes down.
            element.setLockedState(true)
            element.setState(.null)
        }
        for element in elements { bin.remove(element) }
    }
}
