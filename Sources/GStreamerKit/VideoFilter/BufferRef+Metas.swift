internal import CGStreamer

/// A writable buffer on loan: valid only during the call that lent it, and without a reference, for that would make it
/// a shared one.
package struct BufferRef {
    private let pointer: UnsafeMutablePointer<GstBuffer>
    init(_ pointer: UnsafeMutablePointer<GstBuffer>) { self.pointer = pointer }
}

/// What a flip does to a picture.
package enum Flip: Sendable, Equatable { case leftToRight, topToBottom }

enum MetaTag {
    case memory, memoryReference, orientation

    private static let memoryQuark = g_quark_from_static_string("memory")
    private static let memoryReferenceQuark = g_quark_from_static_string("memory-reference")
    private static let orientationQuark = g_quark_from_static_string("orientation")

    func isOn(_ api: GType) -> Bool {
        let quark =
            switch self {
            case .memory: Self.memoryQuark
            case .memoryReference: Self.memoryReferenceQuark
            case .orientation: Self.orientationQuark
            }
        return gst_meta_api_type_has_tag(api, quark) != 0
    }
}

private struct FlippedPicture {
    let flip: Flip
    let width: Int
    let height: Int

    /// Where the rectangle is after the flip. One that sticks out of the picture ends at its edge.
    func move(x: inout UInt32, y: inout UInt32, width: UInt32, height: UInt32) {
        switch flip {
        case .leftToRight: x = UInt32(clamping: self.width &- Int(x) &- Int(width))
        case .topToBottom: y = UInt32(clamping: self.height &- Int(y) &- Int(height))
        }
    }
}

extension BufferRef {
    /// Crops and regions of interest move with the picture; any other meta that depends on its orientation is dropped.
    package func flipMetas(_ flip: Flip, size: (width: Int, height: Int)) {
        var picture = FlippedPicture(flip: flip, width: size.width, height: size.height)
        gst_buffer_foreach_meta(
            pointer,
            { _, slot, data in
                guard let slot, let meta = slot.pointee, let info = meta.pointee.info, let data else { return 1 }
                let picture = data.assumingMemoryBound(to: FlippedPicture.self).pointee
                let raw = UnsafeMutableRawPointer(meta)
                switch info.pointee.api {
                case gst_video_crop_meta_api_get_type():
                    let crop = raw.assumingMemoryBound(to: GstVideoCropMeta.self)
                    picture.move(
                        x: &crop.pointee.x, y: &crop.pointee.y, width: crop.pointee.width, height: crop.pointee.height)
                case gst_video_region_of_interest_meta_api_get_type():
                    let region = raw.assumingMemoryBound(to: GstVideoRegionOfInterestMeta.self)
                    picture.move(
                        x: &region.pointee.x, y: &region.pointee.y, width: region.pointee.w, height: region.pointee.h)
                case let api where MetaTag.orientation.isOn(api):
                    // A pool's own metas cannot be taken from its buffers.
                    let fixed = GST_META_FLAG_LOCKED.rawValue | GST_META_FLAG_POOLED.rawValue
                    if meta.pointee.flags.rawValue & fixed == 0 { slot.pointee = nil }
                default: break
                }
                return 1
            }, &picture)
    }
}
