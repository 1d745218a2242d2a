package struct HeaderExtensionIDs: Sendable, Equatable {
    package static let transportWideCCURI = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"

    package var mid: UInt8?
    package var absoluteSendTime: UInt8?
    package var transportWideCC: UInt8?
    /// The simulcast layer of a packet, and of the packet that an RTX packet repeats (RFC 8852).
    package var rid: UInt8?
    package var repairedRID: UInt8?
    /// Extensions that we accept and skip, because libwebrtc's answers accept them: the time of capture at the sender, and the
    /// structure of a stream with layers, which nothing here needs to choose.
    package var absoluteCaptureTime: UInt8?
    package var dependencyDescriptor: UInt8?

    /// In the order of our descriptions.
    private static let all: [(id: any WritableKeyPath<Self, UInt8?> & Sendable, uri: String)] = [
        (\.mid, "urn:ietf:params:rtp-hdrext:sdes:mid"),
        (\.absoluteSendTime, "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time"),
        (\.transportWideCC, transportWideCCURI),
        (\.rid, "urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id"),
        (\.repairedRID, "urn:ietf:params:rtp-hdrext:sdes:repaired-rtp-stream-id"),
        (\.absoluteCaptureTime, "http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time"),
        (
            \.dependencyDescriptor,
            "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension"
        ),
    ]

    /// Parses `a=extmap` values, `id[/direction] uri`. IDs outside 1…14 cannot be one-byte extensions.
    package init(extmap values: [String] = []) {
        for value in values {
            let parts = value.split(separator: " ", maxSplits: 1)
            guard parts.count == 2, let id = UInt8(parts[0].split(separator: "/").first ?? ""), (1...14).contains(id)
            else { continue }
            let uri = parts[1].trimmedASCII.split(separator: " ").first.map(String.init)
            if let known = Self.all.first(where: { $0.uri == uri }) { self[keyPath: known.id] = id }
        }
    }

    package var extmap: [String] {
        Self.all.compactMap { known in self[keyPath: known.id].map { "\($0) \(known.uri)" } }
    }
}
