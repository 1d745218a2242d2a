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
                update.prompt = try Prompt(settings.prompt, enrich: settings.enrich)
            }
            if changed.contains("reference-image") {
                update.image = .removed
                if let source = settings.referenceImage { update.image = .set(try source.image()) }
            }
            warnOfDoubts(about: update)
            session?.controller.updatePrompt(update)
        } catch {
            warn(SessionError(error.code, error.message, stage: .configuration))
        }
    }

    private func warnOfDoubts(about update: PromptUpdate) {
        let image: SessionImage? = if case .set(let image) = update.image { image } else { nil }
        let warnings = state.withLock { $0.run?.doubts?.about(update.prompt, image) }
        warnings?.forEach(warn)
    }

    // MARK: Action signals

    func actionSignal(_ name: String, _ arguments: [GValueBox]) -> GValueBox? {
        let session = state.withLock(\.run?.session)
        switch name {
        case "set-prompt":
            guard arguments.count == 2 else { return nil }
            return GValueBox(uint64: setPrompt(arguments[0].string ?? "", enrich: arguments[1].bool ?? false, session))
        case "set-image":
            guard arguments.count == 3 else { return nil }
            return GValueBox(
                uint64: setImage(arguments[0].bytes, arguments[1].string, enrich: arguments[2].bool ?? false, session))
        case "connect": session?.controller.start()
        case "disconnect": session?.controller.stop()
        case "extend-session":
            if let seconds = arguments.first?.int { session?.controller.extend(by: .seconds(seconds)) }
        default: break
        }
        return nil
    }

    /// Returns the request's ID; 0 without a session, or if the prompt is invalid, which also posts a warning.
    private func setPrompt(_ text: String, enrich: Bool, _ session: ElementSession?) -> RequestID {
        do throws(ProtocolError) {
            return request(PromptUpdate(prompt: try Prompt(text, enrich: enrich)), session) {
                ($0.prompt, $0.enrich) = (text, enrich)
            }
        } catch {
            warn(SessionError(error.code, error.message, stage: .configuration))
            return 0
        }
    }

    /// Removes the image if there are no bytes. A NULL text leaves the prompt as it is. Returns as `setPrompt` does.
    private func setImage(_ bytes: [UInt8]?, _ text: String?, enrich: Bool, _ session: ElementSession?) -> RequestID {
        do throws(ProtocolError) {
            var update = PromptUpdate(image: .removed)
            let source = bytes.flatMap { $0.isEmpty ? nil : ReferenceImageSource.memory($0) }
            if let source { update.image = .set(try source.image()) }
            if let text { update.prompt = try Prompt(text, enrich: enrich) }
            return request(update, session) {
                $0.referenceImage = source
                if let text { ($0.prompt, $0.enrich) = (text, enrich) }
            }
        } catch {
            warn(SessionError(error.code, error.message, stage: .configuration))
            return 0
        }
    }

    /// Stores an action signal's change in the settings, so that it also applies to the next start, and sends it.
    private func request(
        _ update: PromptUpdate, _ session: ElementSession?, _ change: (inout TransformSettings) -> Void
    ) -> RequestID {
        state.withLock { change(&$0.settings) }
        warnOfDoubts(about: update)
        let id = session?.controller.updatePrompt(update) ?? 0
        handle.unowned.withFrozenNotifications { element in
            if update.prompt != nil { ["prompt", "enrich"].forEach(element.notify) }
            if update.image != .unchanged { element.notify("reference-image") }
        }
        return id
    }
}
