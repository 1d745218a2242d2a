package import GStreamerKit

extension ByteMeta {
    /// The trailer of a raw frame, or of an encoded one whose bytes have none (`FrameTrailer`).
    package static let trailer = ByteMeta(name: "GstDecartFrameTrailer")
}
