/// The addresses that one agent gets. libnice ranks an address by its index among all of this host's addresses, and aborts
/// the process at an index of 64 or more, which hosts with many container networks have.
package struct AddressSelection: Sendable, Equatable {
    /// Each address costs a socket, and checks with all remote candidates.
    package static let maximumOfFamily = 8
    /// Eight less than libnice's limit: it counts again for each check, and networks may have been added meanwhile.
    package static let indexLimit = 56

    /// Address literals, those of the default routes first.
    package private(set) var chosen: [String] = []
    /// The number of addresses that are not used.
    package private(set) var omitted = 0

    /// - Parameters:
    ///   - addresses: literals that candidates may have.
    ///   - preferred: the addresses of the interfaces that the default routes use.
    ///   - known: all addresses of this host in libnice's order, link-local ones with their scope.
    package init(of addresses: [String], preferred: Set<String>, known: [String]) {
        var indices: [Substring: Int] = [:]
        for (index, text) in known.enumerated() {
            let address = text.prefix { $0 != "%" }
            if indices[address] == nil { indices[address] = index }
        }
        // libnice leaves out some interfaces, such as docker0. It takes the number of all others for their index.
        let ranked = addresses.map { text -> (text: String, rank: Int, index: Int) in
            let rank = preferred.contains(text) ? 0 : IPAddress(text)?.isLoopback == true ? 1 : 2
            return (text, rank, indices[text[...]] ?? known.count)
        }
        var count: [Bool: Int] = [:]
        for address in ranked.sorted(by: { ($0.rank, $0.index) < ($1.rank, $1.index) }) {
            let isIPv6 = IPAddress(address.text)?.isIPv6 ?? false
            guard address.index < Self.indexLimit, count[isIPv6, default: 0] < Self.maximumOfFamily else {
                omitted += 1
                continue
            }
            count[isIPv6, default: 0] += 1
            chosen.append(address.text)
        }
    }
}
