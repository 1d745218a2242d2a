import CNice

extension ICECandidatePair {
    /// Describes two candidates that libnice owns.
    init(borrowing local: UnsafeMutablePointer<NiceCandidate>, _ remote: UnsafeMutablePointer<NiceCandidate>) {
        self.init(
            local: End(borrowing: local), remote: End(borrowing: remote),
            transport: local.pointee.transport == NICE_CANDIDATE_TRANSPORT_UDP ? "udp" : "tcp")
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
        let text = withUnsafeMutablePointer(to: &candidate.pointee.addr) { address in
            // Large enough for NICE_ADDRESS_STRING_LEN, which is 46.
            let host = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer in
                buffer.initialize(repeating: 0)
                nice_address_to_string(address, buffer.baseAddress)
                return buffer.baseAddress.map { String(cString: $0) } ?? ""
            }
            let port = nice_address_get_port(address)
            return nice_address_ip_version(address) == 6 ? "[\(host)]:\(port)" : "\(host):\(port)"
        }
        self.init(type: type, address: text)
    }
}
