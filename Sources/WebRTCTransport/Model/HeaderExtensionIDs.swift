package struct HeaderExtensionIDs: Sendable, Equatable {
    package static let midURI = "urn:ietf:params:rtp-hdrext:sdes:mid"
    package static let absoluteSendTimeURI = "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time"
    /// The simulcast layer of a packet, and of the packet that an RTX packet repeats (RFC 8852).
    package static let ridURI = "urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id"
    package static let repairedRIDURI = "urn:ietf:params:rtp-hdrext:sdes:repaired-rtp-stream-id"
    package static let transportWideCCURI = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"

    package var mid: UInt8?
    package var absoluteSendTime: UInt8?
    package var transportWideCC: UInt8?
    package var rid: UInt8?
    package var repairedRID: UInt8?

    /// Parses `a=extmap` values, `id[/direction] uri`. IDs outside 1…14 cannot be one-byte extensions.
    package init(extmap values: [String] = []) {
        for value in values {
            let parts = value.split(separator: " ", maxSplits: 1)
            guard parts.count == 2, let id = UInt8(parts[0].split(separator: "/").first ?? ""), (1...14).contains(id)
            else { continue }
            switch parts[1].trimmedASCII.split(separator: " ").first.map(String.init) {
            case Self.midURI: mid = id
            case Self.absoluteSendTimeURI: absoluteSendTime = id
            case Self.transportWideCCURI: transportWideCC = id
            case Self.ridURI: rid = id
            case Self.repairedRIDURI: repairedRID = id
            default: break
            }
        }
    }

    package var extmap: [String] {
        [
            mid.map { "\($0) \(Self.midURI)" }, absoluteSendTime.map { "\($0) \(Self.absoluteSendTimeURI)" },
            transportWideCC.map { "\($0) \(Self.transportWideCCURI)" }, rid.map { "\($0) \(Self.ridURI)" },
            repairedRID.map { "\($0) \(Self.repairedRIDURI)" },
        ].compactMap { $0 }
    }
}
