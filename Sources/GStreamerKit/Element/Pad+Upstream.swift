internal import CGStreamer

extension Pad {
    /// The element that produces the data of this sink pad; nil if an element on the way has several inputs or none is
    /// linked. Looks through bins.
    package var upstreamSource: Element? {
        upstream { pad, links in links.isEmpty ? pad.parentElement : nil }
    }

    /// The data of this sink pad comes from an element of one of these factories, through any elements with one input.
    package func isBehind(_ factories: Set<String>) -> Bool {
        upstream { pad, _ in (pad.parentElement?.factoryName).flatMap { factories.contains($0) ? true : nil } } ?? false
    }

    /// Goes upstream until `find` returns something. It gets each source pad on the way, with the pads that its data comes
    /// from, and none behind an element with several inputs.
    private func upstream<Found>(_ find: (Pad, [Pad]) -> Found?) -> Found? {
        var next = peer
        // No chain of elements is that long, and a loop of elements ends here.
        for _ in 0..<1_000 {
            guard let pad = next else { return nil }
            let links = pad.internalLinks
            if let found = find(pad, links) { return found }
            guard links.count == 1 else { return nil }
            next = links[0].peer
        }
        return nil
    }

    /// The data comes from a source that cannot go back in it: from another program, through a pipe, a FIFO or a
    /// connection.
    package var isBehindPipe: Bool {
        guard let source = upstreamSource, let name = source.factoryName,
            ["fdsrc", "filesrc", "tcpclientsrc", "tcpserversrc", "shmsrc"].contains(name)
        else { return false }
        return !source.canSeek
    }

    private var parentElement: Element? { gst_pad_get_parent_element(pad).map { Element(taking: $0) } }

    /// The pads of the same element that this pad's data comes from or goes to; for a ghost pad, its inner side.
    private var internalLinks: [Pad] { GObject.all(of: gst_pad_iterate_internal_links(pad)) { Pad(borrowing: $0) } }
}

extension Element {
    /// A source that can begin again anywhere in its bytes.
    fileprivate var canSeek: Bool {
        guard let query = gst_query_new_seeking(GST_FORMAT_BYTES) else { return false }
        defer { kit_mini_object_unref(query) }
        var canSeek: gboolean = 0
        guard gst_element_query(element, query) != 0 else { return false }
        gst_query_parse_seeking(query, nil, &canSeek, nil, nil)
        return canSeek != 0
    }
}
