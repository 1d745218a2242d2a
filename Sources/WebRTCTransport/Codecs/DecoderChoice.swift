// The choice of a decoder, by GStreamer's ranks among those that accept the stream.
import RTP
package import GStreamerKit
import Synchronization

/// The installed decoders of each codec, of any rank. Cached, because comparing the caps of all decoders takes some 10 ms.
private let installed = Mutex<(version: UInt32, choices: [VideoCodec: [DecoderChoice]])>((0, [:]))

package struct DecoderChoice: Sendable, Equatable {
    package let factory: String
    /// Element between depayloader and decoder, for caps that only a parser knows.
    let parser: String?
}

extension VideoCodec {
    private var depayloadedCaps: String {
        switch self {
        case .vp8: "video/x-vp8, width=(int)1280, height=(int)704, framerate=(fraction)0/1, profile=(string)0"
        case .vp9: "video/x-vp9, width=(int)1280, height=(int)704, framerate=(fraction)0/1"
        case .h264: "video/x-h264, stream-format=(string)byte-stream, alignment=(string)au"
        case .h265: "video/x-h265, stream-format=(string)byte-stream, alignment=(string)au"
        }
    }

    private var parsed: (parser: String, caps: [String])? {
        switch self {
        case .vp8: return nil
        case .vp9:
            let common = """
                video/x-vp9, width=(int)1280, height=(int)704, framerate=(fraction)30/1, profile=(string)0, \
                chroma-format=(string)4:2:0, bit-depth-luma=(uint)8, bit-depth-chroma=(uint)8, parsed=(boolean)true
                """
            return ("vp9parse", ["super-frame", "frame"].map { "\(common), alignment=(string)\($0)" })
        case .h264:
            return (
                "h264parse",
                [
                    """
                    video/x-h264, stream-format=(string)byte-stream, alignment=(string)au, width=(int)1280, \
                    height=(int)704, framerate=(fraction)30/1, profile=(string)constrained-baseline, level=(string)3.1, \
                    chroma-format=(string)4:2:0, bit-depth-luma=(uint)8, bit-depth-chroma=(uint)8, \
                    interlace-mode=(string)progressive, parsed=(boolean)true
                    """
                ]
            )
        case .h265:
            return (
                "h265parse",
                [
                    """
                    video/x-h265, stream-format=(string)byte-stream, alignment=(string)au, width=(int)1280, \
                    height=(int)704, framerate=(fraction)30/1, profile=(string)main, level=(string)3.1, \
                    tier=(string)main, chroma-format=(string)4:2:0, bit-depth-luma=(uint)8, \
                    bit-depth-chroma=(uint)8, interlace-mode=(string)progressive, parsed=(boolean)true
                    """
                ]
            )
        }
    }

    /// The caps of frames behind the depayloader, and behind the parser if that is installed.
    private struct Stream {
        var depayloaded: Caps?
        var parsed: (parser: String, caps: [Caps])?

        func choice(_ factory: ElementFactory) -> DecoderChoice? {
            if let depayloaded, factory.accepts(depayloaded) {
                return DecoderChoice(factory: factory.name, parser: nil)
            }
            guard let parsed, parsed.caps.contains(where: factory.accepts) else { return nil }
            return DecoderChoice(factory: factory.name, parser: parsed.parser)
        }
    }

    private var stream: Stream {
        let parser = parsed.flatMap { GStreamerRuntime.hasElement($0.parser) ? $0 : nil }
        return Stream(
            depayloaded: try? Caps(depayloadedCaps),
            parsed: parser.map { ($0.parser, $0.caps.compactMap { try? Caps($0) }) })
    }

    /// Installed decoders, best first: by rank, then our own order, then name. vp9dec precedes others of VP9, because they
    /// show the lowest of a frame's spatial layers: these follow each other without an index.
    package var decoderChoices: [DecoderChoice] {
        let own = decoders
        func joinsLayers(_ name: String) -> Int { name == "vp9dec" ? 1 : 0 }
        func order(_ name: String) -> Int { own.firstIndex(of: name) ?? own.count }
        return
            installedChoices
            .compactMap { choice in ElementFactory.named(choice.factory).map { (choice: choice, rank: $0.rank) } }
            .filter { $0.rank >= ElementFactory.lowestRank }
            .sorted {
                (joinsLayers($1.choice.factory), $1.rank, order($0.choice.factory), $0.choice.factory)
                    < (joinsLayers($0.choice.factory), $0.rank, order($1.choice.factory), $1.choice.factory)
            }
            .map(\.choice)
    }

    private var installedChoices: [DecoderChoice] {
        let version = GStreamerRuntime.registryVersion
        let known = installed.withLock { $0.version == version ? $0.choices[self] : nil }
        if let known { return known }
        let factories = ElementFactory.videoDecoders
        // Before GStreamer is initialised there are none, and no caps can be read.
        let choices = factories.isEmpty ? [] : factories.compactMap(stream.choice)
        installed.withLock {
            if $0.version != version { $0 = (version, [:]) }
            $0.choices[self] = choices
        }
        return choices
    }

    package var standardDecoder: DecoderChoice {
        get throws(GStreamerError) {
            let factory = decoders.lazy.compactMap { ElementFactory.named($0) }.first
            guard let factory, let choice = stream.choice(factory) else { throw noDecoder }
            return choice
        }
    }

    private var noDecoder: GStreamerError {
        let names = DebianPackage.list(decoders)
        return GStreamerError(
            .missingElement(names), "no \(encodingName) decoder that starts is installed: install \(names)")
    }

    /// The best decoder that starts. Opening a device is what fails most often.
    /// - Parameters:
    ///   - failed: factories that have failed before.
    ///   - onFailure: called with each factory that does not start.
    package func startableDecoder(
        besides failed: Set<String>, onFailure: (String) -> Void
    ) throws(GStreamerError) -> DecoderChoice {
        for choice in decoderChoices where !failed.contains(choice.factory) {
            if choice.starts { return choice }
            onFailure(choice.factory)
        }
        throw noDecoder
    }
}

extension DecoderChoice {
    fileprivate var starts: Bool {
        guard let element = try? Element(factory: factory), element.staticPad("sink") != nil,
            element.staticPad("src") != nil
        else { return false }
        defer { element.setState(.null) }
        return element.setState(.ready) != .failure
    }
}
