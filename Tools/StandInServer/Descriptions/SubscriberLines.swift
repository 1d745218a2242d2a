// The offers of a room to its participant on the subscriber connection, in the way of LiveKit's servers: a value. The room
// offers every codec that it knows, whatever the track has; once a kind is answered, its m-lines have what
// the answer took, also for later tracks; the answer of a rejected m-line changes nothing.
package import GStreamerKit
package import RTP
import WebRTCTransport

package struct SubscriberLines: Sendable {
    private struct Line: Sendable {
        let kind: String
        let mid: String
        var formats: [RoomFormat]
        var extensions: [SDPAttribute]
        var track: OutputTrack?
        var isAnswered = false
        var isRetired = false
    }

    private var lines = [Line(kind: "application", mid: "0", formats: [], extensions: [])]
    /// The streams and codecs of the tracks.
    private var outputs: [OutputTrack: (stream: OutputStream, codec: OutputCodec)] = [:]
    private var transport: ServerDescription.Transport?
    /// Texts of our candidates, for later offers.
    private var candidates: [String] = []
    private var hasAllCandidates = false
    private let sessionID = UInt64.random(in: 1...UInt64(Int64.max))
    private var version: UInt32 = 0

    private let allowed: Set<String>?

    /// - Parameter allowed: the codecs that the room allows, in lower case; nil: all.
    package init(allowed: Set<String>? = nil) { self.allowed = allowed }

    // MARK: Our transport

    /// Takes the transport of an offer of our peer connection, the first one or one that restarts ICE.
    package mutating func setTransport(_ own: SDPDescription) {
        transport = ServerDescription.Transport(own)
        (candidates, hasAllCandidates) = ([], false)
    }

    /// The candidate as LiveKit's servers write it; nil: the last one has come.
    package mutating func found(_ candidate: String?) -> String? {
        guard let candidate else {
            hasAllCandidates = true
            return nil
        }
        var text = candidate
        if let transport, !text.contains(" ufrag ") { text += " ufrag \(transport.usernameFragment)" }
        candidates.append(text)
        return text
    }

    // MARK: Tracks

    package func stream(of track: OutputTrack) -> OutputStream? { outputs[track]?.stream }
    package var tracks: [OutputTrack] { lines.compactMap(\.track) }

    /// The mids of the tracks' m-lines.
    package var mids: [String: OutputTrack] {
        lines.reduce(into: [:]) { mids, line in line.track.map { mids[line.mid] = $0 } }
    }

    /// Offers exactly these tracks from now on. A new one takes the first free m-line of its kind.
    package mutating func set(_ wanted: [(OutputTrack, OutputStream, OutputCodec)]) {
        let kept = Set(wanted.map(\.0))
        for index in lines.indices {
            if let track = lines[index].track, !kept.contains(track) { lines[index].track = nil }
        }
        outputs = outputs.filter { kept.contains($0.key) }
        for (track, stream, codec) in wanted {
            outputs[track] = (stream, codec)
            guard !lines.contains(where: { $0.track == track }) else { continue }
            let kind = track.kind.rawValue
            if let free = lines.firstIndex(where: { $0.kind == kind && $0.track == nil && !$0.isRetired }) {
                lines[free].track = track
            } else {
                // The formats of the first answer hold for all m-lines of the kind.
                let answered = lines.first { $0.kind == kind && $0.isAnswered }
                lines.append(
                    Line(
                        kind: kind, mid: String(lines.count),
                        formats: answered?.formats
                            ?? RoomFormat.ofServers(kind).filter { allowed?.contains($0.name) ?? true },
                        extensions: answered?.extensions ?? Self.extensions(kind), track: track))
            }
        }
    }

    /// The next track of this kind gets a new m-line, as if it came before the present one has gone.
    package mutating func retire(_ kind: MediaKind) {
        for index in lines.indices where lines[index].kind == kind.rawValue { lines[index].isRetired = true }
    }

    private static func extensions(_ kind: String) -> [SDPAttribute] {
        let capture = SDPAttribute("extmap", "2 http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time")
        guard kind == "video" else { return [capture] }
        return [
            SDPAttribute("extmap", "1 " + ServerDescription.dependencyDescriptor), capture,
            SDPAttribute("extmap", "3 http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time"),
        ]
    }

    // MARK: Offers and answers

    package mutating func offer() -> String {
        version &+= 1
        let writer = ServerDescription(transport: transport)
        var media = lines.map { line(of: $0, writer) }
        if version > 1 { media[0].attributes += candidateLines }
        return writer.whole(media).text(sessionID: sessionID, version: version)
    }

    private func line(of line: Line, _ writer: ServerDescription) -> SDPMedia {
        guard line.kind != "application" else { return writer.application(mid: line.mid) }
        let stream = line.track.flatMap { outputs[$0]?.stream }
        let rest =
            line.extensions + (stream?.lines ?? []) + [SDPAttribute(stream == nil ? "recvonly" : "sendrecv")]
        return writer.media(line.kind, mid: line.mid, line.formats, groupsRetransmissions: false, rest)
    }

    /// Each candidate for both components, as in the offers of LiveKit's servers, although RTCP has none of its own.
    private var candidateLines: [SDPAttribute] {
        let lines = candidates.flatMap { text -> [SDPAttribute] in
            var words = text.dropFirst("candidate:".count).split(separator: " ").map(String.init)
            guard words.count > 1, words[1] == "1" else { return [] }
            return ["1", "2"].map {
                words[1] = $0
                return SDPAttribute("candidate", words.joined(separator: " "))
            }
        }
        return lines + (hasAllCandidates ? [SDPAttribute("end-of-candidates")] : [])
    }

    /// Applies the participant's answer.
    package mutating func answered(_ answer: SDPDescription) -> [TrackBinding] {
        for (index, media) in zip(lines.indices, answer.media) where !lines[index].isAnswered {
            guard media.port != 0 else {
                lines[index].extensions = []
                continue
            }
            guard lines[index].kind != "application", !media.has("inactive") else { continue }
            lines[index].isAnswered = true
            let accepted = RoomFormat.all(in: media)
            lines[index].formats = lines[index].formats.compactMap { offered in
                guard let taken = accepted.first(where: { $0.payloadType == offered.payloadType }) else { return nil }
                var format = offered
                format.feedback = offered.feedback.filter(taken.feedback.contains)
                format.retransmissionType = taken.retransmissionType
                return format
            }
            let extensions = media.values("extmap")
            lines[index].extensions = lines[index].extensions.filter { $0.value.map(extensions.contains) ?? false }
        }
        return lines.compactMap { line in
            guard let track = line.track, let output = outputs[track] else { return nil }
            return TrackBinding(track, output.stream, output.codec, in: line.formats)
        }
    }

    /// The payload type of a codec on a track's m-line; nil: the answer lacks it.
    package func payloadType(of codec: OutputCodec, for track: OutputTrack) -> Int? {
        lines.first { $0.track == track }.flatMap { codec.format(in: $0.formats) }?.payloadType
    }

    /// The answer for our own peer connection, whose offer has video and audio from the beginning: it sends whatever payload
    /// type the tracks have.
    /// - Parameter own: its offer.
    package static func ownAnswer(_ answer: SDPDescription, to own: SDPDescription) -> String {
        let first = answer.media.first { $0.value("ice-ufrag") != nil }
        let names = ["ice-ufrag", "ice-pwd", "ice-options", "fingerprint", "setup"]
        let transport = names.flatMap { name in
            (first?.values(name).first ?? answer.values(name).first).map { [SDPAttribute(name, $0)] } ?? []
        }
        let candidates = (first?.attributes ?? []).filter { ["candidate", "end-of-candidates"].contains($0.name) }
        var copy = own
        let mids = own.media.map { $0.value("mid") ?? "0" }
        copy.attributes = [SDPAttribute("group", (["BUNDLE"] + mids).joined(separator: " "))]
        copy.media = own.media.map { offered in
            let formats = offered.kind == "video" ? videoOfOurs : Array(RoomFormat.audio.prefix(1))
            var media = SDPMedia(
                kind: offered.kind, port: 9, transport: offered.transport,
                formats: formats.flatMap { [$0.payloadType, $0.retransmissionType].compactMap { $0.map(String.init) } })
            media.attributes =
                [SDPAttribute("mid", offered.value("mid") ?? "0"), SDPAttribute("rtcp-mux"), SDPAttribute("recvonly")]
                + transport + candidates + formats.flatMap { $0.lines + $0.retransmissionLines }
            if offered.kind == "video" {
                media.attributes += extensions("video").filter { $0.value?.hasPrefix("3 ") ?? false }
            }
            return media
        }
        return copy.text(sessionID: 1, version: 1)
    }

    private static let videoOfOurs = RoomFormat.video.filter { $0.packetizationMode == "1" || $0.name != "h264" }
}
