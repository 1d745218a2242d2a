import DecartProtocol

extension HTTPAnswer {
    /// FastAPI, which the service's OpenAPI file shows, answers with `detail`.
    static let fieldRequired = HTTPAnswer(
        422,
        detail: .array([.fields(["type": "missing", "loc": .array(["query", "model"]), "msg": "Field required"])]))

    /// The login page that a captive portal serves instead of the service.
    static func page(_ status: Int) -> HTTPAnswer {
        var answer = HTTPAnswer(status, "a login page")
        answer.contentType = "text/html"
        answer.body =
            "<!doctype html><html><head><title>Login</title></head><body><form>Log in to use this network"
            + "</form></body></html>"
        return answer
    }

    static func redirect(_ status: Int) -> HTTPAnswer {
        var answer = HTTPAnswer(status, "a redirect")
        // RFC 2606: the name never resolves, in case a client follows the redirect.
        answer.headers["Location"] = "https://elsewhere.invalid/login"
        return answer
    }
}

extension FaultPlan {
    /// The HTTP answer that replaces the upgrade.
    var answer: HTTPAnswer? {
        first { fault in
            guard case .http(var answer) = fault.kind else { return nil }
            if fault.kind.keys.contains(.delay) {
                answer.headers["Retry-After"] = String(Int((fault.delay ?? 5).rounded(.up)))
            }
            return answer
        }
    }
}
