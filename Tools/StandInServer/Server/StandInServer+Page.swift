import DecartProtocol

/// Facts that the page needs.
extension StandInServer {
    /// True if the service listens at an address of the network, at all of them or at the one of the page.
    private var isReachable: Bool { configuration.host.map { !HTTPURL.isLoopback(host: $0) } ?? false }

    /// URL of the service for a browser.
    /// - Parameter isForeign: the browser is on another machine.
    func serviceURL(isForeign: Bool = false) -> String {
        let isTLS = configuration.tls != nil || configuration.throwawayAuthority != nil
        let port = withRunning { listeners, _ in listeners.servicePort } ?? configuration.port
        // The certificate of a throwaway authority is for localhost.
        let any = isTLS ? "localhost" : "127.0.0.1"
        let here = configuration.host.map { ["", "0.0.0.0", "::", "[::]"].contains($0) ? any : $0 } ?? any
        let host = BrowserGuard.plain(isForeign && isReachable ? configuration.pageHost ?? here : here)
        return "\(isTLS ? "wss" : "ws")://\(host.bracketed):\(port)"
    }

    /// Not for the network thread: the listeners may wait for it.
    func pageFile(_ path: String, host: String, isForeign: Bool) -> HTTPAnswer {
        PageFiles.answer(
            path, token: pageAccess?.token ?? "", host: host, service: serviceURL(isForeign: isForeign),
            isForeign: isForeign) ?? HTTPAnswer(404, "not found")
    }

    /// The page is a client like any other: it gets a client token, which `--api-key` does not exclude.
    func pageConfiguration(isForeign: Bool) -> HTTPAnswer {
        guard let key = clientTokens.token(expiry: WallClock.seconds + ClientTokens.defaultLifetime) else {
            return HTTPAnswer(error: "internal error", status: 500)
        }
        return HTTPAnswer(
            json: .fields([
                "service": .string(serviceURL(isForeign: isForeign)), "key": .string(key),
                "is_reachable": .bool(!isForeign || isReachable), "shows_prompts": .bool(configuration.showsPrompts),
                "model": .string("lucy-restyle-2"), "version": .string(configuration.version),
                "faults": .array(
                    FaultKind.all.map { kind in
                        .fields([
                            "name": .string(kind.name), "summary": .string(kind.summary),
                            "is_injectable": .bool(kind.isInjectable),
                        ])
                    }),
            ]))
    }
}
