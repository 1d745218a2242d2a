// Requests that are sent although the service may refuse or ignore them, because only the service can decide on them, and
// settings that hardly anyone means.
import DecartProtocol
import DecartSession

/// Makes the warnings about such requests of one start. Those about later prompts and images are made once.
struct Doubts: Sendable {
    private let model: DecartModel
    private var hasWarnedOfLength = false
    private var hasWarnedOfImage = false

    init(_ model: DecartModel) { self.model = model }

    /// - Parameter items: the further query items.
    func about(_ settings: TransformSettings, _ items: [SessionPlan.Option]) -> [SessionError] {
        var sentences: [String] = []
        if let successor = model.successor {
            sentences.append(
                "The model \(model.name) is retired, and the service may refuse it. Use model=\(successor).")
        }
        if settings.speed == .fast, !model.supportsFastSpeed {
            sentences.append(
                "The model \(model.name) is not known to support speed=fast; the service may ignore or refuse it.")
        }
        let (least, most) = (settings.encoding.minBitrate, settings.encoding.maxBitrate)
        if (1..<10_000).contains(most) {
            sentences.append(
                "max-bitrate=\(most) is in bit/s, and the least that is used is 10000. Set max-bitrate=\(most)000 for "
                    + "\(most) kbit/s.")
        } else if most > 0, least > most, least != TransformSettings().encoding.minBitrate {
            sentences.append("min-bitrate=\(least) is above max-bitrate=\(most), which counts. Lower min-bitrate.")
        }
        for (name, known) in Self.known where items.contains(where: { $0.name == name && !known.contains($0.value) }) {
            sentences.append(
                "query-items has another value for \(name) than \(known.joined(separator: " and ")); the service may "
                    + "ignore or refuse it.")
        }
        return sentences.map { SessionError(.invalidOptions, $0, stage: .configuration) }
    }

    mutating func about(_ prompt: Prompt?, _ image: SessionImage?) -> [SessionError] {
        var errors: [SessionError] = []
        if let length = prompt?.length, length > Prompt.usualLength, !hasWarnedOfLength {
            hasWarnedOfLength = true
            let text =
                "The prompt has \(length) characters and is sent whole, but the service may refuse more than "
                + "\(Prompt.usualLength)."
            errors.append(SessionError(.invalidInput, text, stage: .configuration))
        }
        if image != nil, !model.supportsReferenceImage, !hasWarnedOfImage {
            hasWarnedOfImage = true
            let text =
                "The model \(model.name) is not known to take reference images; the service may ignore or refuse it."
            errors.append(SessionError(.invalidOptions, text, stage: .configuration))
        }
        return errors
    }

    /// Values that Decart's SDKs send (Python 0.2.4, `realtime/types.py`).
    private static let known = [("resolution", ["720p", "1080p"]), ("speed", ["fast"])]
}
