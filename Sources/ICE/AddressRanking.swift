// Replaces the list of addresses by which libnice ranks candidates.
private import CNice
private import Glibc

/// Takes the place of the function of libnice of this name wherever libnice calls it, because a library that was loaded for
/// its dependants looks symbols up in them first. libnice ranks an address by its index in the list, again for each check, and
/// aborts the process at 64: on a host with 64 addresses, one that is removed during the checks would have the
/// length of the list. If another plugin has loaded libnice before, only `AddressSelection` keeps the index low.
@_cdecl("nice_interfaces_get_local_ips")
public func addressesForRanking(_ includesLoopback: CInt) -> UnsafeMutableRawPointer? {
    let list = AddressRanking.all(includesLoopback: includesLoopback)
    if let rest = g_list_nth(list?.assumingMemoryBound(to: GList.self), AddressRanking.limit) {
        rest.pointee.prev?.pointee.next = nil
        rest.pointee.prev = nil
        g_list_free_full(rest) { g_free($0) }
    }
    return list
}

enum AddressRanking {
    /// An address beyond it, or one that has been removed, gets this index.
    fileprivate static let limit: CUnsignedInt = 63

    private typealias Function = @convention(c) (CInt) -> UnsafeMutableRawPointer?
    /// libnice's own function: the next one behind ours.
    private static let original = dlsym(UnsafeMutableRawPointer(bitPattern: -1), "nice_interfaces_get_local_ips").map {
        unsafeBitCast($0, to: Function.self)
    }

    /// All addresses of this host in libnice's order: a `GList` that the caller owns; untyped as in `ConsentChecks`.
    static func all(includesLoopback: CInt) -> UnsafeMutableRawPointer? { original?(includesLoopback) }
}
