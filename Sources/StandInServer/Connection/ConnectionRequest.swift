import DecartProtocol

/// What the upgrade request asks for. The key is not among it: it is compared once, in `Admission`, and then forgotten.
package struct ConnectionRequest: Sendable, Equatable {
    package let model: String
    /// `pixel_latency=1`: carry the latency marker to the painted picture.
    package let wantsLatencyMarker: Bool
    /// `livekit_early_room_info=true`: media are to go through a room.
    package let asksForRoom: Bool
    /// The host that the client knows the stand-in by, with its port.
    package let host: String?
    /// `resolution=…`, as sent.
    package let resolution: String?
    /// `speed=…`, as sent.
    package let speed: String?
    /// `user_agent=…`, as sent.
    package let userAgent: String?
    /// The session that is to be watched, in place of one of its own.
    package var watched: String?
}

/// Which keys open the door.
package struct KeyPolicy: Sendable {
    /// Nil: any key but an empty one.
    package var accepted: Set<String>?
    package var rejected: Set<String>

    package init(accepted: Set<String>? = nil, rejected: Set<String> = []) {
        self.accepted = accepted
        self.rejected = rejected
    }

    func admits(_ key: String?) -> Bool {
        guard let key, !key.isEmpty, !rejected.contains(key) else { return false }
        return accepted?.contains(key) ?? true
    }
}

extension KeyPolicy: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { accepted == nil ? "any key" : "<redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}

/// The answer to a request line: a session, or an HTTP status with words that carry nothing secret of it.
enum Admission: Equatable {
    /// With all faults of the connection, those of the URL included.
    case admitted(ConnectionRequest, FaultPlan)
    case refused(HTTPAnswer)
    /// Header fields without end, until the client has enough.
    case neverAnswered

    /// - Parameters:
    ///   - plan: the stand-in's own faults for this connection.
    ///   - isSession: whether a session of this id can be watched.
    init(
        target: String, host: String? = nil, keys: KeyPolicy, isFull: Bool, plan: FaultPlan = FaultPlan(),
        isSession: (String) -> Bool = { _ in false }
    ) {
        let faults: FaultPlan
        do throws(FaultSyntaxError) {
            faults = plan + (try FaultPlan(target: target))
        } catch {
            self = .refused(HTTPAnswer(400, error.description))
            return
        }
        if faults.contains(.endlessHeaders) {
            self = .neverAnswered
            return
        }
        if let answer = faults.answer {
            self = .refused(answer)
            return
        }
        let path = target.prefix { $0 != "?" }
        let watched = Self.watchedSession(path)
        guard path.hasSuffix(DecartModel.urlPath) || watched != nil else {
            self = .refused(HTTPAnswer(404, "unknown path: sessions are opened at \(DecartModel.urlPath)"))
            return
        }
        var items: [String: String] = [:]
        // The first of several items with one name counts.
        for item in PercentEncoding.queryItems(ofTarget: target) where items[item.name] == nil {
            items[item.name] = item.value
        }
        guard keys.admits(items["api_key"]) else {
            self = .refused(HTTPAnswer(401, "invalid api key"))
            return
        }
        guard watched.map(isSession) ?? true else {
            self = .refused(HTTPAnswer(404, "there is no such session"))
            return
        }
        // Viewers name none.
        guard let model = watched == nil ? (try? DecartModel(named: items["model"] ?? ""))?.name : "" else {
            self = .refused(HTTPAnswer(400, "no valid model is named"))
            return
        }
        guard !isFull else {
            self = .refused(HTTPAnswer(503, "no free session"))
            return
        }
        let request = ConnectionRequest(
            model: model, wantsLatencyMarker: items["pixel_latency"] == "1",
            asksForRoom: items["livekit_early_room_info"] == "true", host: host, resolution: items["resolution"],
            speed: items["speed"], userAgent: items["user_agent"], watched: watched)
        self = .admitted(request, faults)
    }

    /// `…/subscribe/{sid}`
    private static func watchedSession(_ path: Substring) -> String? {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count >= 3, parts[parts.count - 2] == "subscribe" else { return nil }
        return parts.last.flatMap { PercentEncoding.decode($0) }
    }
}
