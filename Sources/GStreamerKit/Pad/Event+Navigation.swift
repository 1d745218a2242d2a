internal import CGStreamer

extension Event {
    /// Maps the pointer position of a navigation event (mouse or touch) back to the frame before the flip. Returns any
    /// other event unchanged.
    package func beforeFlip(_ flip: Flip, size: (width: Int, height: Int)) -> Event {
        var (x, y) = (0.0, 0.0)
        guard kind == .navigation, gst_navigation_event_get_coordinates(pointer, &x, &y) != 0,
            let copy = gst_event_copy(pointer)
        else { return self }
        switch flip {
        case .leftToRight: x = Double(size.width) - x
        case .topToBottom: y = Double(size.height) - y
        }
        gst_navigation_event_set_coordinates(copy, x, y)
        return Event(taking: copy)
    }
}
