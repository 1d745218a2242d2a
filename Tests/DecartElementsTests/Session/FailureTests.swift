import DecartProtocol
import GStreamerKit
import Glibc
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Each configuration or connection that cannot work posts exactly one error, with the right code and a text that
    /// names the remedy.
    @Suite(.serialized, .timeLimit(.minutes(3)), .indifferentToTransport) struct FailureTests {
        // Codes of GstResourceError.
        static let notFound = "resource 3"
        static let openReadWrite = "resource 7"
        static let settings = "resource 13"
        static let notAuthorized = "resource 15"

        private func expectError(
            _ name: String, code: String, saying text: String, _ properties: String, settings: [(String, String)] = [],
            mustBeImmediate: Bool = false, sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            try TransformPipeline.run(try .init(properties, settings: settings), sourceLocation: sourceLocation) {
                pipeline in
                let result = pipeline.play()
                if mustBeImmediate { #expect(result == .failure, sourceLocation: sourceLocation) }
                let error = try #require(pipeline.waitForError(), sourceLocation: sourceLocation)
                #expect(error.name == name, sourceLocation: sourceLocation)
                #expect(error.source == "t", sourceLocation: sourceLocation)
                #expect(error.details?.string("code") == code, sourceLocation: sourceLocation)
                #expect(
                    error.text.lowercased().contains(text.lowercased()), "\(error.text)",
                    sourceLocation: sourceLocation)
                #expect(
                    error.text.last.map { ".!?".contains($0) } == true, "\(error.text)", sourceLocation: sourceLocation)
                let said = error.text + error.debug + (error.details?.description ?? "")
                #expect(!said.contains(TransformPipeline.key), sourceLocation: sourceLocation)
                // The source may post "streaming stopped"; the element itself posts one error.
                let errors = pipeline.collect(milliseconds: 100).filter { $0.kind == .error }
                #expect(errors.count == 1, "\(errors.map(\.text))", sourceLocation: sourceLocation)
                #expect(pipeline.frames == 0, sourceLocation: sourceLocation)
            }
        }

        private static let key = "api-key=\(TransformPipeline.key)"

        @Test func noKey() throws {
            unsetenv("DECART_API_KEY")
            try expectError(
                Self.notAuthorized, code: "INVALID_API_KEY", saying: "DECART_API_KEY",
                "base-url=ws://127.0.0.1:9 \(TransformPipeline.custom)", mustBeImmediate: true)
        }

        /// The service would refuse it: nothing is dialled, and an application's backend is asked for another one.
        @Test(arguments: [false, true]) func anExpiredToken(fromBackend: Bool) throws {
            let claims = Base64.encode([UInt8](#"{"exp":1760000000}"#.utf8), alphabet: .url)
            let token = "eyJhbGciOiJFZERTQSJ9.\(claims).c2ln"
            try StandIn.run { standIn in
                if fromBackend {
                    // The endpoint gives opaque tokens; the expired key is not used.
                    let keys =
                        "api-key=\(token) api-key-url=http://127.0.0.1:\(standIn.port)/v1/client/tokens "
                        + "api-key-headers=\"headers,X-API-KEY=(string)x\""
                    try TransformPipeline.run(try .init(standIn, keys, prompt: "film noir")) { pipeline in
                        pipeline.play()
                        #expect(pipeline.waitForFrames(1), "\(pipeline.takeProblems())")
                    }
                } else {
                    try expectError(
                        Self.notAuthorized, code: "INVALID_API_KEY", saying: "has expired",
                        "base-url=\(standIn.url) api-key=\(token) \(TransformPipeline.custom)")
                    #expect(standIn.sessions.isEmpty)
                }
            }
        }

        @Test func aKeyFileThatIsNotThere() throws {
            try expectError(
                Self.notAuthorized, code: "INVALID_API_KEY", saying: "api-key-file",
                "base-url=ws://127.0.0.1:9 api-key-file=/nonexistent/key \(TransformPipeline.custom)",
                mustBeImmediate: true)
        }

        /// The last two are unencrypted, and of another machine.
        @Test(arguments: [
            ("ftp://example.com", "base-url"), ("nonsense", "base-url"), ("wss://", "base-url"),
            ("wss://user:secret@example.com", "base-url"), ("ws://192.0.2.1:9001", "insecure"),
            ("http://example.com", "insecure"),
        ])
        func aBadURL(url: String, excerpt: String) throws {
            try expectError(
                Self.settings, code: "INVALID_BASE_URL", saying: excerpt, "\(Self.key) \(TransformPipeline.custom)",
                settings: [("base-url", url)], mustBeImmediate: true)
        }

        @Test func aRefusedConnection() throws {
            let taken = try LoopbackSocket(stream: true, backlog: nil)
            defer { withExtendedLifetime(taken) {} }
            try expectError(
                Self.openReadWrite, code: "NETWORK_ERROR", saying: "127.0.0.1",
                "base-url=ws://127.0.0.1:\(taken.port) \(Self.key) \(TransformPipeline.custom)")
        }

        /// A word of the JavaScript SDK's `RealtimeWebSocketErrorType`, and an HTTP answer of a FastAPI service; the
        /// suites of DecartSession and Signalling for refusals have all of them.
        @Test(arguments: [
            ("error_type:type=insufficient_credits", "INSUFFICIENT_CREDITS", "Top up the account's credits."),
            ("http_422", "INVALID_OPTIONS", "query.model"),
            ("close_1008_at_join:reason=policy", "WEBSOCKET_ERROR", "(1008: policy)"),
        ])
        func aRefusalIsDialledOnce(fault: String, code: String, excerpt: String) throws {
            let faults = [try Fault(parsing: fault)]
            try TransformPipeline.run(
                with: { try .init($0, "max-retries=5", prompt: "film noir") }, standIn: { $0.faults = faults }
            ) { pipeline, standIn in
                pipeline.play()
                let error = try #require(pipeline.waitForError())
                #expect(error.details?.string("code") == code && error.details?["permanent"]?.bool == true)
                #expect(error.text.contains(excerpt), "\(error.text)")
                #expect(pipeline.collect(milliseconds: 100).count == 1)
                #expect(pipeline.count("reconnects") == 0)
                #expect(standIn.sessions.count == (fault.hasPrefix("http") ? 0 : 1))
            }
        }

        @Test func aServerThatKeepsSilent() throws {
            try SilentServer.with { server in
                let time = try duration {
                    try expectError(
                        Self.openReadWrite, code: "CONNECTION_TIMEOUT", saying: "within 1 s",
                        "base-url=\(server.url) connection-timeout=1 \(Self.key) \(TransformPipeline.custom)")
                }
                measure("time to the error", time, atMost: .seconds(4))
            }
        }

        @Test func aModelOfUnknownSize() throws {
            try expectError(
                Self.notFound, code: "MODEL_NOT_FOUND", saying: "lucy-latest",
                "base-url=ws://127.0.0.1:9 \(Self.key) model=unheard-of",
                mustBeImmediate: true)
        }

        @Test func anEncoderThatDoesNotExist() throws {
            try TransformPipeline.run(with: { try .init($0, "encoder=nosuchencoder") }) { pipeline, _ in
                pipeline.play()
                let error = try #require(pipeline.waitForError())
                #expect(error.text.contains("nosuchencoder"), "\(error.text)")
                #expect(error.text.contains("property encoder"), "\(error.text)")
                let errors = pipeline.collect(milliseconds: 100).filter { $0.kind == .error }
                #expect(errors.count == 1)
            }
        }

        @Test(arguments: [
            ("rtp-port-range=40000", "lower one first"), ("rtp-port-range=40001-40000", "lower one first"),
            ("rtp-port-range=0-9", "lower one first"), ("rtp-port-range=1-65536", "lower one first"),
            ("rtp-port-range=1-2-3", "lower one first"), ("local-address=fe80::1", "local-address"),
            ("local-address=a/b", "local-address"), ("local-address=300.1.2.3", "neither an address"),
            ("http-proxy=https://canary:canary@proxy:1", "http-proxy"),
            ("http-proxy=http://canary:%canary@proxy", "http-proxy"), ("stun-server=nonsense", "-server"),
            ("turn-servers=<\"nonsense\">", "-server"),
        ]) func aBadPlaceInTheNetwork(properties: String, excerpt: String) throws {
            try expectError(
                Self.settings, code: "INVALID_OPTIONS", saying: excerpt,
                "base-url=ws://127.0.0.1:9 \(Self.key) \(TransformPipeline.custom) \(properties)",
                mustBeImmediate: true)
        }

        @Test(arguments: [
            ("base-url=wss://nobody.invalid", "nobody.invalid"),
            ("base-url=wss://192.0.2.1 local-address=nosuch0", "nosuch0"),
            ("base-url=wss://192.0.2.1 local-address=192.0.2.77", "not one of this host's"),
            ("base-url=wss://nobody.invalid http-proxy=http://127.0.0.1:9", "The HTTP proxy cannot be reached"),
        ]) func noWayToTheService(properties: String, excerpt: String) throws {
            try expectError(
                Self.openReadWrite, code: "NETWORK_ERROR", saying: excerpt,
                "\(Self.key) \(TransformPipeline.custom) \(properties)")
        }

        @Test func theKeyComesFromTheEnvironmentOrAFile() throws {
            try TemporaryFolder.with { folder in
                let path = try folder.write("key", Array("key-of-a-file\n".utf8))
                try StandIn.run({ $0.keys = KeyPolicy(accepted: ["key-of-a-file"]) }) { standIn in
                    let properties = "base-url=\(standIn.url) \(TransformPipeline.custom)"
                    try TransformPipeline.run(try .init(properties + " api-key-file=\(path)")) { pipeline in
                        pipeline.play()
                        #expect(pipeline.waitForFrames(1))
                    }
                }
                try StandIn.run({ $0.keys = KeyPolicy(accepted: ["key-of-the-environment"]) }) { standIn in
                    setenv("DECART_API_KEY", "key-of-the-environment", 1)
                    defer { unsetenv("DECART_API_KEY") }
                    let properties = "base-url=\(standIn.url) \(TransformPipeline.custom)"
                    try TransformPipeline.run(try .init(properties + " api-key-file=\(path)")) { pipeline in
                        pipeline.play()
                        #expect(pipeline.waitForFrames(1))
                    }
                }
            }
        }

        @Test func aKeyFileOfSeveralLines() throws {
            try TemporaryFolder.with { folder in
                let path = try folder.write("key", Array("first\nsecond\n".utf8))
                try expectError(
                    Self.notAuthorized, code: "INVALID_API_KEY", saying: "has several lines",
                    "base-url=ws://127.0.0.1:9 api-key-file=\(path) \(TransformPipeline.custom)", mustBeImmediate: true)
            }
        }

        @Test func withoutPropertiesEveryStateIsSurvived() throws {
            try #require(ElementTests.isReady)
            let element = try Element(factory: "decarttransform")
            for _ in 0..<3 {
                #expect(element.setState(.ready) == .success)
                #expect(element.setState(.playing) == .failure)
                #expect(element.setState(.null) == .success)
                #expect(element.setState(.paused) == .failure)
                #expect(element.setState(.null) == .success)
            }
        }
    }
}
