import Glibc
import ICE
import Testing
import TestSupport

/// Ports and addresses of host candidates.
@Suite(.timeLimit(.minutes(1)))
struct LocalNetworkTests {
    private func ports(_ peer: TestPeer) -> [Int] {
        peer.candidates.compactMap { Int($0.split(separator: " ")[5]) }
    }

    private func addresses(_ peer: TestPeer) -> Set<String> {
        Set(peer.candidates.map { String($0.split(separator: " ")[4]) })
    }

    /// Ports that are free at the moment, below those that the kernel gives connections (see `freePort`).
    private static func freeRange(of count: UInt16) throws -> ClosedRange<UInt16> {
        for _ in 0..<100 {
            let first = UInt16.random(in: 10_000..<31_000)
            let range = first...(first + count - 1)
            if range.allSatisfy({ (try? LoopbackSocket(port: $0)) != nil }) { return range }
        }
        throw LoopbackSocket.CannotBind()
    }

    /// Eight agents share ten ports: each socket is in the range, and a pair connects.
    @Test func portRangeIsKept() async throws {
        let range = try Self.freeRange(of: 10)
        let peers = try (0..<8).map { try TestPeer(controlling: $0 % 2 == 0, local: ICENetwork(ports: range)) }
        for pair in 0..<4 {
            #expect(await TestPeer.connect(peers[2 * pair], peers[2 * pair + 1]), "\(peers[2 * pair].warnings)")
        }
        for peer in peers {
            #expect(!ports(peer).isEmpty)
            #expect(
                ports(peer).allSatisfy { $0 >= Int(range.lowerBound) && $0 <= Int(range.upperBound) },
                "\(peer.candidates)")
            #expect(peer.warnings.isEmpty, "\(peer.warnings)")
        }
    }

    /// An exhausted range fails at once, and the cause names the range.
    @Test func portRangeIsExhausted() async throws {
        let taken = try LoopbackSocket()
        let network = ICENetwork(ports: taken.port...taken.port, endpoint: LocalEndpoint("127.0.0.1"))
        let peer = try TestPeer(controlling: true, local: network)
        peer.agent.gatherCandidates()
        #expect(await peer.state(.failed))
        let cause = try #require(peer.agent.localFailure)
        #expect(cause == "no UDP port from \(taken.port) to \(taken.port) is free; widen rtp-port-range")
        #expect(peer.warnings == [cause] && peer.candidates.isEmpty)
    }

    /// libnice gathers nothing if one address gets no port.
    @Test func portRangeIsExhaustedOnOneAddress() async throws {
        let taken = try LoopbackSocket()
        let peer = try TestPeer(controlling: true, local: ICENetwork(ports: taken.port...taken.port))
        peer.agent.gatherCandidates()
        #expect(await peer.state(.failed))
        #expect(peer.agent.localFailure?.contains("no UDP port from \(taken.port)") == true, "\(peer.warnings)")
    }

    @Test(arguments: ["lo", "127.0.0.1", "::1"]) func onlyThatAddress(text: String) async throws {
        let endpoint = try #require(LocalEndpoint(text))
        let wanted = Set(endpoint.addresses())
        #expect(wanted.isSubset(of: ["127.0.0.1", "::1"]))
        try #require(text != "::1" || !wanted.isEmpty, "this host has no IPv6")
        let peer = try TestPeer(controlling: true, local: ICENetwork(endpoint: endpoint))
        #expect(await peer.gather())
        #expect(addresses(peer) == wanted)
    }

    /// Without a usable address there is no candidate: above all none of another interface.
    @Test(arguments: ["nosuch0", "192.0.2.77"]) func noSuchAddress(text: String) async throws {
        let peer = try TestPeer(controlling: true, local: ICENetwork(endpoint: LocalEndpoint(text)))
        peer.agent.gatherCandidates()
        #expect(await peer.state(.failed))
        #expect(peer.candidates.isEmpty)
        #expect(peer.agent.localFailure?.contains("local-address") == true)
        #expect(peer.warnings.allSatisfy { !$0.contains("192.0.2.77") })
    }

    /// libnice aborts the process at an address that is not among the first 64 of all.
    @Test func addressesOfManyNetworks() {
        let networks = (0..<24).map { "172.\(17 + $0).0.1" }
        let scoped = (0..<60).map { "fe80::\($0 + 1)%br\($0)" }
        let few = AddressSelection(of: ["10.0.0.2", "127.0.0.1"], preferred: [], known: ["10.0.0.2", "127.0.0.1"])
        #expect(few.chosen == ["127.0.0.1", "10.0.0.2"])
        #expect(few.omitted == 0)
        let many = AddressSelection(
            of: networks + ["fd00::1", "127.0.0.1"], preferred: ["172.40.0.1"],
            known: networks + ["fd00::1", "127.0.0.1"] + scoped)
        #expect(many.chosen.prefix(2) == ["172.40.0.1", "127.0.0.1"])
        #expect(Set(many.chosen.dropFirst(2)) == Set(networks.prefix(6)).union(["fd00::1"]))
        #expect(many.omitted == 17)
        let last = AddressSelection(
            of: networks + ["127.0.0.1"], preferred: ["127.0.0.1"], known: networks + scoped + ["127.0.0.1"])
        #expect(last.chosen == Array(networks.prefix(8)))
        #expect(last.omitted == 17)
        // libnice does not list every interface, and the length of its list is then the index.
        #expect(AddressSelection(of: ["172.17.0.1"], preferred: [], known: ["10.0.0.2"]).chosen == ["172.17.0.1"])
        let none = AddressSelection(of: ["172.17.0.1", "fd00::1"], preferred: ["fd00::1"], known: scoped)
        #expect(none.chosen.isEmpty && none.omitted == 2)
        let scopes = AddressSelection(of: ["fd00::1"], preferred: [], known: scoped + ["fd00::1%eth0"])
        #expect(scopes.omitted == 1)
    }

    /// Removes and adds an address of a host with more than 64 while agents connect, in a network namespace.
    @Test(.enabled(if: system("unshare --map-root-user --net ip link >/dev/null 2>&1") == 0, "no network namespaces"))
    func anAddressComesAndGoesDuringTheChecks() async throws {
        guard getenv("DECART_TEST_UNSTEADY_ADDRESS") != nil else {
            let program = try #require(realpath("/proc/self/exe", nil).map { String(cString: $0) })
            let network = """
                ip link set lo up
                ip link add unsteady type veth peer name peer1 && ip link add steady type veth peer name peer2
                for name in unsteady peer1 steady peer2; do ip link set $name up; done
                for i in $(seq 70); do ip address add 10.$i.0.1/16 dev steady; done
                while sleep 0.02; do
                    ip address add 10.99.0.1/16 dev unsteady; sleep 0.02; ip address delete 10.99.0.1/16 dev unsteady
                done &
                "$0" --testing-library swift-testing --filter anAddressComesAndGoes >&2; status=$?; kill $!; exit $status
                """
            setenv("DECART_TEST_NETWORK", network, 1)
            let status = system(
                "DECART_TEST_UNSTEADY_ADDRESS=1 SWIFT_BACKTRACE=enable=no unshare --map-root-user --net "
                    + "bash -c \"$DECART_TEST_NETWORK\" '\(program)'")
            #expect(status == 0)
            return
        }
        for _ in 0..<60 {
            let (left, right) = (try TestPeer(controlling: true), try TestPeer(controlling: false))
            #expect(await TestPeer.connect(left, right))
            for peer in [left, right] { peer.agent.close {} }
        }
    }

    @Test(arguments: [
        ("eth0", true), ("wlp0s20f3", true), ("eth0:1", true), ("192.0.2.7", true), ("2001:db8::7", true), ("", false),
        ("fe80::1", false), ("fe80::1%eth0", false), ("224.0.0.1", false), ("0.0.0.0", false), ("eth 0", false),
        ("a/b", false), ("sixteen-letters-", false), ("..", false), ("ä", false),
    ]) func parsing(text: String, isValid: Bool) { #expect((LocalEndpoint(text) != nil) == isValid) }
}
