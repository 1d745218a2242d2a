internal import CGStreamer

// @unchecked: the reference count is atomic, and only a buffer with a single reference is written to.
package final class Buffer: @unchecked Sendable {
    private var pointerStorage: UnsafeMutablePointer<GstBuffer>?

    init(taking pointer: UnsafeMutablePointer<GstBuffer>) { pointerStorage = pointer }
    init(borrowing pointer: UnsafeMutablePointer<GstBuffer>) {
        pointerStorage = decart_mini_object_ref(pointer).assumingMemoryBound(to: GstBuffer.self)
    }
    deinit { if let pointerStorage { decart_mini_object_unref(pointerStorage) } }

    package init(copying bytes: UnsafeRawBufferPointer) {
        let buffer = gst_buffer_new_allocate(nil, gsize(bytes.count), nil)
        if let base = bytes.baseAddress { gst_buffer_fill(buffer, 0, base, gsize(bytes.count)) }
        pointerStorage = buffer
    }

    package init(size: Int) { pointerStorage = gst_buffer_new_allocate(nil, gsize(max(0, size)), nil) }

    var pointer: UnsafeMutablePointer<GstBuffer>? { pointerStorage }

    /// The GstBuffer, for targets that call C on it themselves (tests create metas, the benchmark maps frames).
    package var raw: UnsafeMutableRawPointer? { pointerStorage.map { UnsafeMutableRawPointer($0) } }

    /// Gives up the reference, for a C call that takes ownership.
    func release() -> UnsafeMutablePointer<GstBuffer>? { pointerStorage.take() }

    package var size: Int { pointerStorage.map { Int(gst_buffer_get_size($0)) } ?? 0 }
    package var pts: ClockTime? {
        get { pointerStorage.flatMap { ClockTime(validating: $0.pointee.pts) } }
        set { pointerStorage?.pointee.pts = GstClockTime(newValue ?? .noneValue) }
    }
    package var dts: ClockTime? {
        get { pointerStorage.flatMap { ClockTime(validating: $0.pointee.dts) } }
        set { pointerStorage?.pointee.dts = GstClockTime(newValue ?? .noneValue) }
    }
    package var duration: ClockTime? {
        get { pointerStorage.flatMap { ClockTime(validating: $0.pointee.duration) } }
        set { pointerStorage?.pointee.duration = GstClockTime(newValue ?? .noneValue) }
    }
    package var isDiscontinuous: Bool {
        get { hasFlag(GST_BUFFER_FLAG_DISCONT) }
        set { setFlag(GST_BUFFER_FLAG_DISCONT, newValue) }
    }
    package var isDeltaUnit: Bool {
        get { hasFlag(GST_BUFFER_FLAG_DELTA_UNIT) }
        set { setFlag(GST_BUFFER_FLAG_DELTA_UNIT, newValue) }
    }
    package var isGap: Bool {
        get { hasFlag(GST_BUFFER_FLAG_GAP) }
        set { setFlag(GST_BUFFER_FLAG_GAP, newValue) }
    }

    /// The frame consists of two fields; upstream sets this for caps with `interlace-mode=mixed`.
    package var isInterlaced: Bool {
        get { hasFlag(Self.interlaced) }
        set { setFlag(Self.interlaced, newValue) }
    }
    private static let interlaced = GstBufferFlags(GST_VIDEO_BUFFER_FLAG_INTERLACED.rawValue)

    private func hasFlag(_ flag: GstBufferFlags) -> Bool {
        guard let pointerStorage else { return false }
        return pointerStorage.pointee.mini_object.flags & flag.rawValue != 0
    }
    private func setFlag(_ flag: GstBufferFlags, _ on: Bool) {
        guard let pointerStorage else { return }
        if on {
            pointerStorage.pointee.mini_object.flags |= flag.rawValue
        } else {
            pointerStorage.pointee.mini_object.flags &= ~flag.rawValue
        }
    }

    /// A shallow copy: it shares the memory, but has its own timestamps and flags.
    package func copyOfMetadata() -> Buffer? {
        guard let pointerStorage, let copy = gst_buffer_copy(pointerStorage) else { return nil }
        return Buffer(taking: copy)
    }

    /// Copies the bytes, without joining the buffer's memories first as `withBytes` does.
    /// - Returns: the number of bytes copied; fewer than `size` if there is no room.
    package func copyBytes(to target: UnsafeMutableRawBufferPointer) -> Int {
        guard let pointerStorage, let base = target.baseAddress else { return 0 }
        return Int(gst_buffer_extract(pointerStorage, 0, base, gsize(target.count)))
    }

    package func withBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R? {
        var info = GstMapInfo()
        guard let pointerStorage, gst_buffer_map(pointerStorage, &info, GST_MAP_READ) != 0 else { return nil }
        defer { gst_buffer_unmap(pointerStorage, &info) }
        return try body(UnsafeRawBufferPointer(start: info.data, count: Int(info.size)))
    }

    package func withMutableBytes<R>(_ body: (UnsafeMutableRawBufferPointer) throws -> R) rethrows -> R? {
        var info = GstMapInfo()
        guard let pointerStorage, gst_buffer_map(pointerStorage, &info, mapReadWrite) != 0 else { return nil }
        defer { gst_buffer_unmap(pointerStorage, &info) }
        return try body(UnsafeMutableRawBufferPointer(start: info.data, count: Int(info.size)))
    }
}

/// Defined here because GST_MAP_READWRITE is a macro that Swift cannot import.
let mapReadWrite = GstMapFlags(rawValue: GST_MAP_READ.rawValue | GST_MAP_WRITE.rawValue)
