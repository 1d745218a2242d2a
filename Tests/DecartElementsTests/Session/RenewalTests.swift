import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// The next session takes over before a token ends the running one, and a full account is waited for.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct RenewalTests {
        private static let prompt = "film noir"

        private static func key(_ number: Int) -> String {
            let claims = #"{"constraints":{"realtime":{"maxSessionDuration":6}},"number":\#(number)}"#
            return ["{}", claims, "signature"].map { Base64.encode([UInt8]($0.utf8), alphabet: .url) }
                .joined(separator: ".")
        }

        private func renewed(_ pipeline: TransformPipeline) -> Structure? {
            pipeline.waitForMessage { $0.structure?.name == "decart-session-renewed" }?.structure
        }

        /// Each session gets a key of its own; audio and video continue, and only transformed frames leave the element.
        @Test func aFreshKeyRenewsTheSession() throws {
            let raw = try Reference.input()
            let expected = raw.applying(prompt: Self.prompt)
            try TransformPipeline.runWell(with: { try .withAudio($0, "renew-before=3") }) { pipeline, standIn in
                let keys = Watched(0)
                let ids = Watched<[String]>([])
                let states = Watched<Set<String>>([])
                pipeline.transform.connect("request-api-key") { _ in
                    keys.change { $0 += 1 }
                    return GValueBox(Self.key(keys.value))
                }
                pipeline.transform.connect("notify::session-id") { [weak pipeline] _ in
                    guard let id = pipeline?.transform.string("session-id") else { return nil }
                    ids.change { $0.append(id) }
                    return nil
                }
                let audio = try pipeline.watchAudio()
                #expect(pipeline.stats?.int("session-duration") == 0)
                pipeline.play()
                #expect(pipeline.waitForFrame(expected))
                #expect(audio.waitForTone(440))
                pipeline.transform.connect("notify::connection-state") { [weak pipeline] _ in
                    if let state = pipeline?.connectionState { states.change { $0.insert(state) } }
                    return nil
                }
                let renewals = Verification.count(2, gate: 1)
                for renewal in 1...renewals {
                    let seconds = try #require(renewed(pipeline)?.double("seconds"), "renewal \(renewal)")
                    #expect(seconds > 0)
                    measure("renewal", seconds, atMost: 2, unit: "s")
                    #expect(pipeline.waitForFrame(expected) && audio.waitForTone(440))
                    #expect(pipeline.stats?.int("session-duration") == 6)
                }
                #expect(states.value.isSubset(of: ["connected", "generating"]), "\(states.value)")
                #expect(ids.wait { $0.count > renewals })
                #expect(Set(ids.value).count == ids.value.count, "\(ids.value)")
                // The next renewal may have its key, and not its session.
                #expect(eventually { keys.value > renewals && keys.value == standIn.sessions.count })
                #expect(eventually { pipeline.count("renewals") >= renewals })
                #expect(pipeline.count("reconnects") == 0)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// The element dials again when a session of the account has ended, although it may not retry.
        @Test(.indifferentToTransport) func aFullAccountIsWaitedFor() throws {
            try TransformPipeline.runWell(
                with: { try .init($0, prompt: Self.prompt) }, standIn: { $0.sessionLimit = 1 }
            ) { first, standIn in
                first.play()
                #expect(first.waitForFrames(1))
                try TransformPipeline.run(try .init(standIn, prompt: Self.prompt)) { second in
                    second.play()
                    let warning = second.waitForProblem(.warning)
                    #expect(warning?.name == "resource 4" && warning?.text.contains("end another one") == true)
                    #expect(warning?.details?.string("code") == "CONCURRENCY_LIMIT")
                    #expect(eventually { second.stats?.string("service-status") == "waiting-for-session" })
                    #expect(second.connectionState == "connecting")
                    first.transform.emit("disconnect")
                    let time = duration { #expect(second.waitForFrames(1)) }
                    measure("wait for a session", time, atMost: .seconds(7))
                    #expect(eventually { second.connectionState != "connecting" })
                    #expect(second.takeProblems().filter { $0.kind == .error }.isEmpty)
                }
            }
        }

        @Test(.indifferentToTransport) func theLimitMayBeAnErrorAtOnce() throws {
            try TransformPipeline.run(with: { try .init($0, prompt: Self.prompt) }, standIn: { $0.sessionLimit = 1 }) {
                first, standIn in
                first.play()
                #expect(first.waitForFrames(1))
                try TransformPipeline.run(
                    try .init(standIn, "max-retries=5 limit-wait=0", prompt: Self.prompt)
                ) { second in
                    second.play()
                    let error = second.waitForError()
                    #expect(error?.details?.string("code") == "CONCURRENCY_LIMIT")
                    #expect(error?.text.contains("limit-wait") == true)
                }
            }
        }
    }
}
