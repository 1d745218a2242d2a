import DecartProtocol
import DecartSession
import Dispatch
import Signalling
import TestSupport
import Testing

/// Requests of one viewing, against a server whose responses each test scripts.
@Suite("WHEP", .timeLimit(.minutes(1)))
struct WHEPResourceTests {
    private static let token = "canary-token-1b7e"
    private static let query = "key=canary-query-9c2d"

    private static func response(_ head: String, _ lines: [String] = [], body: String = "") -> [UInt8] {
        let all = ["HTTP/1.1 \(head)", "Content-Length: \(body.utf8.count)"] + lines
        return [UInt8]((all.joined(separator: "\r\n") + "\r\n\r\n" + body).utf8)
    }

    private static let created = response(
        "201 Created", ["Content-Type: application/sdp", "Location: ../resource/1?id=2", "ETag: \"x-1\""], body: "v=0")

    private func with(
        host: String = "127.0.0.1", _ respond: @escaping @Sendable (_ request: String) -> [UInt8]?,
        _ body: (RawServer, WHEPResource) async throws -> Void
    ) async throws {
        try await withServer(.http(respond)) { server in
            var configuration = WHEPResource.Configuration(
                url: try HTTPURL(whep: "http://\(host):\(server.port)/live/cam?\(Self.query)"))
            configuration.token = Secret(Self.token)
            configuration.http.limit = .seconds(20)
            try await body(server, WHEPResource(configuration))
        }
    }

    private func start(_ resource: WHEPResource) async throws -> Result<String, SessionError> {
        let results = EventQueue<Result<String, SessionError>>()
        resource.start(offer: "v=0\r\noffer") { results.yield($0.map(\.sdp)) }
        return try #require(await results.next("an answer or a failure"))
    }

    /// `end` blocks its thread, as the element's state change does.
    private func end(_ resource: WHEPResource, wait: Duration = .seconds(3)) async {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                resource.end(wait: wait)
                continuation.resume()
            }
        }
    }

    @Test func aViewingFromOfferToEnd() async throws {
        try await with({ $0.hasPrefix("POST") ? Self.created : Self.response("204 No Content") }) { server, resource in
            let answer = try await start(resource).get()
            #expect(answer == "v=0")
            let post = try #require(server.requests.first)
            #expect(post.hasPrefix("POST /live/cam?\(Self.query) HTTP/1.1"))
            #expect(RawServer.header("Content-Type", in: post) == "application/sdp")
            #expect(RawServer.header("Content-Length", in: post) == "10")
            #expect(RawServer.header("Authorization", in: post) == "Bearer \(Self.token)")
            resource.add(fragment: "a=candidate:1")
            #expect(await server.waitForRequest(2))
            let patch = try #require(server.requests.last)
            #expect(patch.hasPrefix("PATCH /resource/1?id=2 HTTP/1.1"))
            #expect(RawServer.header("If-Match", in: patch) == "\"x-1\"")
            #expect(RawServer.header("Content-Type", in: patch) == "application/trickle-ice-sdpfrag")
            await end(resource)
            #expect(server.requests.last?.hasPrefix("DELETE /resource/1?id=2 HTTP/1.1") == true)
            #expect(
                server.requests.last.flatMap { RawServer.header("Authorization", in: $0) } == "Bearer \(Self.token)")
            await end(resource)
            #expect(server.requests.count == 3)
        }
    }

    @Test func aServerThatTakesNoCandidatesGetsNoMore() async throws {
        try await with({
            $0.hasPrefix("POST") ? Self.created : Self.response("405 Method Not Allowed")
        }) { server, resource in
            resource.add(fragment: "early")
            _ = try await start(resource).get()
            #expect(await server.waitForRequest(2))
            resource.add(fragment: "a")
            resource.add(fragment: "b")
            await end(resource)
            #expect(server.requests.map { $0.prefix(5) } == ["POST ", "PATCH", "DELET"])
        }
    }

    @Test func theTokenStaysAtItsOrigin() async throws {
        let other = try RawServer(.http { _ in Self.created })
        let port = other.port
        try await with({ request in
            request.hasPrefix("POST /live")
                ? Self.response("307 Temporary Redirect", ["Location: /again"])
                : Self.response("308 Permanent Redirect", ["Location: http://127.0.0.1:\(port)/moved/here"])
        }) { server, resource in
            let answer = try await start(resource).get()
            #expect(answer == "v=0")
            #expect(server.requests.map { RawServer.header("Authorization", in: $0) == nil } == [false, false])
            await end(resource)
            #expect(
                other.requests.map { $0.prefix { $0 != "\r\n" } } == [
                    "POST /moved/here HTTP/1.1", "DELETE /resource/1?id=2 HTTP/1.1",
                ])
            #expect(other.requests.allSatisfy { RawServer.header("Authorization", in: $0) == nil })
        }
        await other.stop()
    }

    @Test func aServerIsVerifiedBeforeItGetsTheToken() async throws {
        let certificates = try Certificates()
        let server = try RawServer(
            .http { _ in Self.created }, tls: try certificates.server(name: "whep", san: "DNS:localhost"))
        var configuration = WHEPResource.Configuration(url: try HTTPURL(whep: "https://localhost:\(server.port)/live"))
        configuration.token = Secret(Self.token)
        let refused = try failure(await start(WHEPResource(configuration)))
        #expect(refused.stage == .tls && server.requests.isEmpty)
        configuration.http.trust = .only(file: certificates.path("ca.pem"))
        let answer = try await start(WHEPResource(configuration)).get()
        #expect(answer == "v=0" && server.requests.count == 1)
        await server.stop()
    }

    /// A server must not choose the hosts that this one addresses.
    @Test func aResourceOfAnotherOriginIsLeftAlone() async throws {
        try await with({ _ in
            Self.response("201 Created", ["Location: http://127.0.0.1:9/resource/1"], body: "v=0")
        }) { server, resource in
            _ = try await start(resource).get()
            resource.add(fragment: "a")
            await end(resource)
            #expect(server.requests.count == 1)
        }
    }

    @Test func redirectsEnd() async throws {
        try await with({ _ in Self.response("307 Temporary Redirect", ["Location: /again"]) }) { server, resource in
            let error = try failure(await start(resource))
            #expect(error.message.contains("too often"))
            #expect(server.requests.count == 4)
        }
    }

    /// 127.1 stands for a host elsewhere: it is no address in the usual form, but the system's resolver takes it.
    @Test(arguments: ["127.0.0.1", "localhost", "127.0.1", "169.254.169.254"])
    func noRedirectLeadsToThisMachine(host: String) async throws {
        try await with(
            host: "127.1",
            { request in
                let port = RawServer.header("Host", in: request)?.split(separator: ":").last ?? ""
                let location = request.hasPrefix("POST /live") ? "/again" : "http://\(host):\(port)/stolen"
                return Self.response("307 Temporary Redirect", ["Location: \(location)"])
            },
            { server, resource in
                let error = try failure(await start(resource))
                #expect(error.message.contains("redirects to \(host)"))
                #expect(server.requests.map { $0.prefix(10) } == ["POST /live", "POST /agai"])
            })
    }

    private func failure(_ result: Result<String, SessionError>) throws -> SessionError {
        guard case .failure(let error) = result else { throw CancellationError() }
        return error
    }

    @Test(arguments: [
        (401, "whep-token"), (403, "whep-token"), (404, "no such stream"), (405, "takes no offers"), (406, "codec"),
        (500, "reported an error"), (302, "redirects"),
    ])
    func refusalsSayWhatToDo(status: Int, excerpt: String) async throws {
        try await with({ _ in
            Self.response("\(status) No", ["Location: //", "Retry-After: 7"], body: "canary-body")
        }) { server, resource in
            let error = try failure(await start(resource))
            #expect(error.message.contains(excerpt) && error.message.contains("HTTP \(status)"))
            #expect(!"\(error)".contains("canary") && error.retryAfter == nil)
            await end(resource)
            #expect(server.requests.count == 1)
        }
    }

    /// A proxy that wants TLS often redirects so, by which other clients turn the offer into a GET.
    @Test(arguments: [301, 302, 303]) func aRedirectThatIsNotFollowedNamesItsHost(status: Int) async throws {
        try await with({ _ in
            Self.response("\(status) Moved", ["Location: https://media.example/canary-path?canary"])
        }) { server, resource in
            let error = try failure(await start(resource))
            #expect(error.message.contains("(HTTP \(status), to https://media.example)"))
            #expect(!"\(error)".contains("canary") && server.requests.count == 1)
        }
    }

    @Test(arguments: [
        ("Basic realm=\"go2rtc\"", "Basic authentication"), ("Bearer", "whep-token"),
        ("Digest realm=\"a\", qop=\"auth\"", "digest"),
        ("Newauth realm=\"x\", Basic realm=\"y\"", "user:password@"),
    ])
    func anAuthenticationThatIsWantedIsNamed(challenge: String, excerpt: String) async throws {
        try await with({ _ in Self.response("401 No", ["WWW-Authenticate: \(challenge)"]) }) { _, resource in
            let error = try failure(await start(resource))
            #expect(error.message.contains(excerpt) && !error.message.contains("realm"))
        }
    }

    @Test func credentialsStayAtTheirOrigin() async throws {
        let other = try RawServer(.http { _ in Self.created })
        let port = other.port
        try await withServer(
            .http { request in
                request.hasPrefix("POST /live")
                    ? Self.response("307 Temporary Redirect", ["Location: /again"])
                    : Self.response("308 Permanent Redirect", ["Location: http://127.0.0.1:\(port)/moved"])
            }
        ) { server in
            let url = try HTTPURL(whep: "http://user:canary%40word@127.0.0.1:\(server.port)/live")
            let resource = WHEPResource(WHEPResource.Configuration(url: url))
            _ = try await start(resource).get()
            let expected = url.credentials?.authorization.reveal()
            #expect(server.requests.map { RawServer.header("Authorization", in: $0) } == [expected, expected])
            #expect(other.requests.map { RawServer.header("Authorization", in: $0) } == [nil])
            await end(resource)
        }
        await other.stop()
    }

    @Test func anotherOriginThatWantsAuthenticationIsNamed() async throws {
        let other = try RawServer(.http { _ in Self.response("401 No", ["WWW-Authenticate: Basic"]) })
        let target = "Location: http://127.0.0.1:\(other.port)/moved"
        try await with({ _ in Self.response("307 Moved", [target]) }) { _, resource in
            let error = try failure(await start(resource))
            #expect(error.message.hasPrefix("The URL redirects to 127.0.0.1, which wants authentication (HTTP 401)"))
        }
        await other.stop()
    }

    /// MediaMTX answers with an object, go2rtc with a line of text.
    @Test(arguments: [
        (400, "application/json", #"{"error":"codecs not supported by client"}"#, "codecs not supported by client)"),
        (500, "text/plain; charset=utf-8", "codecs not matched: H265 => H264\n", "codecs not matched: H265 => H264)"),
        (404, "application/problem+json;a=b", #"{"title":"Off","status":404}"#, "no such stream now (HTTP 404: Off)"),
        (404, "text/plain", "no stream for canary-token-1b7e and key=canary-query-9c2d", "no stream for "),
        (401, "text/plain", "Bad.", "(HTTP 401: Bad). "),
    ])
    func aRefusalHasItsCause(status: Int, type: String, body: String, excerpt: String) async throws {
        try await with({ _ in Self.response("\(status) No", ["Content-Type: \(type)"], body: body) }) { _, resource in
            let error = try failure(await start(resource))
            #expect(error.message.contains(excerpt))
            #expect(!"\(error)".contains("canary"))
            #expect(status != 400 || error.message.contains("B-frames"))
        }
    }

    @Test(
        arguments: [("7", 7), ("60000", 60), ("-1", nil), ("Fri, 31 Dec 2027 23:59:59 GMT", nil)] as [(String, Int?)])
    func aBusyServerChoosesTheWait(text: String, seconds: Int?) async throws {
        try await with({ _ in Self.response("503 Busy", ["Retry-After: \(text)"]) }) { _, resource in
            let error = try failure(await start(resource))
            #expect(error.retryAfter == seconds.map { .seconds($0) })
        }
    }

    @Test func responsesOfTheServerAreBounded() async throws {
        try await with({ _ in
            Self.response("201 Created", body: String(repeating: "a", count: 65_537))
        }) { _, resource in
            let error = try failure(await start(resource))
            #expect(error.message.contains("size limit"))
        }
        try await with({ _ in
            Self.response(
                "201 Created",
                ["Location: /\(String(repeating: "a", count: 4096))", "ETag: \(String(repeating: "a", count: 300))"],
                body: "v=0")
        }) { server, resource in
            _ = try await start(resource).get()
            resource.add(fragment: "a")
            await end(resource)
            #expect(server.requests.count == 1)
        }
        try await with({ _ in Self.response("201 Created", ["X: \(String(repeating: "a", count: 20_000))"]) }) {
            _, resource in
            _ = try failure(await start(resource))
        }
    }

    @Test func anOfferThatIsAnsweredTooLateIsDeleted() async throws {
        let isEnded = DispatchSemaphore(value: 0)
        try await with({ request in
            guard request.hasPrefix("POST") else { return Self.response("204 No Content") }
            // The script runs on a thread of the server, which has no other connection meanwhile.
            _ = isEnded.wait(timeout: .now() + 10)
            return Self.created
        }) { server, resource in
            resource.start(offer: "v=0") { _ in }
            // The request is logged before the script runs.
            #expect(await server.waitForRequest())
            await end(resource, wait: .milliseconds(100))
            isEnded.signal()
            #expect(await server.waitForRequest(2))
            #expect(server.requests.last?.hasPrefix("DELETE") == true)
        }
    }

    @Test func linkedServersAreRead() async throws {
        let links = [
            "<stun:stun.example>; rel=\"ice-server\", <https://x.example>; rel=\"next\"; username=\"none\"",
            "<turn:turn.example?transport=udp>; REL=\"a ice-server\"; username=\"us,e;r\"; credential=\"p\\\"w=\"; credential-type=\"password\"",
            "<turn:unended; rel=\"ice-server\"", "<turns:turn.example>;rel=ice-server;username=\"u",
        ]
        try await with({ _ in Self.response("201 Created", links.map { "Link: \($0)" }, body: "v=0") }) {
            _, resource in
            let results = EventQueue<Result<WHEPAnswer, SessionError>>()
            resource.start(offer: "v=0") { results.yield($0) }
            let servers = try #require(await results.next("an answer")).get().servers
            #expect(
                servers == [
                    ICEServerLink(url: "stun:stun.example"),
                    ICEServerLink(
                        url: "turn:turn.example?transport=udp", username: "us,e;r", credential: Secret("p\"w=")),
                    ICEServerLink(url: "turns:turn.example", username: "u"),
                ])
            #expect(!"\(servers)".contains("p\"w="))
        }
    }
}
