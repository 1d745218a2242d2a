// Leads the element's sink pad to what its caps need: raw video to the input chain, through elements that fetch frames from
// memory other than the system's while such frames come, and encoded video nowhere, because it does not pass the pad. It
// knows pads and caps; it must not know sessions.
package import GStreamerKit
import RTP
import WebRTCTransport

// @unchecked: pads and elements are thread-safe; the rest belongs to the streaming thread of the sink pad, and to the thread
// that stops the element when that has ended.
package final class InputMemory: @unchecked Sendable {
    private let sink: GhostPad
    /// Weak: its encoded input holds the pad, whose probes hold this object.
    private weak var chain: InputChain?
    /// First pad of the input chain, which takes the system's memory.
    private let entry: Pad

    /// The input is encoded: the pad has no target.
    private var isBypassed = false
    private var memory: VideoMemory?
    private var elements: [Element] = []
    /// The last caps could not be used: their frames are dropped.
    package private(set) var isUnusable = false
    /// Frames come in memory other than the system's.
    package var isInUse: Bool { memory != nil }

    /// - Parameters:
    ///   - sink: the element's sink pad, whose target is `entry`. Its probes hold this object, so this one holds the pad
    ///     without a reference.
    package init(sink: GhostPad, chain: InputChain, entry: Pad) {
        self.sink = sink.unowned
        (self.chain, self.entry) = (chain, entry)
    }

    /// Caps of the sink pad's template besides the system's memory.
    package static let templateCaps = VideoMemory.all.map(\.caps).joined(separator: "; ")

    /// Prepares for the frames of a CAPS event, before it passes the sink pad. Called on upstream's thread.
    /// - Throws: an error for the user if nothing that fetches the frames is installed.
    package func prepare(for caps: Caps, in bin: Bin) throws(GStreamerError) {
        if caps.isAlternate {
            isUnusable = true
            throw GStreamerError(
                .badCaps,
                "the input's caps have interlace-mode=alternate, whose buffers hold one field: set the source to "
                    + "interleaved or progressive frames")
        }
        bypass(caps.first.flatMap { VideoCodec(capsName: $0.name) } != nil, in: bin)
        let next = VideoMemory.named(caps.memory)
        guard next != memory || isUnusable else { return }
        remove(from: bin)
        guard let next else { return }
        do throws(GStreamerError) {
            let elements = try next.makeFetcher(for: "the input")
            let (first, last) = try bin.addAndLink(elements)
            sink.setTarget(nil)
            (memory, self.elements) = (next, elements)
            try last.link(entry)
            sink.setTarget(first)
            for element in elements.reversed() { element.syncStateWithParent() }
        } catch {
            isUnusable = true
            throw error
        }
    }

    /// Without a target, the pad keeps sticky events, and sends them once it has one again.
    private func bypass(_ isEncoded: Bool, in bin: Bin) {
        guard isEncoded != isBypassed else { return }
        isBypassed = isEncoded
        if isEncoded {
            remove(from: bin)
            sink.setTarget(nil)
            chain?.rest()
        } else {
            chain?.wake()
            sink.setTarget(entry)
        }
    }

    /// Called after a stop.
    package func reset(in bin: Bin) {
        remove(from: bin)
        bypass(false, in: bin)
    }

    private func remove(from bin: Bin) {
        let elements = exchange(&elements, with: [])
        (memory, isUnusable) = (nil, false)
        guard let last = elements.last?.staticPad("src") else { return }
        sink.setTarget(nil)
        last.unlink(entry)
        bin.takeOut(elements)
        sink.setTarget(entry)
    }

    /// Raw caps that can come: the system's memory first, which costs nothing to take.
    package func rawCaps(for filter: Caps?) -> Caps? {
        // Converters pass frames in any memory on, so their own answer names each of them.
        guard let system = try? Caps("video/x-raw") else { return nil }
        var caps = entry.queryCaps().intersection(system)
        // The crop of the present format leaves nothing of a much smaller one, although the input chain takes that too.
        if let any = Self.systemCaps() { caps = caps.followed(by: any) }
        for memory in VideoMemory.all { if let own = Self.acceptedCaps(memory) { caps = caps.followed(by: own) } }
        // Upstream that has nothing else gets an error that names the missing package, instead of one about links.
        if filter.map({ !$0.canIntersect(caps) }) ?? true, let all = try? Caps(Self.templateCaps) {
            caps = caps.followed(by: all)
        }
        return caps
    }

    package func accepts(_ caps: Caps) -> Bool {
        // Upstream would report the refusal as an internal error; `prepare` names the cause.
        if caps.isAlternate { return true }
        guard let memory = VideoMemory.named(caps.memory) else {
            guard caps.memory == nil else { return false }
            // As the converter itself does: caps of an application often lack a frame rate.
            return Self.systemCaps().map { caps.canIntersect($0) } ?? entry.accepts(caps)
        }
        return Self.acceptedCaps(memory).map { caps.canIntersect($0) } ?? true
    }

    /// Raw caps in the system's memory that the input chain's first converter accepts; nil if it is not installed.
    private static func systemCaps() -> Caps? {
        guard let system = try? Caps("video/x-raw") else { return nil }
        return ElementFactory.named("videoconvert").map { $0.sinkCaps.intersection(system) }
    }

    /// Caps of a memory that the installed elements take; nil if there are none.
    private static func acceptedCaps(_ memory: VideoMemory) -> Caps? {
        guard let first = memory.installedFetcher?.first, let own = try? Caps(memory.caps) else { return nil }
        return ElementFactory.named(first).map { $0.sinkCaps.intersection(own) }
    }
}

extension Caps {
    /// Each buffer holds one field of an interlaced frame.
    fileprivate var isAlternate: Bool { first?.string("interlace-mode") == "alternate" }
}
