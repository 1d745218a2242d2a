// Prompts and reference images of `decarttransform`, by property and by action signal, and the other action signals.
import DecartProtocol
import DecartSession
import GStreamerKit
import Synchronization

extension DecartTransform {
    /// Runs on the session's queue because it reads the image from a file.
    func update(_ settings: TransformSettings, _ changed: Set<String>, _ session: ElementSession?) {
        do throws(ProtocolError) {
            var update = PromptUpdate()
            if !changed.isDisjoint(with: ["prompt", "enrich"]) {
                update.prompt = try Prompt(settings.content.prompt, enrich: settings.content.enrich)
            }
            if changed.contains("reference-image") {
                update.image = .removed
                if let source = settings.content.referenceImage { update.image = .set(try source.image()) }
            }
            send(update, session)
        } catch {
            warn(SessionError(error.code, error.message, stage: .configuration))
        }
    }

    /// Returns the request's ID; 0 without a session.
    @discardableResult
    private func send(_ update: PromptUpdate, _ session: ElementSession?) -> RequestID {
        let image: SessionImage? = if case .set(let image) = update.image { image } else { nil }
        let warnings = state.withLock { $0.run?.doubts?.about(update.prompt, image) }
        warnings?.forEach { warn($0) }
        return session?.controller.updatePrompt(update) ?? 0
    }

    // MARK: Action signals

    func actionSignal(_ name: String, _ arguments: [GValueBox]) -> GValueBox? {
        let session = session
        switch name {
        case "set-prompt":
            guard arguments.count == 2 else { return nil }
            let (text, enrich) = (arguments[0].string ?? "", arguments[1].bool ?? false)
            return GValueBox(uint64: request(setsImage: false, nil, text, enrich: enrich, session))
        case "set-image":
            guard arguments.count == 3 else { return nil }
            let image = arguments[0].bytes.flatMap { $0.isEmpty ? nil : ReferenceImageSource.memory($0) }
            let (text, enrich) = (arguments[1].string, arguments[2].bool ?? false)
            return GValueBox(uint64: request(setsImage: true, image, text, enrich: enrich, session))
        case "connect", "disconnect":
            state.withLock {
                $0.run?.input.stopAwaiting()
                $0.run?.outcome.isDisconnected = name == "disconnect"
            }
            if name == "disconnect" {
                session?.controller.stop()
            } else if Self.hasThread() {
                session?.controller.start()
            } else {
                fail(Self.noThread)
            }
        case "extend-session":
            if let seconds = arguments.first?.int { session?.controller.extend(by: .seconds(seconds)) }
        default: break
        }
        return nil
    }

    /// Stores an action signal's change in the settings, so that it also applies to the next start, and sends it.
    /// - Parameters:
    ///   - setsImage: `image` replaces the reference image; nil removes it.
    ///   - text: nil leaves the prompt as it is.
    /// - Returns: the request's ID; 0 without a session, or if the change is invalid, which also posts a warning.
    private func request(
        setsImage: Bool, _ image: ReferenceImageSource?, _ text: String?, enrich: Bool, _ session: ElementSession?
    ) -> RequestID {
        var update = PromptUpdate()
        do throws(ProtocolError) {
            if setsImage { update.image = .removed }
            if let image { update.image = .set(try image.image()) }
            if let text { update.prompt = try Prompt(text, enrich: enrich) }
        } catch {
            warn(SessionError(error.code, error.message, stage: .configuration))
            return 0
        }
        state.withLock { state in
            if setsImage { state.settings.content.referenceImage = image }
            if let text { (state.settings.content.prompt, state.settings.content.enrich) = (text, enrich) }
        }
        let id = send(update, session)
        handle.unowned.withFrozenNotifications { element in
            if text != nil { ["prompt", "enrich"].forEach(element.notify) }
            if setsImage { element.notify("reference-image") }
        }
        return id
    }
}
