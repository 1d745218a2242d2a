// The families of the addresses that both sides of a connection have: without a common one, no check can pass. A value.
import ICE

package struct CandidateFamilies: Sendable {
    private var local: Set<String> = []
    private var remote: Set<String> = []

    package init() {}

    package mutating func add(local candidate: String) { local.formUnion(Self.families(of: candidate)) }
    package mutating func add(remote candidate: String) { remote.formUnion(Self.families(of: candidate)) }

    /// nil: there is a common family, or one side has no candidates.
    package var disjoint: (local: String, remote: String)? {
        guard let own = local.first, let other = remote.first, local.isDisjoint(with: remote) else { return nil }
        return (own, other)
    }

    private static func families(of candidate: String) -> [String] {
        do throws(CandidateLine.Rejection) {
            return [try CandidateLine.parse(candidate).address.contains(":") ? "IPv6" : "IPv4"]
        } catch {
            // A name may have addresses of any family; other lines that are refused are never tried.
            return error == .mdns ? ["IPv4", "IPv6"] : []
        }
    }
}
