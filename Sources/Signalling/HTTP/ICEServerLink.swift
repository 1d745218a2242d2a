package import DecartProtocol

/// An ICE server that a WHEP server names in a `Link` field (RFC 9725 4.6).
package struct ICEServerLink: Sendable, Equatable {
    package let url: String
    package let username: String?
    package let credential: Secret?

    private static let maximum = 8

    package init(url: String, username: String? = nil, credential: Secret? = nil) {
        (self.url, self.username, self.credential) = (url, username, credential)
    }

    /// Reads the values of `Link` fields (RFC 8288 3); other links and malformed ones are ignored.
    package static func read(_ values: [String]) -> [ICEServerLink] {
        var found: [ICEServerLink] = []
        for value in values {
            var rest = value[...]
            while found.count < maximum, let open = rest.firstIndex(of: "<"),
                let close = rest[open...].firstIndex(of: ">")
            {
                let url = String(rest[rest.index(after: open)..<close])
                rest = rest[rest.index(after: close)...]
                let parameters = takeParameters(&rest)
                guard parameters["rel"]?.split(separator: " ").contains("ice-server") == true else { continue }
                found.append(
                    ICEServerLink(
                        url: url, username: parameters["username"],
                        credential: parameters["credential"].map { Secret($0) }))
            }
        }
        return found
    }

    /// Takes the parameters of one link, with the comma that ends it.
    private static func takeParameters(_ rest: inout Substring) -> [String: String] {
        var parameters: [String: String] = [:]
        var (word, isQuoted, isEscaped) = ("", false, false)
        func add() {
            let pair = word.split(separator: "=", maxSplits: 1)
            if pair.count == 2 { parameters[pair[0].trimmingWhitespace().lowercased()] = pair[1].trimmingWhitespace() }
            word = ""
        }
        scan: while let character = rest.popFirst() {
            switch character {
            case _ where isEscaped:
                word.append(character)
                isEscaped = false
            case "\\" where isQuoted: isEscaped = true
            case "\"": isQuoted.toggle()
            case ";" where !isQuoted: add()
            case "," where !isQuoted: break scan
            default: word.append(character)
            }
        }
        add()
        return parameters
    }
}

/// The answer of a WHEP server to an offer.
package struct WHEPAnswer: Sendable, Equatable {
    package let sdp: String
    package let servers: [ICEServerLink]
}
