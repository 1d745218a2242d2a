internal import CGStreamer

extension Event {
    /// The same pointer position (mouse or touch) on the picture before it was flipped; any other event as it is.
    package func beforeFlip(_ flip: Flip, size: (width: Int, height: Int)) -> Event {
        var (x, y) = (0.0, 0.0)
        guard kind == .navigation, gst_navigation_event_get_coordinates(pointer, &x, &y) != 0,
            let copy = decart_event_copy(pointer)
        else { return self }
        switch flip {
        case .leftToRight: x = Double(size.width) - x
        case .topToBottom: y = Double(size.height) - y
        }
        gst_navigation_event_set_coordinates(copy, x, y)
        return Event(taking: copy)
    }
}
