/// A message from client to service, one case per `type`.
package enum ClientMessage: Sendable, Equatable {
    case prompt(PromptMessage)
    case setImage(SetImageMessage)
    case offer(sdp: String)
    case answer(sdp: String)
    /// nil marks the end of candidates.
    case iceCandidate(CandidateMessage?)
    case livekitJoin(LiveKitJoin)
    /// A type that this version does not know; receivers ignore it.
    case unknown(type: String)

    /// Value of the `type` key.
    package var type: String {
        switch self {
        case .prompt: "prompt"
        case .setImage: "set_image"
        case .offer: "offer"
        case .answer: "answer"
        case .iceCandidate: "ice-candidate"
        case .livekitJoin: "livekit_join"
        case .unknown(let type): type
        }
    }
}

package struct PromptMessage: Sendable, Equatable {
    package var text: String
    /// True if the service may rewrite the text (`enhance_prompt`).
    package var enhance: Bool

    package init(text: String, enhance: Bool) {
        self.text = text
        self.enhance = enhance
    }
}

/// A reference image, a text, both, or neither (*passthrough*).
package struct SetImageMessage: Sendable, Equatable {
    package enum Image: Sendable, Equatable {
        /// `image_data: null`
        case none
        /// `image_data`: the file's bytes in base64
        case data(base64: String)
        /// `image_ref`: the name of an image that the service already has
        case reference(String)
    }

    package enum Text: Sendable, Equatable {
        /// The key is absent: the service keeps its text.
        case unchanged
        /// `prompt: null`
        case none
        case prompt(String)
    }

    package var image: Image
    package var text: Text
    /// `enhance_prompt`; nil omits the key.
    package var enhance: Bool?

    package init(image: Image, text: Text = .unchanged, enhance: Bool? = nil) {
        self.image = image
        self.text = text
        self.enhance = enhance
    }

    /// Both keys present and null: the service returns untransformed frames, at the user's request.
    package static let passthrough = SetImageMessage(image: .none, text: .none)

    package var isPassthrough: Bool { image == .none && text == .none }
}

/// One ICE candidate, as browsers serialise it.
package struct CandidateMessage: Sendable, Equatable {
    /// `candidate:…`; empty means the end of candidates.
    package var candidate: String
    package var sdpMid: String?
    package var sdpMLineIndex: Int?
    /// The ICE session that the candidate belongs to; nil: not signalled.
    package var usernameFragment: String?

    package init(
        candidate: String, sdpMid: String? = nil, sdpMLineIndex: Int? = nil, usernameFragment: String? = nil
    ) {
        self.candidate = candidate
        self.sdpMid = sdpMid
        self.sdpMLineIndex = sdpMLineIndex
        self.usernameFragment = usernameFragment
    }
}

/// The first message of a session whose media go through a LiveKit room. Every field may be absent.
package struct LiveKitJoin: Sendable, Equatable {
    package enum InitialState: Sendable, Equatable {
        case prompt(PromptMessage)
        case setImage(SetImageMessage)

        var message: ClientMessage {
            switch self {
            case .prompt(let message): .prompt(message)
            case .setImage(let message): .setImage(message)
            }
        }
    }

    package var passthrough: Bool?
    package var initialState: InitialState?
    /// `client_capabilities.frame_timing`
    package var frameTiming: Bool?

    package init(passthrough: Bool? = nil, initialState: InitialState? = nil, frameTiming: Bool? = nil) {
        self.passthrough = passthrough
        self.initialState = initialState
        self.frameTiming = frameTiming
    }
}
