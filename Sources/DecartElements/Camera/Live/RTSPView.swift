// A live view of an RTSP camera. GStreamer's rtspsrc speaks the protocol; this file gives it the credentials, chooses the
// streams, and names the causes of its errors.
//
// Every method runs on the camera's queue, which may block in GStreamer, unless it says otherwise.
import DecartProtocol
import GStreamerKit
import Log
import RTP
import Synchronization
import WebRTCTransport

struct RTSPCamera: Sendable {
    var url: RTSPURL
    /// Authorities that are trusted in place of the system's.
    var caFile: String?
    var userAgent: String
}

// @unchecked: elements lock themselves; mutable state is in the mutex.
final class RTSPView: LiveView, @unchecked Sendable {
    let number: Int
    private let camera: RTSPCamera
    private let parent: Bin
    private let bin = Bin()
    private let source: Element
    private let requests: RTSPRequests
    private let receivers: CameraReceivers
    /// The codecs in which video is forwarded encoded; nil: it is decoded.
    private let encodedCodecs: [VideoCodec]?
    private let streams: Mutex<RTSPStreams>
    private var described: RTSPStreams { streams.withLock(\.self) }
    private let onEvent: @Sendable (LiveViewMachine.Event) -> Void

    /// Longest wait for a connection or an answer, below the machine's.
    private static let timeout = Duration.seconds(10)
    /// Cameras lock an account after a few wrong passwords.
    private static let refusedDelay = Duration.seconds(30)

    /// - Parameters:
    ///   - encodedCodecs: in which video is forwarded encoded; nil: it is decoded.
    ///   - perform: runs work on the camera's queue.
    ///   - onEvent: called on any thread.
    init(
        _ camera: RTSPCamera, number: Int, in parent: Bin, _ joints: CameraReceivers.Joints,
        encodedCodecs: [VideoCodec]?, logger: Logger,
        perform: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
        onEvent: @escaping @Sendable (LiveViewMachine.Event) -> Void
    ) throws(GStreamerError) {
        (self.number, self.camera, self.parent, self.onEvent) = (number, camera, parent, onEvent)
        self.encodedCodecs = encodedCodecs
        streams = Mutex(
            RTSPStreams(usable: encodedCodecs ?? VideoCodec.receivable, takesAudio: joints.audio != nil))
        receivers = CameraReceivers(
            in: bin, joints, decodes: encodedCodecs == nil, logger: logger, perform: perform,
            onVideo: { result in
                guard case .failure(let error) = result else { return }
                onEvent(.failed(view: number, LiveViewFailure(reason: error.message)))
            })
        source = try Element(
            factory: "rtspsrc", typeName: "GstDecartRTSPSource", hiding: ["location", "user-id", "user-pw"])
        requests = RTSPRequests(of: source, to: camera.url, camera.url.credentials)
        try configure()
        bin.suppressSourceAndSinkFlags()
        bin.add(source)
        source.connect("select-stream") { [weak self] arguments in
            GValueBox(arguments.last?.caps.flatMap { self?.select($0) } ?? false)
        }
        source.connect("no-more-pads") { [weak self, onUnusableAudio = joints.onUnusableAudio] _ in
            if let self, case let streams = self.described, !streams.hasAudio,
                let name = streams.unusableAudio
            {
                onUnusableAudio(CameraReceivers.unusable(self.redacting(name)))
            }
            return nil
        }
        source.connect("pad-added") { [weak self] arguments in
            if let pad = arguments.first?.pad { self?.link(pad) }
            return nil
        }
    }

    private func configure() throws(GStreamerError) {
        source.set("user-agent", GValueBox(camera.userAgent))
        if !camera.url.usesUDP { source.set("protocols", "tcp") }
        // Over UDP, time for packets that overtake others.
        source.set("latency", camera.url.usesUDP ? 50 : 0)
        source.set("tcp-timeout", Int(Self.timeout / .microseconds(1)))
        if camera.url.isSecure, let file = camera.caFile { try source.setTLSDatabase(file: file) }
    }

    // MARK: LiveView

    func request() {
        parent.add(bin)
        guard !bin.syncStateWithParent() else { return }
        onEvent(.failed(view: number, LiveViewFailure(reason: "its elements cannot be started")))
    }

    func connect(_ grant: LiveViewGrant) {}
    func extend() {}
    func add(candidate: String?) {}

    func close() {
        parent.takeOut([bin])
        receivers.close()
    }

    func failure(_ error: Message) -> LiveViewFailure? {
        guard error.isFrom(within: bin) else { return nil }
        let (text, debug) = (error.problem?.text ?? LiveCamera.noText, error.problem?.debug ?? "")
        let isRefused = error.resourceProblem == .resourceNotAuthorized
        return LiveViewFailure(
            reason: redacting(reason(error.resourceProblem, text, debug)),
            retryAfter: isRefused ? Self.refusedDelay : nil)
    }

    func redacting(_ text: String) -> String { camera.url.redacting(text) }

    private func reason(_ code: ElementProblem.Code?, _ text: String, _ debug: String) -> String {
        let (streams, redirects) = (described, requests.redirects)
        if let refusal = redirects.refusal { return refusal }
        switch code {
        case .resourceNotAuthorized where redirects.otherHost != nil:
            return
                "it redirects to \(redirects.otherHost ?? ""), which wants a user name and a password (401): those of "
                + "source= go to \(camera.url.host) alone"
        case .resourceNotAuthorized where camera.url.credentials != nil:
            return "it refuses the user name or the password (401)"
        case .resourceNotAuthorized: return "it wants a user name and a password (401): source=rtsp://user:password@…"
        case .resourceNotFound: return "it has no stream at this path (404)"
        default: break
        }
        // "…:\nForbidden (403)"
        if text.hasPrefix("Unhandled error"), let answer = debug.split(whereSeparator: \.isNewline).last,
            answer.hasSuffix(")")
        {
            return "it refuses a request: \(String(answer).printable(limit: 100))"
        }
        // "…: Failed to connect. (System error: Connection refused)"
        let cause = debug.split(separator: "(").last.flatMap { $0.hasSuffix(")") ? $0.dropLast() : nil }
        let suffix = cause.flatMap { $0 == "Generic error" || text.contains($0) ? nil : " (\($0))" } ?? ""
        if code == .resourceOpenReadWrite {
            let certificate = camera.url.isSecure ? ", or its certificate is not trusted (ca-file)" : ""
            return "it cannot be reached\(certificate)\(suffix)"
        }
        if streams.isDescribed, streams.video == nil {
            let names = streams.unusable.joined(separator: ", ")
            if let encodedCodecs, !names.isEmpty {
                let taken = encodedCodecs.map(\.encodingName).joined(separator: " or ")
                return "its video is \(names), and camera-encoded sends \(taken) alone"
            }
            let packages = VideoCodec.decoderPackages(ofEncodings: streams.unusable)
            return names.isEmpty
                ? "it has no video"
                : "its video is \(names), which is not received. "
                    + (packages.isEmpty ? "It must be H.264, H.265, VP8 or VP9" : "\(packages)".capitalizedFirst)
        }
        return text.withoutFinalPoint + suffix
    }

    // MARK: Streams (on rtspsrc's threads)

    private func select(_ caps: Caps) -> Bool {
        guard let format = caps.first, let name = format.string("encoding-name") else { return false }
        let media = format.string("media")
        let isSelected = streams.withLock { $0.select(media, encoding: name) }
        if isSelected, media == "video" { onEvent(.granted(view: number, LiveViewGrant(answer: ""))) }
        return isSelected
    }

    private func link(_ pad: Pad) {
        pad.addProbe(.downstreamEvent) { [onEvent, number] item in
            if case .event(let event) = item, event.kind == .eos {
                onEvent(.failed(view: number, LiveViewFailure(reason: "the camera ended its stream")))
            }
            return .pass
        }
        do throws(GStreamerError) {
            if pad.currentCaps?.first?.string("media") == "audio" {
                try receivers.open(audio: pad)
            } else {
                try receivers.open(video: pad)
            }
        } catch {
            onEvent(.failed(view: number, LiveViewFailure(reason: error.message)))
        }
    }
}
