// Session descriptions (RFC 8866) as plain values, parsed and written with gstsdp. This file knows lines and
// attributes, and nothing of WebRTC.
internal import CGStreamer

package struct SDPAttribute: Sendable, Equatable {
    package var name: String
    package var value: String?
    package init(_ name: String, _ value: String? = nil) {
        self.name = name
        self.value = value
    }

    /// False if a CR or LF in the name or value would start a new SDP line: gstsdp does not escape them.
    var isOneLine: Bool { !(name + (value ?? "")).utf8.contains { $0 == 10 || $0 == 13 } }
}

package struct SDPMedia: Sendable, Equatable {
    package var kind: String
    package var port: Int
    package var transport: String
    package var formats: [String]
    package var attributes: [SDPAttribute] = []

    package init(kind: String, port: Int, transport: String, formats: [String]) {
        self.kind = kind
        self.port = port
        self.transport = transport
        self.formats = formats
    }

    package func values(_ name: String) -> [String] { attributes.filter { $0.name == name }.compactMap(\.value) }
    package func value(_ name: String) -> String? { values(name).first }
    package func has(_ name: String) -> Bool { attributes.contains { $0.name == name } }
}

package struct SDPDescription: Sendable, Equatable {
    package var attributes: [SDPAttribute] = []
    package var media: [SDPMedia] = []

    package init() {}

    package func values(_ name: String) -> [String] { attributes.filter { $0.name == name }.compactMap(\.value) }
    package func has(_ name: String) -> Bool { attributes.contains { $0.name == name } }

    /// Throws if the text exceeds 64 KiB or 64 m-lines: a remote peer wrote it.
    package init(parsing text: String) throws(GStreamerError) {
        guard !text.isEmpty, text.utf8.count <= 65_536, !text.utf8.contains(0) else {
            throw GStreamerError(.badSDP, "the session description is empty, larger than 64 KiB, or holds a NUL")
        }
        guard let message = kit_sdp_message_new() else { throw GStreamerError(.badSDP, "out of memory") }
        defer { gst_sdp_message_free(message) }
        let bytes = Array(text.utf8)
        let parsed = bytes.withUnsafeBufferPointer {
            gst_sdp_message_parse_buffer($0.baseAddress, guint($0.count), message)
        }
        guard parsed == GST_SDP_OK, text.hasPrefix("v=0") else {
            throw GStreamerError(.badSDP, "the text is not a session description")
        }
        let count = gst_sdp_message_medias_len(message)
        guard count <= 64 else { throw GStreamerError(.badSDP, "the session description has more than 64 m-lines") }
        for index in 0..<gst_sdp_message_attributes_len(message) {
            if let attribute = gst_sdp_message_get_attribute(message, index) { attributes.append(Self.read(attribute)) }
        }
        for index in 0..<count {
            if let found = gst_sdp_message_get_media(message, index) { media.append(Self.read(found)) }
        }
    }

    private static func read(_ attribute: UnsafePointer<GstSDPAttribute>) -> SDPAttribute {
        SDPAttribute(
            attribute.pointee.key.map { String(cString: $0) } ?? "", attribute.pointee.value.map { String(cString: $0) }
        )
    }

    private static func read(_ found: UnsafePointer<GstSDPMedia>) -> SDPMedia {
        var media = SDPMedia(
            kind: gst_sdp_media_get_media(found).map { String(cString: $0) } ?? "",
            port: Int(gst_sdp_media_get_port(found)),
            transport: gst_sdp_media_get_proto(found).map { String(cString: $0) } ?? "", formats: [])
        for index in 0..<gst_sdp_media_formats_len(found) {
            if let format = gst_sdp_media_get_format(found, index) { media.formats.append(String(cString: format)) }
        }
        for index in 0..<gst_sdp_media_attributes_len(found) {
            if let attribute = gst_sdp_media_get_attribute(found, index) { media.attributes.append(read(attribute)) }
        }
        return media
    }

    /// Serialises the description, with the origin line that JSEP requires (RFC 9429 §5.2.1).
    package func text(sessionID: UInt64, version: UInt32) -> String {
        guard let message = kit_sdp_message_new() else { return "" }
        defer { gst_sdp_message_free(message) }
        gst_sdp_message_set_version(message, "0")
        gst_sdp_message_set_origin(message, "-", String(sessionID), String(version), "IN", "IP4", "127.0.0.1")
        gst_sdp_message_set_session_name(message, "-")
        gst_sdp_message_add_time(message, "0", "0", nil)
        for attribute in attributes where attribute.isOneLine {
            gst_sdp_message_add_attribute(message, attribute.name, attribute.value)
        }
        for media in media {
            var made: UnsafeMutablePointer<GstSDPMedia>?
            guard gst_sdp_media_new(&made) == GST_SDP_OK, let made else { continue }
            gst_sdp_media_set_media(made, media.kind)
            gst_sdp_media_set_port_info(made, guint(UInt16(clamping: media.port)), 1)
            gst_sdp_media_set_proto(made, media.transport)
            for format in media.formats { gst_sdp_media_add_format(made, format) }
            gst_sdp_media_add_connection(made, "IN", "IP4", "0.0.0.0", 0, 0)
            for attribute in media.attributes where attribute.isOneLine {
                gst_sdp_media_add_attribute(made, attribute.name, attribute.value)
            }
            // The message takes over the media's fields; only the emptied struct is left to free.
            gst_sdp_message_add_media(message, made)
            gst_sdp_media_free(made)
        }
        return String(taking: gst_sdp_message_as_text(message))
    }
}
