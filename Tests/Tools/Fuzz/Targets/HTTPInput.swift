// HTTP requests and responses (see HTTPReaderInput.swift). From responses: keys of the user's backend, refusals of the
// WebSocket upgrade, the service's quota, and the locations and links that WHEP servers and cameras name. No error may
// contain the key or control characters.
import DecartProtocol
import DecartSession
import Network
import Signalling

private let canary = "canary-0123456789"

func check(_ error: SessionError) {
    precondition(!error.message.isEmpty && error.message.unicodeScalars.count < 1000)
    precondition(error.message.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7f...0x9f).contains($0.value) })
    precondition(!error.message.contains(canary) && !"\(error)".contains(canary))
    if let wait = error.retryAfter { precondition(wait >= .zero && wait <= .seconds(65_535)) }
}

func httpInput(_ bytes: [UInt8]) {
    guard let (head, body, _) = httpReadersInput(bytes).messages.first else { return }
    switch KeyAnswer(head: head, body: body, host: "backend.example").result {
    case .success(let token):
        precondition("\(token.key)" == "<redacted>")
        precondition([token.sessionLimit, token.key.sessionLimit].allSatisfy { ($0 ?? .seconds(1)) > .zero })
    case .failure(let error): check(error)
    }
    guard let key = try? APIKey(canary), let base = try? ServiceURL(base: "ws://127.0.0.1:1") else {
        fatalError("the fuzzer's URL is invalid")
    }
    let url = base.watchStream(key: key, room: "room")
    check(UpgradeRefusal(head: head, body: body, url: url).error)
    if let server = try? HTTPURL(whep: "https://whep.example:8443/a/b?token=\(canary)") {
        for location in head.fields["Location"] {
            guard let url = server.resolving(location) else { continue }
            precondition(url.isSecure && url.requestTarget.hasPrefix("/"))
            for text in [url.requestTarget, url.hostHeader] {
                precondition(text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7f })
            }
            precondition(location.contains(canary) || !url.requestTarget.contains(canary))
        }
    }
    precondition(ICEServerLink.read(head.fields["Link"]).count <= 8)
    redirects(head.fields["Location"])
    if let quota = try? RealtimeQuota(decoding: body) { _ = quota.isUsedUp }
    if let room = try? LiveKitRoomInfo(decoding: body) { precondition("\(room.token)" == "<redacted>") }
}

/// The password goes to the camera alone, and no sentence has it.
private func redirects(_ locations: [String]) {
    guard let camera = try? RTSPURL("rtspt://user:\(canary)@camera.example/a") else { fatalError("the URL is invalid") }
    var redirects = RTSPRedirects(camera)
    for location in locations {
        switch redirects.request(at: location) {
        case .allowed(let withCredentials): precondition(withCredentials == (redirects.otherHost == nil))
        case .refused(let sentence):
            precondition(sentence == redirects.refusal && sentence.utf8.allSatisfy { (0x20..<0x7F).contains($0) })
            precondition(!sentence.contains(canary) || location.contains(canary))
        }
        guard let next = try? RTSPURL(location), redirects.refusal == nil else { continue }
        precondition(next.host == camera.host || redirects.otherHost == next.host)
    }
}
