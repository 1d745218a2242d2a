import RTP
import TestSupport
import Testing
import WebRTCTransport

/// Both sides of an RTP session as values.
@Suite
struct RTPSessionValueTests {
    private typealias Inbound = InboundRTP

    /// The RTP timestamp is 9000.
    private func packet(_ ssrc: UInt8) -> [UInt8] { [0x80, 96, 0, 1, 0, 0, 0x23, 0x28, 0, 0, 0, ssrc, 1, 2] }

    private func inbound() -> Inbound {
        var parameters = RTPSessionParameters(clockRate: 90_000, ssrc: 7, cname: "a")
        parameters.caps = [96: ""]
        var session = Inbound(.video, storage: SimulatedPacket.self)
        session.configure(parameters)
        return session
    }

    private func receive(_ ssrc: UInt8, _ session: inout Inbound) {
        packet(ssrc).withUnsafeBytes {
            session.received(rtp: $0, activeType: 96, now: .zero, running: { 0 }) { _ in }
        }
    }

    private func send(_ ssrc: UInt8, _ session: inout OutboundRTP) {
        var (random, retired) = (SeededGenerator(seed: 1), [] as [any PacketStorage])
        packet(ssrc).withUnsafeBytes {
            session.sent(SimulatedPacket(copying: $0), $0, running: 0, now: .zero, using: &random, retired: &retired)
        }
    }

    /// The report of a second after the packet.
    private func report(_ session: inout OutboundRTP) -> RTCPCompound {
        var (inbound, random, report) = (inbound(), SeededGenerator(seed: 1), [] as [UInt8])
        inbound.startReports(now: .zero)
        inbound.wake(
            at: .seconds(1), senders: { session.reports(running: 1_000_000_000, ntp: 5 << 32, clockRate: 90_000) },
            using: &random
        ) { if case .rtcp(let compound) = $0 { report = compound } }
        return report.withUnsafeBytes { RTCPCompound(parsing: $0) }
    }

    @Test func keyframeRequestsAreNeitherLostNorRepeated() {
        var (session, random) = (inbound(), SeededGenerator(seed: 1))
        var requests: [UInt32] = []
        func note(_ action: InboundAction) {
            guard case .rtcp(let compound) = action else { return }
            requests += compound.withUnsafeBytes { RTCPCompound(parsing: $0) }.keyframeRequests
        }
        receive(7, &session)
        session.select(9, now: .zero, note)
        #expect(requests.isEmpty, "a new stream begins with a keyframe")
        session.select(7, now: .zero, note)
        for _ in 0..<3 { session.requestKeyframe(now: .milliseconds(20), note) }
        #expect(requests == [7] && session.nextWake == .milliseconds(100))
        session.wake(at: .milliseconds(100), senders: { [] }, using: &random, note)
        #expect(requests == [7, 7] && session.nextWake == nil)
    }

    /// A depayloader requests a keyframe at each discontinuity, and the first stream begins with one.
    @Test func onlyAStreamThatReplacesAnotherBeginsWithADiscontinuity() {
        var (session, random) = (inbound(), SeededGenerator(seed: 1))
        var begins: [Bool] = []
        for ssrc in [7, 9] as [UInt8] {
            session.select(UInt32(ssrc), now: .zero) { _ in }
            receive(ssrc, &session)
            session.wake(at: .milliseconds(20), senders: { [] }, using: &random) {
                if case .packet(_, _, let isDiscontinuous) = $0 { begins.append(isDiscontinuous) }
            }
        }
        #expect(begins == [false, true])
    }

    /// The packets of a frame wait for its last one, but one without a last packet must not fill the memory.
    @Test func aFrameWithoutAnEndIsHandedOn() {
        var session = inbound()
        session.select(7, now: .zero) { _ in }
        var (waiting, handedOn) = (0, 0)
        for sequence: UInt8 in 1...200 {
            var packet = packet(7)
            packet[3] = sequence
            packet.withUnsafeBytes {
                session.received(rtp: $0, activeType: 96, now: .milliseconds(Int(sequence)), running: { 0 }) {
                    if case .packet = $0 { waiting += 1 }
                }
            }
            if session.flush() { (waiting, handedOn) = (0, handedOn + waiting) }
        }
        #expect(handedOn >= 200 - 64)
    }

    /// Lip sync compares the streams that are shown.
    @Test func onlyReportsOfTheShownStreamSetItsClock() {
        var session = inbound()
        receive(8, &session)
        session.select(7, now: .zero) { _ in }
        receive(7, &session)
        let times = ([7, 8] as [UInt8]).map { ssrc -> SenderTime? in
            var sender = OutboundRTP()
            send(ssrc, &sender)
            return session.received(report(&sender), now: .seconds(1))
        }
        #expect(times[0]?.ntp == 5_000_000_000 && times[0]?.running == 1_000_000_000 && times[1] == nil)
    }

    /// The RTP timestamp is that of the report, and a stream that sends nothing makes none.
    @Test func senderReportsAreOfTheirMoment() {
        var session = OutboundRTP()
        let reports = [true, false, true].map { sends in
            if sends { send(7, &session) }
            return report(&session).senderReports.map(\.timestamp)
        }
        #expect(reports == [[99_000], [], [99_000]])
    }
}
