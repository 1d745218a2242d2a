internal import CGStreamer

extension Pad {
    /// The element that produces the data of this sink pad; nil if an element on the way has several inputs or none is
    /// linked. Looks through bins.
    package var upstreamSource: Element? {
        var next = peer
        // No chain of elements is that long, and a loop of elements ends here.
        for _ in 0..<1_000 {
            guard let pad = next else { return nil }
            let links = pad.internalLinks
            guard let link = links.first else { return pad.parentElement }
            guard links.count == 1 else { return nil }
            next = link.peer
        }
        return nil
    }

    private var parentElement: Element? { gst_pad_get_parent_element(pad).map { Element(taking: $0) } }

    /// The pads of the same element that this pad's data comes from or goes to; for a ghost pad, its inner side.
    private var internalLinks: [Pad] {
        guard let iterator = gst_pad_iterate_internal_links(pad) else { return [] }
        defer { gst_iterator_free(iterator) }
        var found: [Pad] = []
        var value = GValue()
        g_value_init(&value, gst_pad_get_type())
        defer { g_value_unset(&value) }
        while true {
            switch gst_iterator_next(iterator, &value) {
            case GST_ITERATOR_OK:
                if let object = g_value_get_object(&value) { found.append(Pad(taking: g_object_ref(object))) }
                g_value_reset(&value)
            case GST_ITERATOR_RESYNC:
                found.removeAll()
                gst_iterator_resync(iterator)
            default: return found
            }
        }
    }
}
