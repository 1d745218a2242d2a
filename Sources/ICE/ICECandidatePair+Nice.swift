import CNice

extension ICECandidatePair {
    /// Describes two candidates that libnice owns.
    init(borrowing local: UnsafeMutablePointer<NiceCandidate>, _ remote: UnsafeMutablePointer<NiceCandidate>) {
        self.init(
            local: End(borrowing: local), remote: End(borrowing: remote),
            base: local.pointee.type == NICE_CANDIDATE_TYPE_RELAYED
                ? nil : withUnsafeMutablePointer(to: &local.pointee.base_addr) { text(of: $0) },
            transport: local.pointee.transport == NICE_CANDIDATE_TRANSPORT_UDP ? "udp" : "tcp")
    }
}

/// Returns the address without its port. Not an extension of the pointer, which would make clients load libnice's headers.
private func text(of address: UnsafeMutablePointer<NiceAddress>) -> String {
    // Large enough for NICE_ADDRESS_STRING_LEN, which is 46.
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer in
        buffer.initialize(repeating: 0)
        nice_address_to_string(address, buffer.baseAddress)
        return buffer.baseAddress.map { String(cString: $0) } ?? ""
    }
}

extension ICECandidatePair.End {
    init(borrowing candidate: UnsafeMutablePointer<NiceCandidate>) {
        let type =
            switch candidate.pointee.type {
            case NICE_CANDIDATE_TYPE_HOST: "host"
            case NICE_CANDIDATE_TYPE_SERVER_REFLEXIVE: "srflx"
            case NICE_CANDIDATE_TYPE_PEER_REFLEXIVE: "prflx"
            default: "relay"
            }
        let place = withUnsafeMutablePointer(to: &candidate.pointee.addr) { address in
            let host = text(of: address)
            let port = nice_address_get_port(address)
            return nice_address_ip_version(address) == 6 ? "[\(host)]:\(port)" : "\(host):\(port)"
        }
        self.init(type: type, address: place)
    }
}
