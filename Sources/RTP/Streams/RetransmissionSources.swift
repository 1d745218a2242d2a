/// The media SSRC that each RTX SSRC repeats (RFC 4588 section 5.3), declared by the remote peer or learnt. A value.
package struct RetransmissionSources {
    private var declared: [UInt32: UInt32]
    private var media: [UInt32: UInt32]
    /// A remote peer may declare other streams with each description.
    private static let maximum = 256

    /// - Parameter declared: the media SSRC by RTX SSRC, of `a=ssrc-group:FID`.
    package init(declared: [UInt32: UInt32] = [:]) { (self.declared, media) = (declared, declared) }

    /// The remote peer declares other streams, or more; what was learnt of others stays.
    package mutating func declare(_ sources: [UInt32: UInt32]) {
        declared = sources
        media.merge(sources) { $1 }
        if media.count > Self.maximum { media = sources }
    }

    /// Another stream is shown. One that was not declared may have the RTX SSRC of the stream before it.
    package mutating func select(_ ssrc: UInt32) { media = declared.values.contains(ssrc) ? declared : [:] }

    /// False if this RTX stream is known to repeat another stream than `ssrc`.
    package func mayRepeat(_ ssrc: UInt32, rtx: UInt32) -> Bool { (media[rtx] ?? ssrc) == ssrc }

    package mutating func learn(_ ssrc: UInt32, rtx: UInt32) { media[rtx] = ssrc }
    package mutating func forget(rtx: UInt32) { media[rtx] = nil }
}
