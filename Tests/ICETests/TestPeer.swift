import EventLoopThreads
import ICE
import TestSupport
import Testing

/// An agent that collects its events and datagrams.
final class TestPeer: Sendable {
    let agent: ICEAgent
    let events = EventLog<ICEEvent>()
    let datagrams = EventLog<[UInt8]>()

    init(
        controlling: Bool, servers: [ICEServer] = [], policy: ICETransportPolicy = .all,
        network: NetworkThread = .shared, openTunnel: RelayTunnelOpener? = nil,
        local: ICENetwork = ICENetwork(), permits: (@Sendable (String) -> Bool)? = nil,
        checkRetransmissions: UInt32? = nil, tcpHeadStart: Duration = .seconds(2)
    ) throws {
        let (events, datagrams) = (events, datagrams)
        var configuration = ICEConfiguration(
            servers: servers, policy: policy, isControlling: controlling, openTunnel: openTunnel,
            network: local)
        if let permits { configuration.permitsRemote = permits }
        if let checkRetransmissions { configuration.checkRetransmissions = checkRetransmissions }
        configuration.tcpHeadStart = tcpHeadStart
        agent = try ICEAgent(
            configuration: configuration, network: network,
            onEvent: { events.append($0) },
            onDatagram: { datagrams.append(Array($0)) })
    }

    var candidates: [String] {
        events.elements.compactMap { if case .localCandidate(let text) = $0 { text } else { nil } }
    }

    func state(_ wanted: ICEState, within limit: Duration = .seconds(20)) async -> Bool {
        await events.first(within: limit) { $0 == .stateChanged(wanted) } != nil
    }

    func gather() async -> Bool {
        agent.gatherCandidates()
        return await gathered()
    }

    func gathered(within limit: Duration = .seconds(40)) async -> Bool {
        await events.first(within: limit) { $0 == .gatheringComplete } != nil
    }

    var warnings: [String] {
        events.elements.compactMap { if case .warning(let text) = $0 { text } else { nil } }
    }

    func learnCredentials(of other: TestPeer) {
        agent.setRemoteCredentials(
            usernameFragment: other.agent.localUsernameFragment, password: other.agent.localPassword)
    }

    static func gather(_ left: TestPeer, _ right: TestPeer) async -> Bool {
        left.agent.gatherCandidates()
        right.agent.gatherCandidates()
        let leftGathered = await left.gathered()
        let rightGathered = await right.gathered()
        return leftGathered && rightGathered
    }

    /// Gathers candidates on both sides, then exchanges all that `keep` accepts.
    static func connect(
        _ left: TestPeer, _ right: TestPeer, keep: (String) -> Bool = { _ in true }
    ) async -> Bool {
        guard await gather(left, right) else { return false }
        left.learnCredentials(of: right)
        right.learnCredentials(of: left)
        for candidate in left.candidates where keep(candidate) { right.agent.addRemoteCandidate(candidate) }
        for candidate in right.candidates where keep(candidate) { left.agent.addRemoteCandidate(candidate) }
        left.agent.endOfRemoteCandidates()
        right.agent.endOfRemoteCandidates()
        let leftReady = await left.state(.ready)
        let rightReady = await right.state(.ready)
        return leftReady && rightReady
    }

    static func close(_ peers: TestPeer...) {
        for peer in peers { peer.agent.close() }
    }

    /// Closes the agents, one after the other, and waits for the release of each.
    static func release(_ peers: TestPeer..., test: String = #function, file: String = #fileID) async {
        for peer in peers {
            let released = EventLog<Bool>()
            let closing = ContinuousClock.now
            peer.agent.close { released.append(true) }
            #expect(await released.first { $0 } == true)
            measure(
                "time to close", ContinuousClock.now - closing, atMost: .seconds(5), test: test, file: file)
        }
    }

    func send(_ bytes: [UInt8]) -> Bool { bytes.withUnsafeBytes { agent.send($0) } }

    func receives(_ bytes: [UInt8], within limit: Duration = .seconds(20)) async -> Bool {
        await datagrams.first(within: limit) { $0 == bytes } != nil
    }
}
