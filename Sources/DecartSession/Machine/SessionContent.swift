package import DecartProtocol

/// Content that the service shows on request: a text, an image, both, or neither (the frames pass through unchanged).
package struct SessionContent: Sendable, Equatable {
    package var prompt: Prompt?
    package var image: SessionImage?

    package init(prompt: Prompt? = nil, image: SessionImage? = nil) {
        self.prompt = prompt
        self.image = image
    }

    package var isPassthrough: Bool { text.isEmpty && image == nil }

    var text: String { prompt?.text ?? "" }

    func applying(_ update: PromptUpdate) -> SessionContent {
        var content = self
        if let prompt = update.prompt { content.prompt = prompt }
        switch update.image {
        case .unchanged: break
        case .removed: content.image = nil
        case .set(let image): content.image = image
        }
        return content
    }

    /// The whole content in one message, for a service that has no state yet.
    var message: ClientMessage {
        if image == nil, let prompt, !prompt.isEmpty {
            return .prompt(PromptMessage(text: prompt.text, enhance: prompt.enrich))
        }
        return .setImage(SetImageMessage(image: image?.message ?? .none, text: messageText, enhance: enhance))
    }

    fileprivate var messageText: SetImageMessage.Text { text.isEmpty ? .none : .prompt(text) }
    fileprivate var enhance: Bool? { text.isEmpty ? nil : prompt?.enrich }
}

/// A change of the content, always one request.
package struct PromptUpdate: Sendable, Equatable {
    package enum Image: Sendable, Equatable {
        case unchanged, removed
        case set(SessionImage)
    }

    /// nil: unchanged. An empty text removes the text.
    package var prompt: Prompt?
    package var image: Image

    package init(prompt: Prompt? = nil, image: Image = .unchanged) {
        self.prompt = prompt
        self.image = image
    }

    func message(after before: SessionContent) -> ClientMessage {
        let content = before.applying(self)
        switch image {
        case .unchanged, .removed:
            // An explicit null removes the image, while the text stays.
            if image == .removed || content.isPassthrough {
                return .setImage(SetImageMessage(image: .none, text: content.messageText, enhance: content.enhance))
            }
            if !content.text.isEmpty {
                let prompt = PromptMessage(text: content.text, enhance: content.prompt?.enrich ?? false)
                return .prompt(prompt)
            }
            return content.message
        case .set(let image):
            let text = prompt == nil ? SetImageMessage.Text.unchanged : content.messageText
            return .setImage(
                SetImageMessage(
                    image: image.message, text: text, enhance: prompt == nil ? nil : content.enhance))
        }
    }
}
