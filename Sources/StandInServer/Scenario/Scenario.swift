// A scenario: timed changes of the stand-in's behaviour, from a JSON file or the control endpoint.
import DecartProtocol

package struct Scenario: Sendable, Equatable {
    package struct Step: Sendable, Equatable {
        /// Waits for this event before `after` begins. Nil: `after` counts from the previous step.
        package var when: SessionEvent?
        /// Seconds.
        package var after: Double
        /// Replaces the faults of new connections; nil: they stay.
        package var faults: [Fault]?
        /// Faults for running sessions.
        package var inject: [Fault]
        /// Closes all sessions with this code.
        package var close: UInt16?
        package var reason: String
        /// Resets all connections.
        package var drops: Bool
    }

    package var name: String
    package var steps: [Step]

    package static let maximumSize = 64 << 10
    package static let maximumStepCount = 256

    /// Errors name the step and the key, and quote nothing longer than a word.
    package init(parsing bytes: [UInt8]) throws(StandInError) {
        do {
            self = try JSONText.decode(Scenario.self, from: bytes, maximumSize: Self.maximumSize)
        } catch {
            throw StandInError("the scenario is not valid: " + error.message)
        }
    }
}

/// Events of sessions that a scenario can wait for.
package enum SessionEvent: String, Sendable, CaseIterable {
    /// A session has opened.
    case session
    /// A session has its first frame, or the first one after a pause.
    case generating
    /// A session has ended.
    case closed
}

extension Scenario: Decodable {
    private enum Key: String, CodingKey, CaseIterable { case name, steps }

    package init(from decoder: any Decoder) throws {
        try AnyKey.check(decoder, Key.allCases.map(\.rawValue), "the scenario")
        let container = try decoder.container(keyedBy: Key.self)
        name = try container.decodeIfPresent(String.self, forKey: .name) ?? ""
        guard name.utf8.count <= 256 else { throw Self.error("name is longer than 256 bytes") }
        var list = try container.nestedUnkeyedContainer(forKey: .steps)
        steps = []
        while !list.isAtEnd {
            guard steps.count < Self.maximumStepCount else {
                throw Self.error("there are more than \(Self.maximumStepCount) steps")
            }
            steps.append(try Step(from: list.superDecoder(), number: steps.count + 1))
        }
        guard !steps.isEmpty else { throw Self.error("there are no steps") }
    }

    fileprivate static func error(_ words: String) -> ProtocolError { ProtocolError(.server, words + ".") }
}

extension Scenario.Step {
    private enum Key: String, CodingKey, CaseIterable { case when, after, faults, inject, close, reason, drop, note }

    fileprivate init(from decoder: any Decoder, number: Int) throws {
        let place = "step \(number)"
        try AnyKey.check(decoder, Key.allCases.map(\.rawValue), place)
        let container = try decoder.container(keyedBy: Key.self)

        func value<Value: Decodable>(_ type: Value.Type, _ key: Key, _ kind: String) throws -> Value? {
            do {
                return try container.decodeIfPresent(type, forKey: key)
            } catch {
                throw Scenario.error("\(place): \(key.rawValue) is not \(kind)")
            }
        }
        func faults(_ key: Key) throws -> [Fault]? {
            guard let specs = try value([String].self, key, "a list of faults") else { return nil }
            do {
                return try FaultPlan(parsing: specs).faults
            } catch {
                throw Scenario.error("\(place): \(error)")
            }
        }

        if let word = try value(String.self, .when, "a word") {
            guard let event = SessionEvent(rawValue: word) else {
                throw Scenario.error("\(place): when is session, generating or closed")
            }
            when = event
        }
        after = try value(Double.self, .after, "a number") ?? 0
        guard after.isFinite, (0...86_400).contains(after) else {
            throw Scenario.error("\(place): after is a number of seconds from 0 to 86400")
        }
        self.faults = try faults(.faults)
        inject = try faults(.inject) ?? []
        for fault in inject where fault.kind.scope != .session && fault.kind.scope != .media {
            throw Scenario.error("\(place): \(fault.kind.name) cannot be put into a running session")
        }
        if let code = try value(Int.self, .close, "a number") {
            guard (1000...4999).contains(code) else {
                throw Scenario.error("\(place): close is a code from 1000 to 4999")
            }
            close = UInt16(code)
        }
        reason = try value(String.self, .reason, "a text") ?? ""
        guard reason.utf8.count <= 123 else { throw Scenario.error("\(place): reason is longer than 123 bytes") }
        drops = try value(Bool.self, .drop, "true or false") ?? false
        _ = try value(String.self, .note, "a text")
    }
}

/// Any key of an object, to find misspelt ones.
private struct AnyKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init?(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }

    static func check(_ decoder: any Decoder, _ known: [String], _ place: String) throws {
        let unknown = try decoder.container(keyedBy: AnyKey.self).allKeys.map(\.stringValue).sorted()
        guard let first = unknown.first(where: { !known.contains($0) }) else { return }
        throw ProtocolError(
            .server,
            "\(place) has no key \"\(LogText.clean(first))\"; its keys are \(known.joined(separator: ", ")).")
    }
}
