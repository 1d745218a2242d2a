// webrtcbin as a transport. It calls C for promises and session descriptions, which only webrtcbin uses, so that
// `GStreamerKit` does not wrap them. libgstwebrtc is loaded at run time, because the product must build without its
// headers.
import CGStreamer
import GStreamerKit
import Glibc
import RTP
import Synchronization
import WebRTCTransport

/// Debian's webrtcbin, configured for the same features as ours: max-bundle, NACK with RTX, transport-cc, PLI.
// @unchecked: webrtcbin has its own locks; mutable state is in a mutex.
final class WebRTCBinTransport: Transport, @unchecked Sendable {
    let element: Element
    private let onFact: @Sendable (TransportEvent) -> Void
    private struct State {
        var parameters: RTPSendParameters?
        var pad: Pad?
        var caps: String?
        var handlers: [SignalHandler] = []
        var iceWasConnected = false
        var wasConnected = false
    }
    private let state = Mutex(State())
    private static let transportCC = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"

    init(onFact: @escaping @Sendable (TransportEvent) -> Void) throws {
        self.onFact = onFact
        element = try Element(factory: "webrtcbin")
        element.set("bundle-policy", "max-bundle")
        element.set("latency", 100)
        let handlers = [
            element.connect("on-ice-candidate") { [weak self] arguments in
                if let text = arguments.last?.string, !text.isEmpty { self?.onFact(.candidate(text)) }
                return nil
            },
            element.connect("on-new-transceiver") { arguments in
                arguments.first?.object?.set("do-nack", true)
                return nil
            },
            element.connect("pad-added") { [weak self] arguments in
                if let pad = arguments.first?.pad, pad.name.hasPrefix("src_") { self?.onFact(.receiver(pad)) }
                return nil
            },
            element.connect("notify::ice-connection-state") { [weak self] _ in
                self?.stateChanged()
                return nil
            },
            element.connect("notify::connection-state") { [weak self] _ in
                self?.stateChanged()
                return nil
            },
        ]
        state.withLock { $0.handlers = handlers }
    }

    private func stateChanged() {
        // GstWebRTCICEConnectionState: 2 connected, 3 completed; GstWebRTCPeerConnectionState: 2 connected, 4 failed.
        let ice = element.int("ice-connection-state")
        let whole = element.int("connection-state")
        let (iceIsNew, isNew) = state.withLock { state in
            let iceIsNew = (ice == 2 || ice == 3) && !state.iceWasConnected
            let isNew = whole == 2 && !state.wasConnected
            state.iceWasConnected = state.iceWasConnected || iceIsNew
            state.wasConnected = state.wasConnected || isNew
            return (iceIsNew, isNew)
        }
        if iceIsNew { onFact(.iceConnected) }
        if isNew { onFact(.connected) }
        if whole == 4 { onFact(.failed("webrtcbin says: failed")) }
    }

    var sendParameters: RTPSendParameters? { state.withLock { $0.parameters } }
    var senderCaps: String? { state.withLock { $0.caps } }
    func sender() -> Pad? { state.withLock { $0.pad } }

    /// Requests the sink pad; the offer's m-line follows from the caps linked to it.
    private func prepare(payloadType: Int, extensionID: Int) throws {
        let parameters = RTPSendParameters(
            codec: .vp8, payloadType: payloadType, ssrc: UInt32.random(in: 1..<UInt32.max),
            transportWideCCExtension: extensionID)
        let caps =
            "application/x-rtp, media=(string)video, encoding-name=(string)VP8, clock-rate=(int)90000, payload=(int)\(payloadType), "
            + "extmap-\(extensionID)=(string)\"\(Self.transportCC)\", rtcp-fb-nack=(boolean)true, "
            + "rtcp-fb-nack-pli=(boolean)true, rtcp-fb-transport-cc=(boolean)true"
        guard let pad = element.requestPad("sink_%u") else { throw BenchError("webrtcbin has no sink pad") }
        pad.value("transceiver")?.object?.set("do-nack", true)
        state.withLock {
            $0.parameters = parameters
            $0.pad = pad
            $0.caps = caps
        }
    }

    // MARK: Negotiation

    /// Creates the sink pad first, because its caps determine the offer.
    func prepareOffer() throws { try prepare(payloadType: 96, extensionID: 3) }

    func offer(_ then: @escaping @Sendable (String) -> Void) throws { create("create-offer", "offer", then) }

    func answer(_ offer: String, ready: () throws -> Void, then: @escaping @Sendable (String) -> Void) throws {
        let lines = offer.split(whereSeparator: \.isNewline)
        let media = lines.first { $0.hasPrefix("m=video") }?.split(separator: " ")
        let number = media.flatMap { $0.count > 3 ? Int($0[3]) : nil } ?? 96
        let mapping = lines.first { $0.hasPrefix("a=extmap:") && $0.hasSuffix(Self.transportCC) }
        let id = mapping?.dropFirst("a=extmap:".count).prefix { $0.isNumber }
        try prepare(payloadType: number, extensionID: id.flatMap { Int($0) } ?? 3)
        try ready()
        try set("set-remote-description", type: 1, text: offer)
        create("create-answer", "answer", then)
    }

    func accept(answer: String) throws { try set("set-remote-description", type: 3, text: answer) }

    func add(candidate: String) { element.emit("add-ice-candidate", [GValueBox(uint: 0), GValueBox(candidate)]) }

    func close() {}

    func dismantle() {
        let handlers = state.withLock { state in
            defer { state = State() }
            return state.handlers
        }
        for handler in handlers { element.disconnect(handler) }
    }

    // MARK: C

    private struct Library: @unchecked Sendable {
        // @unchecked: holds only constant function addresses and a type.
        typealias Make = @convention(c) (UInt32, UnsafeMutablePointer<GstSDPMessage>?) -> UnsafeMutableRawPointer?
        typealias Release = @convention(c) (UnsafeMutableRawPointer?) -> Void
        let type: GType
        let make: Make
        let release: Release

        init?() {
            guard let handle = dlopen("libgstwebrtc-1.0.so.0", RTLD_NOW | RTLD_GLOBAL),
                let type = dlsym(handle, "gst_webrtc_session_description_get_type"),
                let make = dlsym(handle, "gst_webrtc_session_description_new"),
                let release = dlsym(handle, "gst_webrtc_session_description_free")
            else { return nil }
            self.type = unsafeBitCast(type, to: (@convention(c) () -> GType).self)()
            self.make = unsafeBitCast(make, to: Make.self)
            self.release = unsafeBitCast(release, to: Release.self)
        }
    }
    private static let library = Library()

    /// Creates a description and sets it locally. Passes its text to `then` before that, so that candidates follow it.
    private func create(_ signal: String, _ field: String, _ then: @escaping @Sendable (String) -> Void) {
        emit(signal, argument: { g_value_init($0, kit_type_structure()) }) { [weak self] reply in
            guard let self, let reply, let value = gst_structure_get_value(reply, field),
                let description = g_value_get_boxed(value)
            else {
                self?.onFact(.failed("webrtcbin gave no \(field)"))
                return
            }
            // struct { GstWebRTCSDPType type; GstSDPMessage *sdp; }
            let message = description.load(fromByteOffset: 8, as: UnsafeMutablePointer<GstSDPMessage>?.self)
            if let text = gst_sdp_message_as_text(message) {
                then(String(cString: text))
                g_free(text)
            }
            emit("set-local-description", argument: { Self.fill($0, description) }) { _ in }
        }
    }

    private func set(_ signal: String, type: UInt32, text: String) throws {
        guard let library = Self.library, let message = kit_sdp_message_new(),
            gst_sdp_message_parse_buffer(text, UInt32(text.utf8.count), message) == GST_SDP_OK,
            let description = library.make(type, message)
        else { throw BenchError("webrtcbin's library is not there, or the description is none") }
        emit(signal, argument: { Self.fill($0, description) }) { _ in }
        library.release(description)
    }

    private static func fill(_ value: UnsafeMutablePointer<GValue>, _ description: UnsafeMutableRawPointer) {
        guard let library else { return }
        g_value_init(value, library.type)
        g_value_set_boxed(value, description)
    }

    private final class Reply {
        let handler: (UnsafePointer<GstStructure>?) -> Void
        init(_ handler: @escaping (UnsafePointer<GstStructure>?) -> Void) { self.handler = handler }
    }

    /// Emits an action signal with one argument and a promise.
    private func emit(
        _ signal: String, argument: (UnsafeMutablePointer<GValue>) -> Void,
        then: @escaping (UnsafePointer<GstStructure>?) -> Void
    ) {
        let promise = gst_promise_new_with_change_func(
            { promise, data in
                guard let promise, let data else { return }
                let result = gst_promise_wait(promise)
                let reply = result == GST_PROMISE_RESULT_REPLIED ? gst_promise_get_reply(promise) : nil
                Unmanaged<Reply>.fromOpaque(data).takeUnretainedValue().handler(reply)
                kit_mini_object_unref(promise)
            }, Unmanaged.passRetained(Reply(then)).toOpaque(),
            { data in if let data { Unmanaged<Reply>.fromOpaque(data).release() } })
        withUnsafeTemporaryAllocation(of: GValue.self, capacity: 3) { values in
            values.initialize(repeating: GValue())
            guard let base = values.baseAddress else { return }
            g_value_init(base, kit_type_of_instance(element.raw))
            g_value_set_instance(base, element.raw)
            argument(base + 1)
            g_value_init(base + 2, gst_promise_get_type())
            g_value_set_boxed(base + 2, promise)
            g_signal_emitv(base, g_signal_lookup(signal, kit_type_of_instance(element.raw)), 0, nil)
            for index in 0..<3 { g_value_unset(base + index) }
        }
    }
}
