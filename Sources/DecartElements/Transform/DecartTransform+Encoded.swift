// An encoded input of `decarttransform`: its frames pass by the elements for raw video, and its format decides what the
// session negotiates.
import DecartProtocol
import DecartSession
import GStreamerKit
import MediaPipeline
import RTP
import Synchronization
import WebRTCTransport

/// The state of `target-bitrate`, by which an application steers its own encoder.
struct BitrateSteering: PropertyStorage {
    /// bit/s; 0: no session yet.
    var target = 0
    /// A notification is on its way; it will show the newest value.
    var isNotifying = false

    /// - Returns: true if a notification is to be sent.
    mutating func take(_ target: Int) -> Bool {
        guard exchange(&self.target, with: target) != target else { return false }
        return !exchange(&isNotifying, with: true)
    }

    static let properties = PropertyTable<BitrateSteering>([
        .readOnly(
            "target-bitrate", nick: "Target bitrate",
            blurb: "Bitrate that the video may have now, bit/s (0 = no session yet); notify is emitted on change",
            { .uint(0...Int(Int32.max), default: $0) }, { GValueBox(uint: $0) }, \.target)
    ])
}

extension DecartTransform {
    // MARK: Caps

    /// The pad's target takes raw video in the system's memory only.
    func answerCaps(_ sink: Pad, _ memory: InputMemory) {
        sink.setQueryFunction { query in
            guard let encoded = try? Caps(EncodedInput.caps) else { return .forward }
            switch query.kind {
            case .caps:
                let filter = query.capsFilter
                guard let raw = memory.rawCaps(for: filter) else { return .forward }
                // A camera that has both is to send raw video: few of its encoded formats could be sent on.
                let mayBeRaw = filter?.structures.contains { $0.name == "video/x-raw" } ?? false
                query.answerCaps(mayBeRaw ? raw : raw.followed(by: encoded))
            case .acceptCaps:
                guard let caps = query.offeredCaps else { return .forward }
                let isEncoded = caps.first.flatMap { VideoCodec(capsName: $0.name) } != nil
                query.answerAcceptCaps(isEncoded ? caps.isSubset(of: encoded) : memory.accepts(caps))
            default: return .forward
            }
            return .answered
        }
    }

    /// Called on upstream's thread.
    func applyCaps(_ caps: Caps, _ input: InputChain) -> Bool {
        let wasOn = input.encoded.isOn
        let isOn = input.encoded.apply(caps: caps)
        guard isOn != wasOn else { return isOn }
        input.gate.set(encoded: isOn)
        applyMute()
        if !isOn {
            // Encoded video that follows begins a session of its own, also in the format of the last one.
            state.withLock { $0.run?.sentFormat = nil }
            restartSession()
        }
        return isOn
    }

    // MARK: Frames (upstream's thread)

    func receiveEncoded(_ buffer: Buffer, _ pad: Pad, _ input: InputChain) {
        switch input.encoded.read(buffer) {
        case .ignored: break
        case .unusable(let text): refuseInput(text, input)
        case .frame(var frame, let isNew):
            if isNew, let format = input.encoded.format, !begin(with: format, input) { return }
            input.frameArrived()
            let admission = input.gate.admit(buffer, pad: pad, element: handle.unowned)
            if admission == .dropped { reportLoss(of: buffer) }
            switch admission {
            case .passes(let time):
                frame.runningTime = time
                for held in input.encoded.takeHeld() { input.deliver(encoded: held) }
                input.deliver(encoded: frame)
            case .refused, .dropped:
                guard let time = input.gate.timeToHold else {
                    input.encoded.dropHeld()
                    break
                }
                frame.runningTime = time
                input.encoded.hold(frame)
            }
        }
    }

    /// Takes the format of a keyframe.
    /// - Returns: false if it cannot be sent, which has been reported.
    private func begin(with format: EncodedVideoFormat, _ input: InputChain) -> Bool {
        let encoding = output?.encoding
        let (run, settings, before) = state.withLock { state in
            defer {
                state.run?.input.stopAwaiting()
                state.run?.sentFormat = format
            }
            return (state.run, state.settings, state.run?.sentFormat)
        }
        guard let run else { return false }
        if let problem = settings.conflict(withInput: format.codec) ?? refusal(of: format, run.sizes, encoding) {
            refuseInput(problem, input)
            return false
        }
        input.arrived(format.size)
        run.size.set(width: format.size.width, height: format.size.height)
        if run.input.awaitsVideo {
            run.session.controller.start()
        } else if before.map({ !format.fits($0) }) ?? true {
            restartSession()
        }
        return true
    }

    private func refusal(of format: EncodedVideoFormat, _ sizes: [VideoFormat], _ encoding: EncodedOutput?) -> String? {
        let size = format.size
        let isTaken = sizes.contains {
            ($0.width, $0.height) == (size.width, size.height) || ($0.height, $0.width) == (size.width, size.height)
        }
        if !isTaken, let own = sizes.first {
            return
                "The input has \(size.width)x\(size.height) pixels, but the model takes \(own.width)x\(own.height), and "
                + "encoded video cannot be scaled. Encode it in that size, or set width and height if the model takes "
                + "the input's."
        }
        if let encoding, !encoding.codecs.contains(format.codec) {
            return
                "The input is \(format.codec.encodingName), but downstream takes "
                + "\(encoding.codecs.map(\.encodingName).joined(separator: " or ")) only. Give both sides one codec, or "
                + "decode one of them."
        }
        return nil
    }

    /// Ends the session for good: an encoded input cannot be sent.
    private func refuseInput(_ text: String, _ input: InputChain) {
        input.encoded.fail()
        let error = SessionError(.invalidInput, text, stage: .configuration, isPermanent: true)
        session?.controller.stop()
        fail(error)
    }

    /// Negotiates again, because the input is another one than the session was begun for.
    private func restartSession() {
        let now = now
        guard now.snapshot.state.isInSession, let session = now.run?.session else { return }
        session.controller.stop()
        session.controller.start()
    }

    // MARK: Properties

    /// Warns if a property is set while the element runs that has no effect on a side that is encoded.
    /// - Returns: true if it has none.
    func warnOfRawProperty(_ name: String) -> Bool {
        let now = now
        guard now.run != nil else { return false }
        let ofInput = (input?.encoded.format?.codec).flatMap { now.settings.conflict(withInput: $0, by: name) }
        let ofOutput = output?.encoding == nil ? nil : now.settings.conflictWithEncodedOutput(by: name)
        guard let text = ofInput ?? ofOutput else { return false }
        warn(SessionError(.invalidOptions, text, stage: .configuration))
        return true
    }

    /// Called on the network thread, where no handler of the application may run. The connection of a run that has ended
    /// may still call it.
    func steer(_ target: BitrateTarget) {
        let session = state.withLock { $0.run?.steering.take(target.target) == true ? $0.run?.session : nil }
        session?.async { [weak self] in
            guard let self else { return }
            self.state.withLock { $0.run?.steering.isNotifying = false }
            self.handle.unowned.notify("target-bitrate")
        }
    }

    /// Called on upstream's thread.
    func report(_ overload: EncodedOverload) {
        let element = handle.unowned
        element.post(SessionMessages.overload(overload))
        LogCategories.media(
            .warning, element, "the encoded input is too much by its \(overload.reason.rawValue): frames are dropped")
    }
}
