// Builds the elements of `VideoMemory` around an encoder, behind a decoder and in front of the input.
package import GStreamerKit

extension VideoMemory {
    /// The installed elements that fetch frames of this memory; nil if there are none.
    package var installedFetcher: [String]? { Self.installed(fetchers, GStreamerRuntime.hasElement) }

    /// Makes the elements that fetch frames of this memory.
    /// - Parameter owner: what has such frames, as the subject of an error's text.
    package func makeFetcher(for owner: String) throws(GStreamerError) -> [Element] {
        try Self.make(fetchers, missing: "\(owner) has frames in \(feature), and no element that fetches them", origin)
    }

    /// Elements between raw I420 in the system's memory and an encoder; empty if it takes that as it is.
    static func adapter(to encoder: Element) throws(GStreamerError) -> [Element] {
        guard let accepted = encoder.staticPad("sink")?.queryCaps() else { return [] }
        if accepted.canIntersect(try Caps("video/x-raw, format=(string)I420")) { return [] }
        let convert = try Element(factory: "videoconvert")
        if accepted.canIntersect(try Caps("video/x-raw")) { return [convert] }
        for memory in all where accepted.canIntersect(try Caps(memory.caps)) {
            let name = encoder.factoryName ?? "encoder"
            return [convert]
                + (try make(
                    memory.senders,
                    missing: "the encoder '\(name)' needs frames in \(memory.feature), and no element "
                        + "that puts them there", memory.origin))
        }
        return []
    }

    /// Elements between a decoder and the system's memory; empty if it decodes to that.
    static func adapter(from decoder: Element) throws(GStreamerError) -> [Element] {
        guard let made = decoder.staticPad("src")?.queryCaps(), !made.canIntersect(try Caps("video/x-raw")) else {
            return []
        }
        for memory in all where made.canIntersect(try Caps(memory.caps)) {
            return try memory.makeFetcher(for: "the decoder '\(decoder.factoryName ?? "decoder")'")
        }
        return []
    }

    private static func make(
        _ chains: [[String]], missing: String, _ origin: String
    ) throws(GStreamerError) -> [Element] {
        guard let names = installed(chains, GStreamerRuntime.hasElement) else {
            throw GStreamerError(
                .missingElement(Self.names(of: chains)),
                "\(missing) is installed: install \(Self.names(of: chains)) from \(origin)")
        }
        var elements: [Element] = []
        for name in names { elements.append(try Element(factory: name)) }
        return elements
    }
}
