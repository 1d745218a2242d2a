internal import CGStreamer

extension Element {
    /// Gives a payloader one of GStreamer's RTP header extensions; false when this installation has none for the URI.
    @discardableResult
    package func addRTPHeaderExtension(uri: String, id: Int) -> Bool {
        guard (1...14).contains(id), let found = gst_rtp_header_extension_create_from_uri(uri) else { return false }
        gst_rtp_header_extension_set_id(found, guint(id))
        let object = GObject(taking: UnsafeMutableRawPointer(found))
        emit("add-extension", [GValueBox(object: object)])
        return true
    }
}
