import Synchronization
package import RTP
import WebRTCTransport

/// Settings for the encoder of a media path.
package struct VideoSendSettings: Sendable {
    package var size: CurrentFrameSize
    package var framerate: Int
    /// Bitrate at the start, bit/s; congestion control sets it from then on.
    package var bitrate: Int
    /// The property `encoder`; empty: the default.
    package var encoder: String
    package var simulcast = false
    package var degradation = DegradationPreference.balanced

    package init(size: CurrentFrameSize, framerate: Int, bitrate: Int, encoder: String) {
        self.size = size
        self.framerate = framerate
        self.bitrate = bitrate
        self.encoder = encoder
    }

    /// Simulcast layers, highest resolution first; empty: one stream.
    package var layers: [SimulcastLayer] {
        guard simulcast else { return [] }
        let size = size.current
        return SimulcastLayer.layers(width: size.width, height: size.height)
    }

    package func allocation(of layers: [SimulcastLayer]) -> SimulcastAllocation {
        let size = size.current
        return SimulcastAllocation(layers, width: size.width, height: size.height, frameRate: Double(framerate))
    }
}

/// Size of the frames that are sent; it changes when the input's orientation or the transport becomes known.
package final class CurrentFrameSize: Sendable {
    private let value: Mutex<(width: Int, height: Int)>
    package init(width: Int, height: Int) { value = Mutex((width, height)) }
    package var current: (width: Int, height: Int) { value.withLock { $0 } }
    package func set(width: Int, height: Int) { value.withLock { $0 = (width, height) } }
}
