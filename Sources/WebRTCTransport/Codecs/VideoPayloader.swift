import RTP
package import GStreamerKit

package enum VideoPayloader {
    package static func make(_ parameters: RTPSendParameters) throws(GStreamerError) -> Element {
        let payloader = try Element(factory: parameters.codec.payloader)
        payloader.set("pt", parameters.payloadType)
        payloader.set("ssrc", Int(parameters.ssrc))
        payloader.set("mtu", parameters.mtu)
        // Start in the lower half: a lost packet at the wrap would desynchronise the SRTP rollover counter (RFC 3711
        // 3.3.1).
        payloader.set("seqnum-offset", Int.random(in: 0..<32768))
        payloader.set("picture-id-mode", "15-bit")
        payloader.set("aggregate-mode", "zero-latency")
        if let id = parameters.transportWideCCExtension {
            payloader.addRTPHeaderExtension(uri: HeaderExtensionIDs.transportWideCCURI, id: id)
        }
        payloader.staticPad("src")?.addProbe(.upstreamEvent) { [owner = payloader.unowned] item in
            guard case .event(let event) = item, ShortPackets.isRequested(by: event) else { return .pass }
            owner.set("mtu", RTPSendParameters.shortMTU)
            return .drop
        }
        return payloader
    }
}
