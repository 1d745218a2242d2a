/// Kind of an m-line. Each kind has one RTP session, however many m-lines it has.
package enum MediaKind: String, Sendable, CaseIterable { case video, audio }

extension Set<MediaKind> {
    package var listed: String { MediaKind.allCases.filter(contains).map(\.rawValue).joined(separator: " and ") }
}
