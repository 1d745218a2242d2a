import DecartProtocol
import StandInServer
import Testing

/// The page on the control port, and what it keeps away from other pages.
@Suite(.timeLimit(.minutes(1)))
struct PageTests {
    private func withPage(_ isOn: Bool = true, _ body: (TestServer, Int) throws -> Void) throws {
        try withControl({ $0.servesPage = isOn }, body)
    }

    /// - Parameter headers: lines without line ends; `PORT` stands for the port.
    private func ask(
        _ port: Int, _ method: String, _ target: String, _ headers: [String] = [], host: String = "127.0.0.1:PORT",
        body: String = ""
    ) throws -> String {
        try StandInServerTests.ask(
            port, method, target, body: body, host: fields(["Host: \(host)"], port), extra: fields(headers, port))
    }

    private func fields(_ lines: [String], _ port: Int) -> String {
        lines.map { $0.replacing("PORT", with: "\(port)") + "\r\n" }.joined()
    }

    private static let own = ["Origin: http://127.0.0.1:PORT", "Sec-Fetch-Site: same-origin"]

    private func token(_ port: Int) throws -> String {
        let page = try ask(port, "GET", "/", ["Sec-Fetch-Site: none"])
        let start = try #require(page.firstRange(of: "name=\"token\" content=\"")).upperBound
        let token = String(page[start...].prefix { $0 != "\"" })
        #expect(token.count == 32)
        return token
    }

    @Test func itIsOffUnlessAskedFor() throws {
        try withPage(false) { _, port in
            let help = try ask(port, "GET", "/")
            #expect(help.contains("POST   /control/faults"))
            #expect(try ask(port, "GET", "/", ["Sec-Fetch-Site: none"]).hasPrefix("HTTP/1.1 403 "))
            #expect(try ask(port, "GET", "/page.js").hasPrefix("HTTP/1.1 404 "))
            #expect(try ask(port, "POST", "/page/config").hasPrefix("HTTP/1.1 404 "))
        }
    }

    @Test func theFilesHaveAStrictPolicy() throws {
        try withPage { server, port in
            for (path, type) in [("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")] {
                let text = try ask(port, "GET", path, ["Sec-Fetch-Site: same-origin"])
                #expect(text.hasPrefix("HTTP/1.1 200 ") && text.contains("Content-Type: \(type)"))
                for part in [
                    "default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "nosniff",
                    "connect-src 'self' ws://127.0.0.1:\(port) ws://127.0.0.1:\(server.port);",
                ] {
                    #expect(text.contains(part), "\(path): \(part)")
                }
            }
            #expect(try token(port) == token(port))
        }
    }

    @Test func theFilesUseNothingFromOutside() throws {
        try withPage { _, port in
            for path in ["/", "/page.js", "/page.css"] {
                let text = try ask(port, "GET", path)
                let body = text[try #require(text.firstRange(of: "\r\n\r\n")).upperBound...]
                #expect(!body.contains("https://") && !body.contains("http://") && !body.contains("innerHTML"))
                #expect(!body.contains("eval(") && !body.contains("@import") && !body.contains("url("))
                #expect(!body.contains(" style=") && !body.contains(" onclick="))
            }
        }
    }

    @Test(arguments: [
        // Host, Origin and fetch metadata, with the token unless it is left out.
        ("127.0.0.1:PORT", own, true, 200), ("localhost:PORT", ["Origin: http://localhost:PORT"], true, 200),
        ("127.0.0.1:PORT", ["Sec-Fetch-Site: same-origin"], true, 200), ("127.0.0.1:PORT", own, false, 403),
        ("127.0.0.1:PORT", ["Origin: http://evil.example"], true, 403),
        ("127.0.0.1:PORT", ["Origin: http://127.0.0.1:1"], true, 403),
        ("127.0.0.1:PORT", ["Origin: https://127.0.0.1:PORT"], true, 403),
        ("127.0.0.1:PORT", ["Origin: http://localhost:PORT"], true, 403),
        ("127.0.0.1:PORT", ["Origin: null"], true, 403), ("127.0.0.1:PORT", ["Sec-Fetch-Site: cross-site"], true, 403),
        ("127.0.0.1:PORT", ["Sec-Fetch-Site: same-site"], true, 403),
        ("127.0.0.1:PORT", own + ["Origin: http://evil.example"], true, 403),
        ("evil.example:PORT", ["Origin: http://evil.example:PORT", "Sec-Fetch-Site: same-origin"], true, 403),
    ])
    func onlyThePageMayControl(host: String, headers: [String], hasToken: Bool, status: Int) throws {
        try withPage { server, port in
            let secret = try hasToken ? ["X-Standin-Token: \(token(port))"] : []
            let answer = try ask(port, "POST", "/control/faults", headers + secret, host: host, body: "no_pong")
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(answer)")
            #expect(server.server.faults.count == (status == 200 ? 1 : 0))
            let read = try ask(port, "GET", "/control/sessions", headers + secret, host: host)
            #expect(read.hasPrefix("HTTP/1.1 \(status) "), "\(read)")
        }
    }

    @Test func aWrongTokenIsRefused() throws {
        try withPage { server, port in
            let token = try token(port)
            for wrong in ["", "x", token + "x", String(token.dropLast()), String(repeating: "A", count: 32)] {
                let answer = try ask(port, "DELETE", "/control/faults", Self.own + ["X-Standin-Token: \(wrong)"])
                #expect(answer.hasPrefix("HTTP/1.1 403 ") && answer.contains("{\"error\":"), "\(answer)")
            }
            let twice = Self.own + ["X-Standin-Token: \(token)", "X-Standin-Token: \(token)"]
            #expect(try ask(port, "DELETE", "/control/faults", twice).hasPrefix("HTTP/1.1 403 "))
            #expect(try ask(port, "POST", "/page/config").hasPrefix("HTTP/1.1 403 "))
        }
    }

    @Test func otherProgramsControlAsBefore() throws {
        try withPage { server, port in
            let answer = try ask(port, "POST", "/control/faults", body: "no_pong")
            #expect(answer.hasPrefix("HTTP/1.1 200 "))
            #expect(try ask(port, "GET", "/control").contains("POST   /control/faults"))
        }
    }

    @Test func thePageGetsAKeyOfItsOwn() throws {
        try withPage { server, port in
            let text = try ask(port, "POST", "/page/config", Self.own + ["X-Standin-Token: \(token(port))"])
            #expect(text.contains("\"service\":\"ws://127.0.0.1:\(server.port)\"") && text.contains("\"key\":\"ek_"))
        }
    }

    // MARK: Other machines

    /// The service listens at loopback, so that this machine can play the other one.
    private func withForeignPage(_ body: (TestServer, Int, String) throws -> Void) throws {
        try withControl({
            ($0.servesPage, $0.host, $0.pageHost) = (true, "127.0.0.1", "Studio.example")
        }) { server, port in
            let page = try #require(server.server.foreignPage)
            let start = "http://studio.example:\(port)/?token="
            #expect(page.hasPrefix(start))
            try body(server, port, String(page.dropFirst(start.count)))
        }
    }

    @Test func withoutAHostThereIsNoPageForOtherMachines() throws {
        try withPage { server, port in
            let answer = try ask(port, "GET", "/", host: "studio.example:PORT")
            #expect(server.server.foreignPage == nil && answer.hasPrefix("HTTP/1.1 403 "))
        }
    }

    @Test func otherMachinesNeedTheToken() throws {
        try withForeignPage { server, port, token in
            let host = "studio.example:PORT"
            func status(_ method: String, _ target: String, _ headers: [String] = []) throws -> Substring {
                try ask(port, method, target, headers, host: host, body: "").dropFirst(9).prefix(3)
            }
            for path in ["/", "/page.js", "/page.css"] {
                let bare = try status("GET", path)
                #expect(bare == "403")
                #expect(try status("GET", path + "?token=x") == "403")
                #expect(try status("GET", path + "?token=\(token)") == "200")
                #expect(try status("GET", path + "?token=\(token)", ["Sec-Fetch-Site: cross-site"]) == "403")
            }
            let own = ["Origin: http://studio.example:PORT", "X-Standin-Token: \(token)"]
            for (method, path) in [
                ("GET", "/health"), ("GET", "/control"), ("GET", "/control/sessions"), ("GET", "/control/faults"),
                ("DELETE", "/control/faults"), ("POST", "/control/drop"), ("POST", "/page/config"),
            ] {
                #expect(try status(method, path) == "403", "\(path)")
                #expect(try status(method, path + "?token=\(token)") == "403", "\(path)")
                #expect(try status(method, path, own) == "200", "\(path)")
                // A program of the other machine, which is no browser.
                #expect(try status(method, path, [own[1]]) == "200", "\(path)")
                #expect(try status(method, path, ["Origin: http://evil.example", own[1]]) == "403", "\(path)")
                #expect(try status(method, path, ["Origin: http://127.0.0.1:PORT", own[1]]) == "403", "\(path)")
            }
        }
    }

    @Test func theForeignPageNamesItsHost() throws {
        try withForeignPage { server, port, token in
            let page = try ask(port, "GET", "/?token=\(token)", host: "studio.example:PORT")
            #expect(page.contains("src=\"/page.js?token=\(token)\"") && page.contains("ws://studio.example:\(port) "))
            let config = try ask(
                port, "POST", "/page/config", ["X-Standin-Token: \(token)"], host: "studio.example:PORT")
            #expect(config.contains("\"is_reachable\":false"))
            // This machine's page is as without the option.
            #expect(try self.token(port) == token)
            #expect(try ask(port, "GET", "/").contains("src=\"/page.js\""))
            #expect(try ask(port, "GET", "/", host: "evil.example").hasPrefix("HTTP/1.1 403 "))
            #expect(try ask(port, "GET", "/control/sessions").hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test func anotherMachineWatchesWithTheToken() throws {
        try withForeignPage { server, port, token in
            let client = try server.connect()
            let id = try client.expectGreeting().id
            let target = "/page/watch?session=\(id)&side=after"
            for (origin, token, status) in [
                ("http://studio.example:PORT", token, 101), ("http://studio.example:PORT", "x", 403),
                ("http://evil.example", token, 403),
            ] {
                let socket = try RawSocket(port: port)
                socket.request(
                    target, host: "studio.example:\(port)",
                    extra: fields(["Origin: \(origin)", "Sec-WebSocket-Protocol: standin, token.\(token)"], port))
                _ = socket.read { _ in socket.text.contains("\r\n\r\n") }
                #expect(socket.text.hasPrefix("HTTP/1.1 \(status) "), "\(socket.text)")
            }
            client.close()
        }
    }

    // MARK: Video

    private func upgrade(_ port: Int, _ target: String, _ headers: [String]) throws -> RawSocket {
        let socket = try RawSocket(port: port)
        socket.request(target, host: "127.0.0.1:\(port)", extra: fields(headers, port))
        return socket
    }

    @Test func bothSidesOfASessionAreWatched() throws {
        try withPage { server, port in
            let client = try server.connect()
            let id = try client.expectGreeting().id
            let token = try token(port)
            let headers = ["Origin: http://127.0.0.1:PORT", "Sec-WebSocket-Protocol: standin, token.\(token)"]
            for side in ["before", "after"] {
                let socket = try upgrade(port, "/page/watch?session=\(id)&side=\(side)", headers)
                _ = socket.read { _ in socket.text.contains("\r\n\r\n") }
                #expect(socket.text.hasPrefix("HTTP/1.1 101 "), "\(socket.text)")
                #expect(socket.text.contains("Sec-WebSocket-Protocol: standin\r\n"))
                socket.sendFrame("{\"type\":\"offer\",\"sdp\":\"v=0 \(side)\"}")
                _ = socket.read { _ in socket.text.contains("answer to v=0 \(side)") }
                #expect(socket.text.contains("answer to v=0 \(side)"), "\(socket.text)")
                socket.sendFrame("{\"type\":\"offer\",\"sdp\":\"v=0\"}")
                _ = socket.read { _ in socket.text.contains("there is an offer already") }
                socket.sendFrame("{\"type\":\"prompt\",\"prompt\":\"x\"}")
                _ = socket.read { _ in socket.text.contains("only offer and ice-candidate") }
                socket.sendFrame("nonsense")
                _ = socket.read { _ in socket.text.contains("not a JSON object") }
                #expect(socket.text.contains("not a JSON object"))
            }
            // The page is no viewer, and no session.
            #expect(server.server.sessions.count == 1 && server.server.sessions[0].viewerCount == 0)
            client.close()
            #expect(server.server.wait(milliseconds: 20_000) { $0.allSatisfy { !$0.isOpen } })
        }
    }

    @Test func otherPagesWatchNothing() throws {
        try withPage { server, port in
            let client = try server.connect()
            let id = try client.expectGreeting().id
            let token = try token(port)
            let origin = "Origin: http://127.0.0.1:PORT"
            let ask = "Sec-WebSocket-Protocol: standin, token.\(token)"
            for (target, headers) in [
                ("/page/watch?session=\(id)&side=after", [origin]), ("/page/watch?session=\(id)&side=after", [ask]),
                ("/page/watch?session=\(id)&side=after", [origin, "Sec-WebSocket-Protocol: standin, token.x"]),
                ("/page/watch?session=\(id)&side=after", ["Origin: http://evil.example", ask]),
                ("/page/watch?session=none&side=after", [origin, ask]), ("/page/watch?side=after", [origin, ask]),
                ("/page/watch?session=\(id)&side=both", [origin, ask]), ("/control/sessions", [origin, ask]),
            ] {
                let socket = try upgrade(port, target, headers)
                #expect(socket.read() == .finished)
                #expect(socket.text.hasPrefix("HTTP/1.1 4"), "\(target): \(socket.text)")
            }
            #expect(server.engine.sessions.isEmpty)
            client.close()
        }
    }
}

extension RawSocket {
    /// Sends a masked text frame of at most 125 bytes.
    fileprivate func sendFrame(_ text: String) {
        let bytes = Array(text.utf8)
        send([0x81, 0x80 | UInt8(truncatingIfNeeded: bytes.count), 0, 0, 0, 0] + bytes)
    }
}
