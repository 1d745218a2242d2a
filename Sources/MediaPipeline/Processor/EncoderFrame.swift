package import GStreamerKit
package import RTP
import WebRTCTransport

/// A raw frame for the encoder, or an encoded one for the payloader.
package struct EncoderFrame: Sendable {
    package let buffer: Buffer
    /// Size of this frame; the geometry may change between two frames.
    package let size: (width: Int, height: Int)
    /// The gate gives a frame its time when it admits it.
    package var runningTime: ClockTime?
    /// nil: a raw frame.
    package var encoded: EncodedFrameInfo?

    /// Caps of raw frames.
    static func caps(width: Int, height: Int) -> String { caps + ", width=(int)\(width), height=(int)\(height)" }

    /// The same for any size.
    static let caps = "video/x-raw, format=(string)I420, colorimetry=(string)bt601, pixel-aspect-ratio=(fraction)1/1"
}

/// Facts of an encoded frame on its way to the connections.
package struct EncodedFrameInfo: Sendable {
    package let codec: VideoCodec
    package let isKeyframe: Bool
    /// Counts the input's frames, so that a consumer sees if one is missing.
    package let sequence: UInt64
}
