internal import CGStreamer

extension Element {
    /// Adds one of GStreamer's RTP header extensions to a payloader. Returns false if none is installed for the URI.
    @discardableResult
    package func addRTPHeaderExtension(uri: String, id: Int) -> Bool {
        guard (1...14).contains(id), let found = gst_rtp_header_extension_create_from_uri(uri) else { return false }
        gst_rtp_header_extension_set_id(found, guint(id))
        let object = GObject(taking: UnsafeMutableRawPointer(found))
        emit("add-extension", [GValueBox(object: object)])
        return true
    }
}
