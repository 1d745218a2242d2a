/// User name and password of a URL, for Basic authentication (RFC 7617). Its description hides both.
package struct BasicCredentials: Sendable, Equatable {
    package let user: Secret
    package let password: Secret

    package init(user: Secret, password: Secret) { (self.user, self.password) = (user, password) }

    /// Accepts `user:password`, both percent-encoded (RFC 3986 §3.2.1), the password optional.
    init?(userInfo: Substring) {
        let parts = userInfo.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard userInfo.utf8.count <= 2048, let user = parts.first.flatMap({ PercentEncoding.decode($0) }),
            let password = PercentEncoding.decode(parts.count > 1 ? parts[1] : ""),
            !user.isEmpty, !user.contains(":"), !user.hasControlCharacters, !password.hasControlCharacters
        else { return nil }
        (self.user, self.password) = (Secret(user), Secret(password))
    }

    private var text: String { "\(user.reveal()):\(password.reveal())" }

    /// **Secret.** The value of a header field.
    package var authorization: Secret { Secret("Basic " + Base64.encode(Array(text.utf8))) }

    /// **Secret.** The texts by which the credentials are known: a server may repeat them in its answer.
    package var secrets: [Secret] { [Secret(text), password] }
}

extension BasicCredentials: Redacted {}
