import Testing
import WebRTCTransport

@Suite struct CandidateFamiliesTests {
    private static let four = "candidate:1 1 UDP 2122260223 192.0.2.1 40000 typ host"
    private static let six = "candidate:2 1 UDP 2122262783 2001:db8::1 40000 typ host"
    private static let name = "candidate:3 1 UDP 2122262783 3f1c7d1e-5a0b-4c57-9d0c-1f2a3b4c5d6e.local 40000 typ host"

    private func families(local: [String], remote: [String]) -> String? {
        var families = CandidateFamilies()
        for line in local { families.add(local: line) }
        for line in remote { families.add(remote: line) }
        return families.disjoint.map { "\($0.local) \($0.remote)" }
    }

    @Test func sidesWithoutACommonFamilyAreFound() {
        #expect(families(local: [Self.six], remote: [Self.four, Self.four]) == "IPv6 IPv4")
        #expect(families(local: [Self.four], remote: [Self.six]) == "IPv4 IPv6")
    }

    @Test func aCommonFamilyIsEnough() {
        #expect(families(local: [Self.six, Self.four], remote: [Self.four]) == nil)
        #expect(families(local: [Self.six], remote: [Self.name]) == nil)
    }

    @Test func nothingIsSaidOfASideWithoutCandidates() {
        #expect(families(local: [Self.six], remote: []) == nil)
        #expect(families(local: [Self.six], remote: ["nonsense"]) == nil)
    }
}
