import DecartProtocol

/// The decision on an upgrade request: a session, or an HTTP error. The error text quotes nothing of the request, which
/// may hold the key.
enum Admission: Equatable {
    /// The plan holds all faults of the connection, those in the URL included.
    case admitted(ConnectionRequest, FaultPlan)
    case refused(HTTPAnswer)
    /// The client gets endless header fields until it disconnects.
    case neverAnswered

    /// - Parameters:
    ///   - userAgent: The header; `user_agent` in the URL takes precedence.
    ///   - plan: The stand-in's own faults for this connection.
    ///   - limitAnswer: Answer if the account's sessions are all in use; nil: they are not.
    ///   - isSession: Returns true if a session with this ID can be watched.
    init(
        target: String, host: String? = nil, userAgent: String? = nil, keys: KeyPolicy, isFull: Bool,
        limitAnswer: LimitAnswer? = nil, plan: FaultPlan = FaultPlan(),
        isSession: (String) -> Bool = { _ in false }
    ) {
        do {
            let faults = plan + (try FaultPlan(target: target))
            if faults.contains(.endlessHeaders) {
                self = .neverAnswered
                return
            }
            if let answer = faults.answer { throw answer }
            let path = target.prefix { $0 != "?" }
            let viewedSessionID = Self.viewedSession(path)
            guard path.hasSuffix(StrictRules.path) || viewedSessionID != nil else {
                throw HTTPAnswer(404, "unknown path: sessions are opened at \(StrictRules.path)")
            }
            let items = PercentEncoding.firstQueryItems(ofTarget: target)
            guard keys.admits(items["api_key"]) else { throw HTTPAnswer(401, "invalid api key") }
            guard viewedSessionID.map(isSession) ?? true else { throw HTTPAnswer(404, "there is no such session") }
            // A viewer's URL has no model. SDKs take any name (Python 0.2.4, models.py, `CustomModelDefinition`).
            let model = viewedSessionID == nil ? items["model"] ?? "" : ""
            guard viewedSessionID != nil || !model.isEmpty else { throw HTTPAnswer(400, "no model is named") }
            guard !isFull else { throw HTTPAnswer(503, "no free session") }
            // Viewers watch a session of the account and have none of their own.
            let limitAnswer = viewedSessionID == nil ? limitAnswer : nil
            guard limitAnswer != .http else { throw HTTPAnswer(429, LimitAnswer.text) }
            // The session's record has fields of their own for these.
            let known: Set = [
                "api_key", "model", "pixel_latency", "livekit_early_room_info", "resolution", "speed", "user_agent",
                "fault", "livekit_server_codec",
            ]
            let request = ConnectionRequest(
                model: model, wantsLatencyMarker: items["pixel_latency"] == "1",
                asksForRoom: items["livekit_early_room_info"] == "true", host: host, resolution: items["resolution"],
                speed: items["speed"], userAgent: items["user_agent"] ?? userAgent,
                serverCodec: items["livekit_server_codec"], otherItems: items.filter { !known.contains($0.key) },
                unknownItem: StrictRules.unknown(inItems: items), viewedSessionID: viewedSessionID,
                maximumDuration: items["api_key"].flatMap { keys.clientTokens?.sessionLimit(of: $0) },
                limitAnswer: limitAnswer)
            self = .admitted(request, faults)
        } catch {
            self = .refused(error as? HTTPAnswer ?? HTTPAnswer(400, "\(error)"))
        }
    }

    /// Returns the ID of the session to watch from a path that ends with `/subscribe/{sid}`.
    private static func viewedSession(_ path: Substring) -> String? {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count >= 3, parts[parts.count - 2] == "subscribe" else { return nil }
        return parts.last.flatMap { PercentEncoding.decode($0) }
    }
}
