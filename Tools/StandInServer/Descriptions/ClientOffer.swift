// An offer of a room's participant, and the room's answer to it, as LiveKit's servers write it: the announced codec first,
// all other codecs of the offer that the room allows behind it. Our own peer connection receives one codec; it gets the offer as `normalised`, and its answer contributes the transport.
import RTP
package import GStreamerKit
import WebRTCTransport

package struct ClientOffer {
    private let sdp: SDPDescription
    private let codecs: PublishedCodecs
    private let isSingle: Bool

    /// - Parameter isSingle: The connection serves both directions.
    package init(parsing text: String, _ codecs: PublishedCodecs, isSingle: Bool) throws {
        sdp = try SDPDescription(parsing: text)
        (self.codecs, self.isSingle) = (codecs, isSingle)
    }

    // MARK: For our peer connection

    /// The same offer with the preferred format in front, the full-size layer of a simulcast first, and rejected
    /// m-lines of port 0.
    package var normalised: String {
        var copy = sdp
        for index in copy.media.indices { normalise(&copy.media[index]) }
        return copy.text(sessionID: 1, version: 1)
    }

    private func normalise(_ media: inout SDPMedia) {
        guard ["audio", "video"].contains(media.kind), media.port != 0 else { return }
        guard let first = formats(of: media).first else { return media.port = 0 }
        let type = String(first.payloadType)
        media.formats = [type] + media.formats.filter { $0 != type }
        func replace(_ name: String, _ value: String) {
            media.attributes = media.attributes.map {
                $0.name == name && $0.value?.hasPrefix("\(type) ") == true ? SDPAttribute(name, "\(type) \(value)") : $0
            }
        }
        // Our decoder reads single NAL units as well.
        if first.name == "h264" { replace("fmtp", RoomFormat.h264(1)) }
        let layers = layers(of: media)
        guard !layers.isEmpty else { return }
        media.attributes = media.attributes.map {
            $0.name == "simulcast"
                ? SDPAttribute("simulcast", "send \(ranked(layers, of: media).joined(separator: ";"))") : $0
        }
    }

    // MARK: Codecs

    /// The formats of the answer, the announced codec first; empty: the room allows none of the m-line.
    private func formats(of media: SDPMedia) -> [RoomFormat] {
        let known = RoomFormat.ofServers(media.kind) + (media.kind == "video" ? [RoomFormat.highProfile] : [])
        let track = track(of: media)
        let announced = track.flatMap { codecs.announced[$0] } ?? codecs.preferred
        var formats = RoomFormat.all(in: media).filter { offered in
            codecs.allows(offered.name) && known.contains { $0.matches(offered) }
        }
        // Without Opus beside it, RED has nothing that could be carried. In front of it, it makes the client send it.
        if !formats.contains(where: { $0.name == "opus" }) { formats.removeAll { $0.name == "red" } }
        if sends(media), !(track.map(codecs.withoutRedundancy.contains) ?? false) {
            formats = formats.filter { $0.name == "red" } + formats.filter { $0.name != "red" }
        }
        if media.kind == "video" {
            // Codecs that cannot be decoded here go to the end; an m-line with no other codec is rejected.
            let usable = formats.filter { Self.decodable.contains($0.name) }
            guard !usable.isEmpty else { return [] }
            let preferred = usable.contains { $0.name == announced } ? announced : usable[0].name
            formats = formats.filter { $0.name == preferred } + formats.filter { $0.name != preferred }
        }
        return formats.map { format in
            var format = format
            format.feedback = format.feedback.filter(Self.feedback.contains)
            if !isSingle { format.feedback.removeAll { $0 == "goog-remb" } }
            if media.kind == "audio" { format.feedback = [] }
            if format.name == "opus", sends(media), let parameters = format.parameters, !parameters.contains("usedtx") {
                format.parameters = parameters + ";usedtx=1"
            }
            return format
        }
    }

    /// Looked up once: each m-line asks for its formats several times.
    private static let decodable = Set(VideoCodec.allCases.filter(\.isAvailable).map(\.rawValue))
    private static let feedback: Set<String> = ["goog-remb", "transport-cc", "ccm fir", "nack", "nack pli"]

    private func sends(_ media: SDPMedia) -> Bool { !media.has("recvonly") && !media.has("inactive") }

    /// The client's ID of the track of an m-line.
    private func track(of media: SDPMedia) -> String? {
        media.value("msid")?.split(separator: " ").last.map(String.init)
    }

    // MARK: Simulcast

    private func layers(of media: SDPMedia) -> [String] {
        guard let value = media.value("simulcast") else { return [] }
        let words = value.split(separator: " ")
        guard let at = words.firstIndex(of: "send"), at + 1 < words.count else { return [] }
        return words[at + 1].split(separator: ";").compactMap { $0.split(separator: ",").first.map(String.init) }
    }

    /// The layers with the full size first. LiveKit's clients name them f, h and q and write them in either order; others
    /// restrict their size (RFC 8851), or announce it.
    private func ranked(_ layers: [String], of media: SDPMedia) -> [String] {
        if layers.allSatisfy(Self.names.contains) { return Self.names.filter(layers.contains) }
        let sizes = layers.map { size(of: $0, in: media) }
        if sizes.allSatisfy({ $0 != nil }) {
            return zip(layers, sizes).sorted { ($0.1 ?? 0) > ($1.1 ?? 0) }.map(\.0)
        }
        let announced = track(of: media).flatMap { codecs.layers[$0] } ?? []
        return layers.allSatisfy(announced.contains) ? announced.filter(layers.contains) : layers
    }

    private static let names = ["f", "h", "q"]

    private func size(of layer: String, in media: SDPMedia) -> Int? {
        let line = media.values("rid").first { $0.hasPrefix("\(layer) send ") }
        let text = line.map { String($0.dropFirst(layer.count + 6)) } ?? ""
        let lengths = ["max-width", "max-height"].compactMap { RoomFormat.value(of: $0, in: text) }.compactMap {
            Int($0)
        }
        guard lengths.count == 2 else { return nil }
        return lengths[0].multipliedReportingOverflow(by: lengths[1]).partialValue
    }

    // MARK: The answer

    /// - Parameters:
    ///   - own: our peer connection's answer to the normalised offer; nil: it accepts nothing.
    ///   - streams: our streams by the mids of their m-lines.
    ///   - used: the m-lines that carry one of our tracks or have carried one.
    package func answer(
        own: SDPDescription?, streams: [String: OutputStream] = [:], used: Set<String> = []
    ) -> SDPDescription {
        let writer = ServerDescription(transport: own.flatMap(ServerDescription.Transport.init))
        let accepted = own?.media ?? []
        return writer.whole(
            sdp.media.enumerated().map { index, offered in
                line(offered, index < accepted.count ? accepted[index] : nil, writer, streams, used)
            })
    }

    private func line(
        _ media: SDPMedia, _ accepted: SDPMedia?, _ writer: ServerDescription, _ streams: [String: OutputStream],
        _ used: Set<String>
    ) -> SDPMedia {
        // An m-line on which the client only receives is accepted in any case.
        guard let accepted, accepted.port != 0 || media.port != 0 && !sends(media) else {
            return ServerDescription.rejected(media.kind)
        }
        let (formats, mid) = (formats(of: media), media.value("mid") ?? "")
        if media.kind == "application" { return writer.application(mid: mid) }
        guard !formats.isEmpty else { return ServerDescription.rejected(media.kind) }
        var rest = extensions(of: media)
        let layers = sends(media) ? layers(of: media) : []
        if !layers.isEmpty {
            rest += layers.map { SDPAttribute("rid", "\($0) recv") }
            rest.append(SDPAttribute("simulcast", "recv \(layers.joined(separator: ";"))"))
        }
        let stream = streams[mid]
        rest += stream?.lines ?? []
        let isSending = stream != nil || !used.contains(mid)
        rest.append(SDPAttribute(direction(of: media, isSending: isSending, isSpare: stream == nil)))
        return writer.media(media.kind, mid: mid, formats, groupsRetransmissions: true, rest)
    }

    /// Spare m-lines are answered as if we sent, as LiveKit's servers do.
    private func direction(of media: SDPMedia, isSending: Bool, isSpare: Bool) -> String {
        if media.has("inactive") { return "inactive" }
        if media.has("recvonly") { return isSingle && isSending ? "sendonly" : "inactive" }
        return media.has("sendonly") || isSpare ? "recvonly" : "sendrecv"
    }

    // MARK: Our tracks on a single connection

    /// The mids of the m-lines of this kind that can carry a track of ours.
    package func receivingMids(_ kind: String) -> [String] {
        sdp.media.filter {
            $0.kind == kind && $0.port != 0 && !$0.has("sendonly") && !$0.has("inactive") && !formats(of: $0).isEmpty
        }.compactMap { $0.value("mid") }
    }

    /// The formats of an m-line that carries a track of ours.
    func formats(at mid: String) -> [RoomFormat] { sdp.media.first { $0.value("mid") == mid }.map(formats) ?? [] }

    /// The payload type of a codec on an m-line; nil: the client does not take it.
    func payloadType(of codec: OutputCodec, at mid: String) -> Int? {
        codec.format(in: formats(at: mid))?.payloadType
    }

    /// The m-lines that the client sends, by its IDs of the tracks, each with the codec of its answer.
    package var published: [String: (mid: String, codec: String)] {
        sdp.media.filter { $0.port != 0 && sends($0) }.reduce(into: [:]) { found, media in
            guard let track = track(of: media), let mid = media.value("mid"), let format = formats(of: media).first
            else { return }
            found[track] = (mid, format.encoding.split(separator: "/").first.map(String.init) ?? format.name)
        }
    }

    /// The m-line that our candidates name.
    var firstMid: String? { sdp.media.first?.value("mid") }

    /// The kinds that the client sends.
    package var sentKinds: Set<String> { Set(sdp.media.filter { $0.port != 0 && sends($0) }.map(\.kind)) }

    private func extensions(of media: SDPMedia) -> [SDPAttribute] {
        let isSimulcast = !layers(of: media).isEmpty || isSingle || !sends(media)
        let sdes = "urn:ietf:params:rtp-hdrext:sdes:"
        var wanted: Set = [sdes + "mid"]
        if media.kind == "audio" {
            wanted.insert("urn:ietf:params:rtp-hdrext:ssrc-audio-level")
        } else {
            wanted.insert("http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01")
            if isSimulcast { wanted.formUnion([sdes + "rtp-stream-id", sdes + "repaired-rtp-stream-id"]) }
            if sends(media) { wanted.insert(ServerDescription.dependencyDescriptor) }
            if isSingle { wanted.insert("http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time") }
        }
        return media.values("extmap").filter { value in
            value.split(separator: " ").dropFirst().first.map { wanted.contains(String($0)) } ?? false
        }.map { SDPAttribute("extmap", $0) }
    }
}
