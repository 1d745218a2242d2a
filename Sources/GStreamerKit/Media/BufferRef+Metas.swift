internal import CGStreamer

/// A borrowed writable buffer, valid only during the call that provides it. It holds no reference, because a second
/// reference would make the buffer unwritable.
public struct BufferRef {
    private let pointer: UnsafeMutablePointer<GstBuffer>
    init(_ pointer: UnsafeMutablePointer<GstBuffer>) { self.pointer = pointer }
}

/// A flip of the frame's columns or rows.
package enum Flip: Sendable, Equatable { case leftToRight, topToBottom }

struct MetaTag {
    static let memory = MetaTag("memory")
    static let memoryReference = MetaTag("memory-reference")
    static let orientation = MetaTag("orientation")
    private let quark: GQuark

    // GLib copies the name: a Swift literal may be on the stack during the call only.
    private init(_ name: String) { quark = g_quark_from_string(name) }

    func isOn(_ api: GType) -> Bool { gst_meta_api_type_has_tag(api, quark) != 0 }
}

private struct FlippedFrame {
    let flip: Flip
    let width: Int
    let height: Int

    /// Moves a rectangle to its place after the flip. Clamps a coordinate that would become negative to zero.
    func move(x: inout UInt32, y: inout UInt32, width: UInt32, height: UInt32) {
        switch flip {
        case .leftToRight: x = UInt32(clamping: self.width &- Int(x) &- Int(width))
        case .topToBottom: y = UInt32(clamping: self.height &- Int(y) &- Int(height))
        }
    }
}

extension BufferRef {
    /// Moves crop and region-of-interest metas with the flipped frame, and drops any other meta that depends on
    /// orientation.
    package func flipMetas(_ flip: Flip, size: (width: Int, height: Int)) {
        var frame = FlippedFrame(flip: flip, width: size.width, height: size.height)
        gst_buffer_foreach_meta(
            pointer,
            { _, slot, data in
                guard let slot, let meta = slot.pointee, let info = meta.pointee.info, let data else { return 1 }
                let frame = data.assumingMemoryBound(to: FlippedFrame.self).pointee
                let raw = UnsafeMutableRawPointer(meta)
                switch info.pointee.api {
                case gst_video_crop_meta_api_get_type():
                    let crop = raw.assumingMemoryBound(to: GstVideoCropMeta.self)
                    frame.move(
                        x: &crop.pointee.x, y: &crop.pointee.y, width: crop.pointee.width, height: crop.pointee.height)
                case gst_video_region_of_interest_meta_api_get_type():
                    let region = raw.assumingMemoryBound(to: GstVideoRegionOfInterestMeta.self)
                    frame.move(
                        x: &region.pointee.x, y: &region.pointee.y, width: region.pointee.w, height: region.pointee.h)
                case let api where MetaTag.orientation.isOn(api):
                    // Metas that the buffer pool owns cannot be removed from a buffer.
                    let fixed = GST_META_FLAG_LOCKED.rawValue | GST_META_FLAG_POOLED.rawValue
                    if meta.pointee.flags.rawValue & fixed == 0 { slot.pointee = nil }
                default: break
                }
                return 1
            }, &frame)
    }
}
