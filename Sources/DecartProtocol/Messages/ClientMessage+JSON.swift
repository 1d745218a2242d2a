extension ClientMessage {
    /// Largest message that a service accepts, in bytes: a 10 MiB image in base64, and room for the rest.
    package static let maximumSize = 16 << 20

    /// Encodes one JSON object in UTF-8, the body of a text frame.
    package func encoded() throws(ProtocolError) -> [UInt8] {
        try JSONText.encode(self)
    }

    /// Decodes the body of a text frame. Throws if it is malformed; an unknown type gives `.unknown`.
    package init(decoding bytes: [UInt8], maximumSize: Int = ClientMessage.maximumSize) throws(ProtocolError) {
        self = try JSONText.decode(ClientMessage.self, from: bytes, maximumSize: maximumSize)
    }
}

extension ClientMessage: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: WireKey.self)
        let type = try container.decode(String.self, forKey: "type")
        self =
            switch type {
            case "prompt": .prompt(try PromptMessage(container))
            case "set_image": .setImage(try SetImageMessage(container))
            case "offer": .offer(sdp: try container.sdp())
            case "answer": .answer(sdp: try container.sdp())
            case "ice-candidate": .iceCandidate(try container.candidate())
            case "livekit_join": .livekitJoin(try LiveKitJoin(container))
            default: .unknown(type: type)
            }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: WireKey.self)
        try container.encode(type, forKey: "type")
        switch self {
        case .prompt(let message):
            try message.encode(into: &container)
        case .setImage(let message):
            try message.encode(into: &container)
        case .offer(let sdp), .answer(let sdp):
            try container.encode(sdp, forKey: "sdp")
        case .iceCandidate(let candidate):
            try container.encode(candidate, forKey: "candidate")
        case .livekitJoin(let join):
            try join.encode(into: &container)
        case .unknown:
            break
        }
    }
}

extension PromptMessage {
    fileprivate init(_ container: KeyedDecodingContainer<WireKey>) throws {
        self.init(
            text: try container.decode(String.self, forKey: "prompt"),
            enhance: container.flag("enhance_prompt") ?? false)
    }

    fileprivate func encode(into container: inout KeyedEncodingContainer<WireKey>) throws {
        try container.encode(text, forKey: "prompt")
        try container.encode(enhance, forKey: "enhance_prompt")
    }
}

extension SetImageMessage {
    fileprivate init(_ container: KeyedDecodingContainer<WireKey>) throws {
        let text: Text =
            if !container.contains("prompt") {
                .unchanged
            } else if try container.decodeNil(forKey: "prompt") {
                .none
            } else {
                .prompt(try container.decode(String.self, forKey: "prompt"))
            }
        let image: Image =
            if container.contains("image_ref"), try !container.decodeNil(forKey: "image_ref") {
                .reference(try container.decode(String.self, forKey: "image_ref"))
            } else if try container.decodeNil(forKey: "image_data") {
                .none
            } else {
                .data(base64: try container.decode(String.self, forKey: "image_data"))
            }
        self.init(image: image, text: text, enhance: container.flag("enhance_prompt"))
    }

    fileprivate func encode(into container: inout KeyedEncodingContainer<WireKey>) throws {
        switch image {
        case .none: try container.encodeNil(forKey: "image_data")
        case .data(let base64): try container.encode(base64, forKey: "image_data")
        case .reference(let reference): try container.encode(reference, forKey: "image_ref")
        }
        switch text {
        case .unchanged: break
        case .none: try container.encodeNil(forKey: "prompt")
        case .prompt(let text): try container.encode(text, forKey: "prompt")
        }
        try container.encodeIfPresent(enhance, forKey: "enhance_prompt")
    }
}

extension LiveKitJoin {
    fileprivate init(_ container: KeyedDecodingContainer<WireKey>) throws {
        self.init(passthrough: container.flag("passthrough"))
        if let capabilities = try? container.nestedContainer(keyedBy: WireKey.self, forKey: "client_capabilities") {
            frameTiming = capabilities.flag("frame_timing")
        }
        guard container.contains("initial_state"), try !container.decodeNil(forKey: "initial_state") else { return }
        let nested = try container.nestedContainer(keyedBy: WireKey.self, forKey: "initial_state")
        switch nested.text("type") {
        case "prompt": initialState = .prompt(try PromptMessage(nested))
        case "set_image": initialState = .setImage(try SetImageMessage(nested))
        default: throw ProtocolError(.invalidInput, "A message is malformed: initial_state has an unknown type.")
        }
    }

    fileprivate func encode(into container: inout KeyedEncodingContainer<WireKey>) throws {
        try container.encodeIfPresent(passthrough, forKey: "passthrough")
        try container.encodeIfPresent(initialState?.message, forKey: "initial_state")
        if let frameTiming {
            var nested = container.nestedContainer(keyedBy: WireKey.self, forKey: "client_capabilities")
            try nested.encode(frameTiming, forKey: "frame_timing")
        }
    }
}
