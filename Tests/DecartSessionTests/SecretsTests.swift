import DecartProtocol
import DecartSession
import Log
import TestSupport
import Testing

/// Each secret of a run, in each form, in each text that a peer can send: nothing that the session gives out has it.
@Suite("Secrets in texts of peers", .timeLimit(.minutes(1)))
struct SecretsTests {
    private static let configured = [
        "ek_client+token/with=signs-0123456789", "turn-password%40&+/=0123456789", "proxy-user:pr0xy+password",
        "Bearer backend+header/0123456789",
    ]
    private static let roomToken = "eyJhbGciOiJIUzI1NiJ9.eyJyb29tIjoiciJ9.c2lnbmF0dXJl"
    private static let prompt = "PRIVATE prompt: a castle of glass"
    private static let secrets = configured + [roomToken, prompt, FakeChannel.key]

    private static func forms(_ secret: String) -> [String] {
        let half = secret.index(secret.startIndex, offsetBy: secret.count / 2)
        return [
            secret, secret.uppercased(), secret.lowercased(), PercentEncoding.encode(secret),
            PercentEncoding.encode(secret).lowercased(),
            PercentEncoding.encode(String(secret[..<half])) + String(secret[half...]),
            String(secret[..<half]) + PercentEncoding.encode(String(secret[half...])),
            Base64.encode(Array(secret.utf8)),
        ]
    }

    /// What a peer may write into which event.
    enum Place: CaseIterable {
        case error, promptAck, imageAck, endOfGeneration, unknownType, closeReason, upgrade, silence, malformed
        case mediaFailure, closedByRoom, lost, recovering

        func put(_ text: String, _ world: World) throws {
            let channel = try #require(world.reported.channels.last)
            let media = try #require(world.reported.media.last)
            var refusal = SessionError(.server, "HTTP 503 \(text): \(text)", stage: .upgrade, httpStatus: 503)
            refusal.refusal = text
            let other = SessionError(.webRTC, "a=\(text), STUN 401 \(text), left: \(text)", stage: .media)
            switch self {
            case .error: try channel.say(.error(text, type: "internal_error"))
            case .promptAck: try channel.say(.promptAck(PromptAck(prompt: nil, success: false, error: text)))
            case .imageAck: try channel.say(.setImageAck(SetImageAck(success: false, error: text)))
            case .endOfGeneration: try channel.say(.generationEnded(seconds: 1, reason: "moderation \(text)"))
            case .unknownType: try channel.say(.unknown(type: text))
            case .closeReason: channel.onEvent(.closed(code: 1011, reason: text))
            case .upgrade: channel.onEvent(.failed(refusal))
            case .silence: channel.onEvent(.silent(refusal))
            case .malformed: channel.onEvent(.text([UInt8]("{\"type\":\"\(text)".utf8)))
            case .mediaFailure: media.onEvent(.failed(other))
            case .closedByRoom: media.onEvent(.closedByPeer(other))
            case .lost: media.onEvent(.lost(other, again: .room(url: "wss://room.example", token: Secret("again"))))
            // It is told once the session ends for it.
            case .recovering: for event in [MediaEvent.pathLost, .recovering(other)] { media.onEvent(event) }
            }
        }
    }

    @Test(arguments: Place.allCases) func noneComesOut(of place: Place) throws {
        for secret in Self.secrets {
            for form in Self.forms(secret) {
                let log = Watched("")
                let logger = Logger(isEnabled: { _ in true }) { entry in log.change { $0 += entry.text + "\n" } }
                let world = try World(logger: logger) {
                    $0.secrets = Self.configured.map { Secret($0) }
                    $0.transport = .livekit
                }
                _ = world.with { $0.start() }
                world.scheduler.run()
                let channel = try #require(world.reported.channels.last)
                channel.onEvent(.opened(transport: nil, upgrade: nil))
                let info = LiveKitRoomInfo(url: "wss://room.example", token: Secret(Self.roomToken), roomName: "r")
                try channel.say(.livekitRoomInfo(info))
                world.scheduler.run()
                try channel.say(.promptAck(PromptAck(prompt: "Lego World", success: true)))
                world.reported.media.last?.onEvent(.connected(ice: nil, dtls: nil))
                world.scheduler.run()
                _ = world.with { $0.updatePrompt(PromptUpdate(prompt: try? Prompt(Self.prompt))) }
                world.scheduler.run()
                try place.put("[\(form)]", world)
                // Channels and media paths write what their peers wrote, too.
                let layer = world.redactor.guarding(logger).naming("publisher")
                layer.warning("rejected: [\(form)]")
                layer.debug("a=\(form)")
                world.scheduler.advance(place == .recovering ? .seconds(31) : .seconds(2))

                let notified = world.reported
                let errors = notified.snapshots.compactMap(\.lastError).map { "\($0) \($0.refusal ?? "")" }
                // The result of the application's own request names its prompt.
                let reports = notified.reports.map { "\($0)" }
                    .filter { !$0.hasPrefix("promptResult") || secret != Self.prompt }
                for text in reports + errors + [log.value] {
                    #expect(!Self.plain(text).contains(Self.plain(form)), "\(place), \(form): \(text)")
                    #expect(!Self.plain(text).contains(Self.plain(secret)), "\(place), \(form): \(text)")
                }
            }
        }
    }

    /// A terminal that shows the log does nothing that a service writes, and no line has an end of the service's.
    @Test(arguments: [Place.error, .promptAck, .imageAck, .endOfGeneration, .unknownType, .malformed, .closeReason])
    func logIsPrintable(place: Place) throws {
        let log = Watched<[String]>([])
        let logger = Logger(isEnabled: { _ in true }) { entry in log.change { $0.append(entry.text) } }
        let world = try World(logger: logger) { $0.transport = .livekit }
        _ = world.with { $0.start() }
        world.scheduler.run()
        let channel = try #require(world.reported.channels.last)
        channel.onEvent(.opened(transport: nil, upgrade: nil))
        let room = LiveKitRoomInfo(url: "wss://room.example", token: Secret(Self.roomToken), roomName: "r")
        try channel.say(.livekitRoomInfo(room))
        world.scheduler.run()
        try place.put("x\u{1b}]0;y\u{7}\u{9b}\nline " + String(repeating: "z", count: 5000), world)
        world.scheduler.advance(.seconds(2))
        #expect(!log.value.isEmpty)
        for line in log.value {
            let isClean = line.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) }
            #expect(isClean && line.utf8.count < 2000, "\(place): \(line)")
        }
    }

    /// Lower case, without percent-encoding; the test's own way, not the redactor's.
    private static func plain(_ text: String) -> [UInt8] {
        var bytes: [UInt8] = []
        let all = Array(text.utf8)
        var index = 0
        while index < all.count {
            if all[index] == UInt8(ascii: "%"), index + 2 < all.count,
                let byte = UInt8(String(decoding: all[index + 1...index + 2], as: UTF8.self), radix: 16)
            {
                bytes.append(byte)
                index += 3
            } else {
                bytes.append(all[index])
                index += 1
            }
        }
        return bytes.map { (0x41...0x5A).contains($0) ? $0 + 0x20 : $0 }
    }
}
