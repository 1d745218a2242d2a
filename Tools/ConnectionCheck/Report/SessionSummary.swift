package import DecartProtocol

/// Messages and statistics of a session of the element `decarttransform`. Unknown values are nil.
package struct SessionSummary: Sendable, Equatable {
    package struct Message: Sendable, Equatable {
        package var isError: Bool
        /// Milliseconds since the start.
        package var time: Int
        /// The element's code, such as `INVALID_API_KEY`; else the domain and number of GStreamer's.
        package var code: String
        package var stage: String?
        package var httpStatus: Int?
        package var text: String

        package init(
            isError: Bool, time: Int, code: String, stage: String? = nil, httpStatus: Int? = nil, text: String
        ) {
            self.isError = isError
            self.time = time
            self.code = code
            self.stage = stage
            self.httpStatus = httpStatus
            self.text = text
        }
    }

    package struct State: Sendable, Equatable {
        package var time: Int
        package var name: String
    }

    /// Milliseconds.
    package var duration = 0
    package var states: [State] = []
    package var messages: [Message] = []
    /// `livekit` or `webrtc`.
    package var transport: String?
    package var connectTime: Duration?
    package var firstFrameTime: Duration?
    package var framesSent = 0
    package var framesReceived = 0
    /// Rate of the received frames.
    package var framesPerSecond: Double?
    package var receivedSize: String?
    /// bit/s.
    package var bitrateSent: Int?
    package var bitrateReceived: Int?
    package var roundTripTime: Duration?
    package var packetsLost: Int?
    package var packetsReceived = 0
    package var isRelayed: Bool?
    package var candidateTypes: String?
    package var retries = 0

    package init() {}

    package var error: Message? { messages.last { $0.isError } }

    // MARK: Output

    package var lines: [String] {
        func milliseconds(_ duration: Duration?) -> String { duration.map { "\($0.milliseconds) ms" } ?? "-" }
        let loss = packetsLost.map { "\($0) of \(packetsReceived + $0) packets lost" } ?? "loss unknown"
        let roundTrip = roundTripTime.map { "\(Self.rounded($0 / .milliseconds(1))) ms" } ?? "-"
        let rows: [(String, String)] = [
            ("transport", [transport, candidateTypes].compactMap(\.self).joined(separator: ", candidates ")),
            ("connected after", milliseconds(connectTime)),
            ("first frame after", milliseconds(firstFrameTime)),
            ("frames", "\(framesSent) sent, \(framesReceived) received"),
            ("frame rate", framesPerSecond.map { "\(Self.rounded($0)) fps" } ?? "-"),
            ("frame size", receivedSize ?? "-"),
            ("bitrate", "\(Self.kilobits(bitrateSent)) sent, \(Self.kilobits(bitrateReceived)) received"),
            ("network", "round trip \(roundTrip), \(loss)"),
            ("retries", String(retries)),
        ]
        let width = rows.map(\.0.count).max() ?? 0
        let head = rows.map {
            $0.0 + String(repeating: " ", count: width - $0.0.count + 2) + ($0.1.isEmpty ? "-" : $0.1)
        }
        return head
            + messages.map { "\($0.isError ? "error" : "warning") at \($0.time) ms: \($0.code): \($0.text)" }
    }

    private static func rounded(_ value: Double) -> Double { (value * 10).rounded() / 10 }
    private static func kilobits(_ value: Int?) -> String { value.map { "\($0 / 1000) kbit/s" } ?? "-" }

    package var json: JSONValue {
        .fields([
            "duration-ms": .integer(duration), "transport": transport.map { .string($0) },
            "connect-ms": connectTime.map { .integer($0.milliseconds) },
            "first-frame-ms": firstFrameTime.map { .integer($0.milliseconds) },
            "frames-sent": .integer(framesSent), "frames-received": .integer(framesReceived),
            "frames-per-second": framesPerSecond.map { .number(Self.rounded($0)) },
            "received-size": receivedSize.map { .string($0) }, "bitrate-sent": bitrateSent.map { .integer($0) },
            "bitrate-received": bitrateReceived.map { .integer($0) },
            "round-trip-ms": roundTripTime.map { .number(Self.rounded($0 / .milliseconds(1))) },
            "packets-lost": packetsLost.map { .integer($0) }, "packets-received": .integer(packetsReceived),
            "relayed": isRelayed.map { .bool($0) }, "candidate-types": candidateTypes.map { .string($0) },
            "retries": .integer(retries),
            "states": .array(
                states.map { .fields(["time-ms": .integer($0.time), "state": .string($0.name)]) }),
            "messages": .array(messages.map(\.json)),
        ])
    }

    package func mappingText(_ change: (String) -> String) -> SessionSummary {
        var copy = self
        for index in copy.messages.indices { copy.messages[index].text = change(copy.messages[index].text) }
        return copy
    }
}

extension SessionSummary.Message {
    var json: JSONValue {
        .fields([
            "kind": .string(isError ? "error" : "warning"), "time-ms": .integer(time), "code": .string(code),
            "stage": stage.map { .string($0) }, "http-status": httpStatus.map { .integer($0) }, "text": .string(text),
        ])
    }
}

extension SessionSummary {
    /// The session as a row of the table.
    package func result(_ host: String) -> ProbeResult {
        let duration = Duration.milliseconds(duration)
        if let error {
            return ProbeResult(.session, host, .failed(cause(of: error)), duration, error.text)
        }
        guard framesReceived > 0 else {
            let state = states.last?.name ?? "idle"
            let warning = messages.last.map { " The last warning: \($0.text)" } ?? ""
            return ProbeResult(
                .session, host, .failed(messages.last.map { cause(of: $0) } ?? .session), duration,
                "No transformed frame arrived; the session was in the state \(state).\(warning)")
        }
        return ProbeResult(.session, host, .ok, duration, "Transformed frames arrived.")
    }

    private func cause(of error: Message) -> Cause {
        switch (error.code, error.httpStatus) {
        case ("INVALID_API_KEY", _): .key
        case ("CONCURRENCY_LIMIT", _), ("INSUFFICIENT_CREDITS", _), (_, 503?): .limit
        default: .session
        }
    }
}
