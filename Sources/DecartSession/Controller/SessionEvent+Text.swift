import DecartProtocol

extension SessionEvent {
    /// Changes all texts for people, which the peer may have written.
    func mappingText(_ change: (String) -> String) -> SessionEvent {
        switch self {
        case .channelMessage(let id, let message): .channelMessage(id, message.mappingText(change))
        case .channelMalformed(let id, let reason): .channelMalformed(id, reason: change(reason))
        case .channelClosed(let id, let code, let reason): .channelClosed(id, code: code, reason: change(reason))
        case .channelFailed(let id, let error): .channelFailed(id, error.mappingText(change))
        case .channelSilent(let id, let error): .channelSilent(id, error.mappingText(change))
        case .media(let id, let event): .media(id, event.mappingText(change))
        default: self
        }
    }
}

extension MediaEvent {
    fileprivate func mappingText(_ change: (String) -> String) -> MediaEvent {
        switch self {
        case .failed(let error): .failed(error.mappingText(change))
        case .closedByPeer(let error): .closedByPeer(error.mappingText(change))
        case .lost(let error, let again): .lost(error.mappingText(change), again: again)
        case .recovering(let error): .recovering(error.mappingText(change))
        default: self
        }
    }
}
