import DecartProtocol
import MediaPipeline
import RTP
import WebRTCTransport

/// Limits of the sent video, which the application may change while a session runs.
struct VideoLimits: Sendable {
    /// Frames a second.
    var framerate: Int
    /// bit/s.
    var bitrates: ClosedRange<Int>
    var startBitrate: Int
}

/// Settings of the media of one session, for one of the two transports.
struct MediaSettings: Sendable {
    var transport = MediaTransportKind.livekit
    var video: VideoSendSettings
    var connection: PeerConnectionConfiguration
    /// Access to a room.
    var servers: ServerAccess
    /// Time for joining a room.
    var openTimeout: Duration
    /// Size of the sent frames for this transport; `video.size` adapts to it, and to the input's orientation.
    var format: VideoFormat
    var followsReceived: Bool
    /// True for a viewer, which sends nothing.
    var isViewer = false
    /// The input is encoded like this, and there is no encoder; nil: raw frames.
    var encodedInput: EncodedVideoFormat?
    /// As in `RoomConfiguration.sharesScreen`.
    var sharesScreen = false
    /// As in `AudioSendParameters.isDiscontinuous`.
    var sendsAudioDiscontinuously = false
    /// Encoded frames leave the element, and there is no decoder; nil: raw frames.
    var encoding: EncodedOutput?
}

extension MediaSettings {
    /// Applies to the connections of later paths.
    mutating func take(_ limits: VideoLimits) {
        (video.framerate, video.bitrate) = (limits.framerate, limits.startBitrate)
        (connection.bitrateRange, connection.startBitrate) = (limits.bitrates, limits.startBitrate)
    }

    /// Negotiates the codec of an encoded side and no other one.
    func adapted(toInput format: EncodedVideoFormat?, output encoding: EncodedOutput?) -> MediaSettings {
        var settings = self
        (settings.encodedInput, settings.encoding) = (format, encoding)
        if let format {
            settings.connection.codec = format.codec
            if let profile = format.profile { settings.connection.h264 = .profile(profile) }
            (settings.video.simulcast, settings.connection.simulcast) = (false, [])
            // The application's encoder follows a low start too late.
            if settings.connection.adaptsBitrate { settings.connection.startBitrate = nil }
        } else if let encoding, !encoding.codecs.contains(connection.codec), let first = encoding.codecs.first {
            settings.connection.codec = first
        }
        settings.connection.receivableCodecs = Set(settings.receivableCodecs)
        // No decoder is used, so ignore which ones are installed.
        if encoding != nil {
            settings.connection.usableCodecs = [settings.connection.codec]
            // A depayloader alone does not keep the network thread.
            settings.connection.pushesVideoOnNetworkThread = true
        }
        return settings
    }

    /// The codecs that the service may send.
    var receivableCodecs: [VideoCodec] { encoding?.codecs ?? VideoCodec.receivable }

    /// By encoding name: why a codec cannot be received, or which packages decode it, as the end of a sentence.
    var remedies: [String: String] {
        let received = receivableCodecs
        return VideoCodec.allCases.filter { !received.contains($0) }.reduce(into: [:]) { remedies, codec in
            let name = codec.encodingName
            remedies[name] =
                encoding != nil
                ? "the caps behind the element do not allow it" : VideoCodec.decoderPackages(ofEncodings: [name])
        }
    }

    /// The codec that the service should send: that of our video, unless it must be decoded and cannot.
    var receivedCodec: VideoCodec {
        let own = connection.codec
        return encoding != nil || own.isDecodable ? own : VideoCodec.decodable.first ?? own
    }
}
