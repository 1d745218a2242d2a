internal import CGStreamer

/// A buffer of GStreamer, with one reference. It may be written to only while nothing else refers to it.
// @unchecked: the reference count is atomic, and only a buffer with a single reference is written to.
public final class Buffer: @unchecked Sendable {
    private(set) var pointer: UnsafeMutablePointer<GstBuffer>?

    init(taking pointer: UnsafeMutablePointer<GstBuffer>) { self.pointer = pointer }
    init(borrowing pointer: UnsafeMutablePointer<GstBuffer>) {
        self.pointer = kit_mini_object_ref(pointer).assumingMemoryBound(to: GstBuffer.self)
    }
    deinit { if let pointer { kit_mini_object_unref(pointer) } }

    /// A buffer with a copy of the bytes.
    public init(copying bytes: UnsafeRawBufferPointer) {
        let buffer = gst_buffer_new_allocate(nil, gsize(bytes.count), nil)
        if let base = bytes.baseAddress { gst_buffer_fill(buffer, 0, base, gsize(bytes.count)) }
        pointer = buffer
    }

    /// A buffer of so many bytes, whose content is undefined.
    public init(size: Int) { pointer = gst_buffer_new_allocate(nil, gsize(max(0, size)), nil) }

    /// The GstBuffer, for targets that call C on it themselves (tests create metas, the benchmark maps frames).
    public var raw: UnsafeMutableRawPointer? { pointer.map { UnsafeMutableRawPointer($0) } }

    /// Gives up the reference, for a C call that takes ownership.
    func release() -> UnsafeMutablePointer<GstBuffer>? { pointer.take() }

    /// The number of bytes.
    public var size: Int { pointer.map { Int(gst_buffer_get_size($0)) } ?? 0 }
    /// When it is presented, ns in the time of its segment; nil: unknown.
    public var pts: ClockTime? {
        get { pointer.flatMap { ClockTime(validating: $0.pointee.pts) } }
        set { pointer?.pointee.pts = GstClockTime(newValue ?? .noneValue) }
    }
    /// When it is decoded, ns in the time of its segment; nil: unknown.
    public var dts: ClockTime? {
        get { pointer.flatMap { ClockTime(validating: $0.pointee.dts) } }
        set { pointer?.pointee.dts = GstClockTime(newValue ?? .noneValue) }
    }
    /// How long it lasts, ns; nil: unknown.
    public var duration: ClockTime? {
        get { pointer.flatMap { ClockTime(validating: $0.pointee.duration) } }
        set { pointer?.pointee.duration = GstClockTime(newValue ?? .noneValue) }
    }
    /// Data are missing in front of it (DISCONT).
    public var isDiscontinuous: Bool {
        get { hasFlag(GST_BUFFER_FLAG_DISCONT) }
        set { setFlag(GST_BUFFER_FLAG_DISCONT, newValue) }
    }
    /// It cannot be decoded by itself (DELTA_UNIT).
    public var isDeltaUnit: Bool {
        get { hasFlag(GST_BUFFER_FLAG_DELTA_UNIT) }
        set { setFlag(GST_BUFFER_FLAG_DELTA_UNIT, newValue) }
    }
    /// It holds nothing to be shown or heard (GAP).
    public var isGap: Bool {
        get { hasFlag(GST_BUFFER_FLAG_GAP) }
        set { setFlag(GST_BUFFER_FLAG_GAP, newValue) }
    }

    /// The frame consists of two fields; upstream sets this for caps with `interlace-mode=mixed`.
    public var isInterlaced: Bool {
        get { hasFlag(Self.interlaced) }
        set { setFlag(Self.interlaced, newValue) }
    }
    private static let interlaced = GstBufferFlags(GST_VIDEO_BUFFER_FLAG_INTERLACED.rawValue)

    private func hasFlag(_ flag: GstBufferFlags) -> Bool {
        guard let pointer else { return false }
        return pointer.pointee.mini_object.flags & flag.rawValue != 0
    }
    private func setFlag(_ flag: GstBufferFlags, _ on: Bool) {
        guard let pointer else { return }
        if on {
            pointer.pointee.mini_object.flags |= flag.rawValue
        } else {
            pointer.pointee.mini_object.flags &= ~flag.rawValue
        }
    }

    /// A copy with memory of its own; nil if this buffer's cannot be copied.
    package func deepCopy() -> Buffer? { pointer.flatMap { gst_buffer_copy_deep($0) }.map(Buffer.init(taking:)) }

    /// A shallow copy: it shares the memory, but has its own timestamps and flags.
    public func copyOfMetadata() -> Buffer? {
        guard let pointer, let copy = gst_buffer_copy(pointer) else { return nil }
        return Buffer(taking: copy)
    }

    /// A copy without GstVideoCropMeta; nil if the frame has none. Elements trust its margins, and some read behind the
    /// frame where they lie outside of it.
    package func withoutCropping() -> Buffer? {
        guard let pointer, gst_buffer_get_meta(pointer, gst_video_crop_meta_api_get_type()) != nil else { return nil }
        guard let copy = copyOfMetadata() else { return nil }
        while let meta = copy.pointer.flatMap({ gst_buffer_get_meta($0, gst_video_crop_meta_api_get_type()) }) {
            guard gst_buffer_remove_meta(copy.pointer, meta) != 0 else { break }
        }
        return copy
    }

    /// Copies the bytes, without joining the buffer's memories first as `withBytes` does.
    /// - Returns: the number of bytes copied; fewer than `size` if there is no room.
    public func copyBytes(to target: UnsafeMutableRawBufferPointer) -> Int {
        guard let pointer, let base = target.baseAddress else { return 0 }
        return Int(gst_buffer_extract(pointer, 0, base, gsize(target.count)))
    }

    private static let readableMemories: [String] = ["SystemMemory", "dmabuf", "fd", "shm"]
    /// False if the memory cannot be mapped. The memory of the system and of drivers counts as readable without a try.
    package var isReadable: Bool {
        guard let pointer else { return false }
        return (0..<gst_buffer_n_memory(pointer)).allSatisfy { index in
            guard let memory = gst_buffer_peek_memory(pointer, index) else { return false }
            if Self.readableMemories.contains(where: { gst_memory_is_type(memory, $0) != 0 }) { return true }
            var info = GstMapInfo()
            guard gst_memory_map(memory, &info, GST_MAP_READ) != 0 else { return false }
            gst_memory_unmap(memory, &info)
            return true
        }
    }

    /// Has the description without which audio of separate channels cannot be read.
    package var hasAudioMeta: Bool {
        // The type exists once GStreamer's audio library has made such a meta.
        let kind = g_type_from_name("GstAudioMetaAPI")
        return kind != 0 && pointer.map { gst_buffer_get_meta($0, kind) != nil } ?? false
    }

    /// Lends the bytes during the call; nil: they cannot be mapped.
    public func withBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R? {
        var info = GstMapInfo()
        guard let pointer, gst_buffer_map(pointer, &info, GST_MAP_READ) != 0 else { return nil }
        defer { gst_buffer_unmap(pointer, &info) }
        return try body(UnsafeRawBufferPointer(start: info.data, count: Int(info.size)))
    }

    /// Lends the bytes for writing during the call; nil: they cannot be mapped, or others refer to them.
    public func withMutableBytes<R>(_ body: (UnsafeMutableRawBufferPointer) throws -> R) rethrows -> R? {
        var info = GstMapInfo()
        guard let pointer, gst_buffer_map(pointer, &info, mapReadWrite) != 0 else { return nil }
        defer { gst_buffer_unmap(pointer, &info) }
        return try body(UnsafeMutableRawBufferPointer(start: info.data, count: Int(info.size)))
    }
}

/// Defined here because GST_MAP_READWRITE is a macro that Swift cannot import.
let mapReadWrite = GstMapFlags(rawValue: GST_MAP_READ.rawValue | GST_MAP_WRITE.rawValue)
