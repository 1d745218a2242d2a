import DecartProtocol

extension HTTPAnswer {
    init(_ kind: FaultKind.Answer, _ fault: Fault) {
        switch kind {
        case .page: self.init(page: 200)
        case .loginRequired: self.init(page: 511)
        case .movedPermanently: self.init(redirect: 301)
        case .found: self.init(redirect: 302)
        // FastAPI, which the service's OpenAPI file shows, answers with `detail`.
        case .badRequest: self.init(400, detail: "Invalid request")
        case .paymentRequired: self.init(402, detail: "Insufficient credits")
        case .gone: self.init(410, detail: "This model has been removed")
        case .unprocessable:
            self.init(
                422,
                detail: .array([
                    .fields(["type": "missing", "loc": .array(["query", "model"]), "msg": "Field required"])
                ]))
        case .unauthorized: self.init(401, "invalid api key")
        case .forbidden: self.init(403, "permission denied")
        case .notFound: self.init(404, "not found")
        case .tooManyRequests: self.init(429, "too many requests", retryAfter: fault.delay)
        case .internalError: self.init(500, "internal error")
        case .unavailable: self.init(503, "service unavailable", retryAfter: fault.delay)
        }
    }

    /// The login page that a captive portal serves instead of the service.
    private init(page status: Int) {
        self.init(status, "a login page")
        contentType = "text/html"
        body =
            "<!doctype html><html><head><title>Login</title></head><body><form>Log in to use this network"
            + "</form></body></html>"
    }

    private init(redirect status: Int) {
        self.init(status, "a redirect")
        // RFC 2606: the name never resolves, in case a client follows the redirect.
        headers["Location"] = "https://elsewhere.invalid/login"
    }

    private init(_ status: Int, _ words: String, retryAfter: Double?) {
        self.init(status, words)
        headers["Retry-After"] = String(Int((retryAfter ?? 5).rounded(.up)))
    }
}

extension FaultPlan {
    /// The HTTP answer that replaces the upgrade.
    var answer: HTTPAnswer? {
        first { fault in
            if case .http(let kind) = fault.kind { HTTPAnswer(kind, fault) } else { nil }
        }
    }
}
