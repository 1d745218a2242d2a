// SRTP and SRTCP of one session (RFC 3711, RFC 7714) over libsrtp2. It knows keys and packets, no sequence of events.
private import CSRTP
private import Synchronization

/// Protects and unprotects packets in place. Allocates nothing per packet.
///
/// Safe from any thread: the RTP and the RTCP thread share one sending context (trap D3), which has its own lock, and so
/// has the receiving one. Neither is held across a call-out.
package final class SRTPTransform: Sendable {
    /// Bytes behind `length` that `protect…` may write: the tag (16 with GCM, 10 with SHA-1) and SRTCP's index (4).
    package static let maximumOverhead = 20

    private let outbound: Mutex<Context>
    private let inbound: Mutex<Context>
    private let tagLength: Int

    package init(keys: SRTPKeyMaterial) throws(SRTPError) {
        guard Self.isInitialised else { throw .library(code: -1) }
        tagLength = keys.profile == .aeadAES128GCM ? 16 : 10
        let outbound = try Context(keys: keys, direction: .outbound)
        let inbound = try Context(keys: keys, direction: .inbound)
        self.outbound = Mutex(outbound)
        self.inbound = Mutex(inbound)
    }

    /// - Parameters:
    ///   - buffer: the packet, with at least `maximumOverhead` bytes of room behind it.
    ///   - length: the packet's bytes at the start of `buffer`.
    /// - Returns: the protected length; `nil` when refused (malformed, no room, index used up, sent before).
    package func protectRTP(_ buffer: UnsafeMutableRawBufferPointer, length: Int) -> Int? {
        outbound.withLock { context in
            guard length <= buffer.count - Self.maximumOverhead, PacketShape.isRTP(buffer, length: length) else {
                context.counters.protectRefused &+= 1
                return nil
            }
            return context.run(.protectRTP, buffer, length: length)
        }
    }

    /// As `protectRTP`, for a (compound) RTCP packet.
    package func protectRTCP(_ buffer: UnsafeMutableRawBufferPointer, length: Int) -> Int? {
        outbound.withLock { context in
            guard length <= buffer.count - Self.maximumOverhead, PacketShape.isRTCP(buffer, length: length) else {
                context.counters.protectRefused &+= 1
                return nil
            }
            return context.run(.protectRTCP, buffer, length: length)
        }
    }

    /// - Returns: the plain length; `nil` when the packet is malformed, not authentic or was there before. The buffer's
    ///   bytes are then of no use.
    package func unprotectRTP(_ buffer: UnsafeMutableRawBufferPointer, length: Int) -> Int? {
        inbound.withLock { context in
            guard length <= buffer.count, PacketShape.isRTP(buffer, length: length &- tagLength) else {
                context.counters.malformed &+= 1
                return nil
            }
            return context.run(.unprotectRTP, buffer, length: length)
        }
    }

    /// As `unprotectRTP`, for an SRTCP packet.
    package func unprotectRTCP(_ buffer: UnsafeMutableRawBufferPointer, length: Int) -> Int? {
        inbound.withLock { context in
            guard length <= buffer.count, PacketShape.isRTCP(buffer, length: length &- tagLength &- 4) else {
                context.counters.malformed &+= 1
                return nil
            }
            return context.run(.unprotectRTCP, buffer, length: length)
        }
    }

    /// Releases what is kept of an SSRC of the remote peer's. A later packet of it begins anew: with the first rollover
    /// period, and without a memory of what was received.
    package func forgetInbound(_ ssrc: UInt32) { inbound.withLock { $0.forget(ssrc) } }

    package var counters: SRTPCounters {
        let sent = outbound.withLock { $0.counters }
        var all = inbound.withLock { $0.counters }
        all.protectRefused = sent.protectRefused
        return all
    }

    /// libsrtp's one global step; false when its crypto library refuses to start.
    private static let isInitialised = srtp_init() == srtp_err_status_ok
}

/// What was thrown away rather than believed.
package struct SRTPCounters: Sendable, Equatable {
    package var protectRefused = 0
    /// Too short for its own headers, or not RTP at all; libsrtp never saw it.
    package var malformed = 0
    /// Not authentic, or seen before. Of which `replayed`.
    package var unprotectRefused = 0
    package var replayed = 0

    package init() {}
}

package enum SRTPError: Error, Equatable, CustomStringConvertible {
    case library(code: Int)

    package var description: String {
        switch self {
        case .library(let code): "libsrtp refused to start (status \(code))"
        }
    }
}

/// One direction's libsrtp session.
// Reached only through its Mutex; libsrtp keeps no thread-bound state.
private struct Context: @unchecked Sendable {
    enum Direction { case outbound, inbound }
    enum Operation { case protectRTP, protectRTCP, unprotectRTP, unprotectRTCP }

    private let session: Session
    var counters = SRTPCounters()

    init(keys: SRTPKeyMaterial, direction: Direction) throws(SRTPError) {
        var policy = srtp_policy_t()
        let status = gst_decart_srtp_set_profile(&policy, keys.profile == .aeadAES128GCM ? 1 : 0)
        guard status == 0 else { throw .library(code: Int(status)) }
        policy.ssrc.type = direction == .outbound ? ssrc_any_outbound : ssrc_any_inbound
        // Packets that NACKs bring again arrive late: a window of 1,024 is over 3 s of video at 2.5 Mbit/s.
        policy.window_size = 1_024
        policy.allow_repeat_tx = 0
        var pointer: OpaquePointer?
        let make: (UnsafeRawBufferPointer) -> srtp_err_status_t = { key in
            // libsrtp reads the key during the call and takes a pointer to variable bytes for historical reasons.
            policy.key = UnsafeMutablePointer(mutating: key.baseAddress?.assumingMemoryBound(to: UInt8.self))
            return srtp_create(&pointer, &policy)
        }
        let created = direction == .outbound ? keys.withLocal(make) : keys.withRemote(make)
        guard created == srtp_err_status_ok, let pointer else { throw .library(code: Int(created.rawValue)) }
        session = Session(taking: pointer)
    }

    mutating func run(_ operation: Operation, _ buffer: UnsafeMutableRawBufferPointer, length: Int) -> Int? {
        var count = Int32(clamping: length)
        let bytes = buffer.baseAddress
        let status =
            switch operation {
            case .protectRTP: srtp_protect(session.pointer, bytes, &count)
            case .protectRTCP: srtp_protect_rtcp(session.pointer, bytes, &count)
            case .unprotectRTP: srtp_unprotect(session.pointer, bytes, &count)
            case .unprotectRTCP: srtp_unprotect_rtcp(session.pointer, bytes, &count)
            }
        if status == srtp_err_status_ok, count >= 0, Int(count) <= buffer.count { return Int(count) }
        switch operation {
        case .protectRTP, .protectRTCP: counters.protectRefused &+= 1
        case .unprotectRTP, .unprotectRTCP:
            counters.unprotectRefused &+= 1
            if status == srtp_err_status_replay_fail || status == srtp_err_status_replay_old {
                counters.replayed &+= 1
            }
        }
        return nil
    }

    func forget(_ ssrc: UInt32) { srtp_remove_stream(session.pointer, ssrc.bigEndian) }

    private final class Session {
        let pointer: OpaquePointer
        init(taking pointer: OpaquePointer) { self.pointer = pointer }
        deinit { srtp_dealloc(pointer) }
    }
}
