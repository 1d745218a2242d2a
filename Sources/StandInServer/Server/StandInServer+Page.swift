import DecartProtocol

/// Facts that the page needs.
extension StandInServer {
    /// URL of the service for a browser on this machine.
    var serviceURL: String {
        let isTLS = configuration.tls != nil || configuration.throwawayAuthority != nil
        let port = withRunning { listeners, _ in listeners.servicePort } ?? configuration.port
        // The certificate of a throwaway authority is for localhost.
        let any = isTLS ? "localhost" : "127.0.0.1"
        let host = configuration.host.map { ["", "0.0.0.0", "::", "[::]"].contains($0) ? any : $0 } ?? any
        return "\(isTLS ? "wss" : "ws")://\(host.contains(":") ? "[\(host)]" : host):\(port)"
    }

    /// Not for the network thread: the listeners may wait for it.
    func pageFile(_ path: String, host: String) -> HTTPAnswer {
        PageFiles.answer(path, token: pageAccess?.token ?? "", host: host, service: serviceURL)
            ?? HTTPAnswer(404, "not found")
    }

    /// The page is a client like any other: it gets a client token, which `--api-key` does not exclude.
    var pageConfiguration: HTTPAnswer {
        guard let key = clientTokens.token(expiry: WallClock.seconds + ClientTokens.defaultLifetime) else {
            return HTTPAnswer(error: "internal error", status: 500)
        }
        return HTTPAnswer(
            json: .fields([
                "service": .string(serviceURL), "key": .string(key), "model": .string("lucy-restyle-2"),
                "version": .string(configuration.version),
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
