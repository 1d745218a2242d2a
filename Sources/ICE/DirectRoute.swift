// The way out through the selected pair's socket. libnice sends one datagram a system call; here up to 16 leave in one
// (sendmmsg), and those of one size in one buffer (UDP_SEGMENT), which the kernel cuts for devices that cannot.
internal import CNice

/// The socket of a selected pair without a TURN server, and the remote address. libnice owns the socket.
struct DirectRoute: Sendable {
    private let descriptor: CInt
    /// A `struct sockaddr`. Untyped, so that clients of this module do not load libnice's headers for its layout.
    private let address: [UInt8]
    /// UDP_SEGMENT is used; false once the path has refused it.
    private var segments: gboolean

    private static let addressSize = 128
    /// System calls that sent more than one datagram, and the datagrams in them.
    private(set) var batches = (calls: 0, datagrams: 0)

    init?(_ descriptor: CInt, to remote: UnsafePointer<NiceAddress>) {
        guard descriptor >= 0 else { return nil }
        var length = 0
        let address = [UInt8](unsafeUninitializedCapacity: Self.addressSize) { bytes, count in
            bytes.initialize(repeating: 0)
            length = Int(gst_decart_nice_socket_address(remote, bytes.baseAddress))
            count = min(length, Self.addressSize)
        }
        guard length > 0 else { return nil }
        (self.descriptor, self.address) = (descriptor, address)
        segments = gst_decart_segments(descriptor)
    }

    mutating func send(_ datagram: UnsafeRawBufferPointer) -> Bool {
        var (bytes, length) = (datagram.baseAddress, gsize(datagram.count))
        return gst_decart_send_many(descriptor, address, guint(address.count), &bytes, &length, 1, &segments) == 1
    }

    /// - Parameter onSent: gets the index of each datagram that was sent.
    mutating func send(_ datagrams: [UnsafeRawBufferPointer], onSent: (Int) -> Void) {
        var start = 0
        while start < datagrams.count {
            let end = min(start + Int(gst_decart_maximum_datagrams), datagrams.count)
            let sent = sendTogether(datagrams[start..<end])
            for index in start..<start + sent { onSent(index) }
            // One that the socket refuses is lost, as on the network; the next ones may pass.
            start += max(sent, 1)
        }
    }

    /// Returns how many were sent, from the first on.
    private mutating func sendTogether(_ datagrams: ArraySlice<UnsafeRawBufferPointer>) -> Int {
        let sent = withUnsafeTemporaryAllocation(of: UnsafeRawPointer?.self, capacity: datagrams.count) { bytes in
            withUnsafeTemporaryAllocation(of: gsize.self, capacity: datagrams.count) { lengths in
                for (index, datagram) in datagrams.enumerated() {
                    bytes.initializeElement(at: index, to: datagram.baseAddress)
                    lengths.initializeElement(at: index, to: gsize(datagram.count))
                }
                return gst_decart_send_many(
                    descriptor, address, guint(address.count), bytes.baseAddress, lengths.baseAddress,
                    guint(datagrams.count), &segments)
            }
        }
        guard sent > 0 else { return 0 }
        if sent > 1 {
            batches.calls &+= 1
            batches.datagrams &+= Int(sent)
        }
        return min(Int(sent), datagrams.count)
    }
}
