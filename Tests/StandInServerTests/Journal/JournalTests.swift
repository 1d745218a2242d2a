import DecartProtocol
import StandInServer
import Testing

struct JournalTests {
    private func entry(_ message: String, session: Int = 1) -> Journal.Entry {
        Journal.Entry(
            session: session, sessionID: "s\(session)", time: .zero, direction: .sent, type: "status",
            message: message)
    }

    @Test func theOldestEntriesMakeRoom() {
        let journal = Journal(maximumCount: 3, maximumSize: 1 << 20)
        for number in 1...10 { journal.add(entry("{\"n\":\(number)}")) }
        #expect(journal.entries().entries.map(\.number) == [8, 9, 10])
        #expect(journal.entries(after: 9).entries.map(\.message) == ["{\"n\":10}"])
        #expect(journal.entries().last == 10)
    }

    @Test func theSizeIsLimited() {
        let journal = Journal(maximumCount: 1000, maximumSize: 2000)
        for _ in 1...100 { journal.add(entry(String(repeating: "x", count: 400))) }
        #expect((1...4).contains(journal.entries().entries.count))
        journal.add(entry(String(repeating: "x", count: 4000)))
        #expect(journal.entries().entries.isEmpty)
        journal.add(entry("{}"))
        #expect(journal.entries().entries.count == 1)
    }

    @Test func sessionsAreForgotten() {
        let journal = Journal()
        for session in [1, 2, 1] { journal.add(entry("{}", session: session)) }
        #expect(journal.entries(ofSession: "s1").entries.count == 2)
        journal.forget([1])
        #expect(journal.entries().entries.map(\.session) == [2])
    }

    private static let sdp = """
        v=0\r
        a=ice-ufrag:abcd\r
        a=ice-pwd:secretpassword\r
         a=Fingerprint:sha-256 AA:BB\r
        a=fingerprint:sha-256 CC:DD\r
        a=crypto:1 AES inline:secretkey\r
        a=ssrc:5 a=ice-pwd:secrettoo\r
        m=video 9 UDP/TLS/RTP/SAVPF 96\r

        """

    @Test func descriptionsHaveNoSecrets() {
        let text = JournalText.clean(sdp: Self.sdp)
        for secret in ["secret", "AA:BB", "CC:DD"] { #expect(!text.contains(secret), "\(text)") }
        for part in ["a=ice-ufrag:abcd", "a=ice-pwd:<redacted>", "m=video 9 UDP/TLS/RTP/SAVPF 96"] {
            #expect(text.contains(part), "\(text)")
        }
    }

    @Test(arguments: [
        ClientMessage.offer(sdp: sdp), .answer(sdp: sdp), .prompt(PromptMessage(text: "secret words", enhance: true)),
        .setImage(SetImageMessage(image: .data(base64: "secretimage"), text: .prompt("secret words"))),
        .livekitJoin(LiveKitJoin(initialState: .prompt(PromptMessage(text: "secret words", enhance: false)))),
        .livekitJoin(LiveKitJoin(initialState: .setImage(SetImageMessage(image: .data(base64: "secretimage"))))),
    ])
    func clientMessagesHaveNoSecrets(message: ClientMessage) {
        let text = JournalText.text(message, showsPrompts: false)
        #expect(text.contains("\"type\":\"\(message.type)\""), "\(text)")
        #expect(!text.contains("secret"), "\(text)")
    }

    @Test(arguments: [
        ServerMessage.offer(sdp: sdp), .answer(sdp: sdp), .promptAck(PromptAck(prompt: "secret words", success: true)),
        .turnConfig(TURNConfig(urls: ["turn:a"], username: "secretuser", credential: Secret("secretpassword"))),
        .livekitRoomInfo(LiveKitRoomInfo(url: "ws://a", token: Secret("secrettoken"))),
    ])
    func serverMessagesHaveNoSecrets(message: ServerMessage) {
        let text = JournalText.text(message, showsPrompts: false)
        #expect(text.contains("\"type\":\"\(message.type)\""), "\(text)")
        #expect(!text.contains("secret"), "\(text)")
    }

    @Test func promptsAreShownOnRequest() {
        let prompt = ClientMessage.prompt(PromptMessage(text: "lego", enhance: true))
        #expect(JournalText.text(prompt, showsPrompts: true).contains("\"prompt\":\"lego\""))
        #expect(JournalText.text(prompt, showsPrompts: false).contains("<4 characters>"))
    }

    @Test func aLongMessageIsOnlyMeasured() {
        let long = ServerMessage.answer(sdp: String(repeating: "x", count: 600_000))
        #expect(JournalText.text(long, showsPrompts: false).utf8.count < 100)
    }
}
