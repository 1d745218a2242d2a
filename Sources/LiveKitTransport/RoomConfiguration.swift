package import RTP
import WebRTCTransport

/// Media to publish, and participants to subscribe to.
package struct RoomConfiguration: Sendable, Equatable {
    /// Client IDs (`cid`) of our tracks, as in the offer's `msid`.
    package var trackID = "camera"
    package var audioTrackID = "microphone"
    /// Our video is announced as the share of a screen, not as a camera.
    package var sharesScreen = false
    package var width: Int
    package var height: Int
    /// Maximum, bit/s.
    package var bitrate: Int
    /// The codec to publish, if the room allows it.
    package var codec: VideoCodec
    /// Further codecs that we can send, in order of preference.
    package var encodable: [VideoCodec] = []
    /// Codecs that we can receive.
    package var receivable: [VideoCodec] = []
    /// By encoding name: why a codec cannot be received, or which packages decode it, as the end of a sentence; absent:
    /// not known.
    package var remedies: [String: String] = [:]
    /// The application gives the input encoded, in `codec`.
    package var isInputEncoded = false
    /// Simulcast layers, highest resolution first, each with its maximum bitrate; empty: one stream.
    package var layers: [Layer] = []
    /// Joins with one peer connection for both directions, and with two if the server does not know that.
    package var prefersOneConnection = true
    /// False for a viewer, which announces no track and has no publisher connection.
    package var publishes = true
    /// Announces our video with time and number of each frame in a trailer, and asks for such trailers of the others.
    package var usesTrailers = false

    package struct Layer: Sendable, Equatable {
        package var rid: String
        package var width: Int
        package var height: Int
        /// Maximum, bit/s.
        package var bitrate: Int

        package init(rid: String, width: Int, height: Int, bitrate: Int) {
            (self.rid, self.width, self.height, self.bitrate) = (rid, width, height, bitrate)
        }
    }

    package init(width: Int, height: Int, bitrate: Int, codec: VideoCodec) {
        (self.width, self.height, self.bitrate, self.codec) = (width, height, bitrate, codec)
    }
}
