/// A video m-line of a remote description that we use.
package struct RemoteVideo: Sendable {
    package var mediaIndex: Int
    package var mid: String
    package var codec: NegotiatedCodec
    /// Further codecs that we can use.
    package var alternatives: [NegotiatedCodec]
    package var extensions: HeaderExtensionIDs
    package var direction: MediaDirection
    /// SSRCs that the remote peer declares; it need not declare any.
    package var ssrcs: [UInt32]
    /// The media SSRC that each RTX SSRC repeats, of `a=ssrc-group:FID` (RFC 5576 4.2).
    package var rtxSSRCs: [UInt32: UInt32]
    /// RIDs of the simulcast layers that the remote peer sends or would receive, highest resolution first (RFC 8853).
    package var sentLayers: [String]
    package var receivedLayers: [String]
}

/// An audio m-line of a remote description that we use: Opus (RFC 7587) at this payload type.
package struct RemoteAudio: Sendable {
    package var mediaIndex: Int
    package var mid: String
    package var payloadType: Int
    package var extensions: HeaderExtensionIDs
    package var direction: MediaDirection
    package var ssrcs: [UInt32]
}
