/// The payload type of redundant audio, and that of the packets in it.
package struct AudioRedundancy: Sendable, Equatable {
    package var payloadType: Int
    package var mediaType: Int
    /// The remote peer names it in front of the media, and wants our descriptions to have its order (RFC 3264 6.1).
    package var comesFirst = false

    package init(payloadType: Int, mediaType: Int) {
        (self.payloadType, self.mediaType) = (payloadType, mediaType)
    }
}
