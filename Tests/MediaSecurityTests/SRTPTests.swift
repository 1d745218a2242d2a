import MediaSecurity
import Testing
import TestSupport

@Suite(.timeLimit(.minutes(1)))
struct SRTPTests {
    static func ends(_ profile: SRTPProfile) throws -> (SRTPTransform, SRTPTransform) {
        let length = profile.keyLength + profile.saltLength
        let one = (0..<length).map { UInt8($0) }
        let two = (0..<length).map { UInt8(200 - $0) }
        let left = try #require(SRTPKeyMaterial(profile: profile, local: one, remote: two))
        let right = try #require(SRTPKeyMaterial(profile: profile, local: two, remote: one))
        return (try SRTPTransform(keys: left), try SRTPTransform(keys: right))
    }

    static func rtp(_ sequence: Int, payload: Int = 100, ssrc: UInt8 = 1, csrcs: Int = 0, extended: Bool = false)
        -> [UInt8]
    {
        var packet: [UInt8] = [
            0x80 | (extended ? 0x10 : 0) | UInt8(csrcs), 96, UInt8(sequence >> 8 & 255), UInt8(sequence & 255), 0, 0, 0,
            1, 0, 0, 0, ssrc,
        ]
        packet += [UInt8](repeating: 7, count: 4 * csrcs)
        if extended { packet += [0xbe, 0xde, 0, 1, 0x10, 0xaa, 0, 0] }
        return packet + (0..<payload).map { UInt8(truncatingIfNeeded: $0) }
    }

    static func rtcp(_ words: Int, ssrc: UInt8 = 1) -> [UInt8] {
        [0x80, 201, UInt8(words >> 8), UInt8(words & 255), 0, 0, 0, ssrc]
            + [UInt8](repeating: 3, count: 4 * (words - 1))
    }

    typealias Step = (UnsafeMutableRawBufferPointer, Int) -> Int?

    static func apply(_ packet: [UInt8], room: Int = SRTPTransform.maximumOverhead, _ step: Step) -> [UInt8]? {
        var buffer = packet + [UInt8](repeating: 0, count: room)
        let count = packet.count
        guard let length = buffer.withUnsafeMutableBytes({ step($0, count) }) else { return nil }
        return Array(buffer.prefix(length))
    }

    @Test(arguments: SRTPProfile.allCases)
    func roundTrip(profile: SRTPProfile) throws {
        let (left, right) = try Self.ends(profile)
        let plain = [
            Self.rtp(1), Self.rtp(2, payload: 0), Self.rtp(3, payload: 1_100), Self.rtp(4, csrcs: 15),
            Self.rtp(5, extended: true), Self.rtp(6, csrcs: 2, extended: true), Self.rtp(7, ssrc: 9),
        ]
        for packet in plain {
            let protected = try #require(Self.apply(packet) { left.protectRTP($0, length: $1) })
            #expect(protected.count == packet.count + (profile == .aeadAES128GCM ? 16 : 10))
            #expect(Self.apply(protected, room: 0) { right.unprotectRTP($0, length: $1) } == packet)
        }
        for words in [1, 2, 6, 300] {
            let packet = Self.rtcp(words)
            let protected = try #require(Self.apply(packet) { right.protectRTCP($0, length: $1) })
            #expect(protected.count <= packet.count + SRTPTransform.maximumOverhead)
            #expect(protected.dropFirst(8) != packet.dropFirst(8))
            #expect(Self.apply(protected, room: 0) { left.unprotectRTCP($0, length: $1) } == packet)
        }
        #expect(left.counters == SRTPCounters())
        #expect(right.counters == SRTPCounters())
    }

    @Test(arguments: SRTPProfile.allCases)
    func replayIsRejected(profile: SRTPProfile) throws {
        let (left, right) = try Self.ends(profile)
        var captured: [[UInt8]] = []
        for sequence in 100..<1_100 {
            captured.append(try #require(Self.apply(Self.rtp(sequence)) { left.protectRTP($0, length: $1) }))
        }
        let control = try #require(Self.apply(Self.rtcp(4)) { left.protectRTCP($0, length: $1) })
        #expect(
            captured.filter { Self.apply($0, room: 0) { right.unprotectRTP($0, length: $1) } != nil }.count == 1_000)
        #expect(captured.filter { Self.apply($0, room: 0) { right.unprotectRTP($0, length: $1) } != nil }.isEmpty)
        #expect(Self.apply(control, room: 0) { right.unprotectRTCP($0, length: $1) } != nil)
        #expect(Self.apply(control, room: 0) { right.unprotectRTCP($0, length: $1) } == nil)
        #expect(right.counters.replayed == 1_001)
        #expect(right.counters.unprotectRefused == 1_001)
    }

    /// Late packets within the replay window pass; the sender refuses to protect a sequence number twice.
    @Test
    func disorderAndRepetition() throws {
        let (left, right) = try Self.ends(.aeadAES128GCM)
        let packets = try (1...200).map { sequence in
            try #require(Self.apply(Self.rtp(sequence)) { left.protectRTP($0, length: $1) })
        }
        #expect(packets.reversed().allSatisfy { Self.apply($0, room: 0) { right.unprotectRTP($0, length: $1) } != nil })
        #expect(Self.apply(Self.rtp(200)) { left.protectRTP($0, length: $1) } == nil)
        #expect(left.counters.protectRefused == 1)
    }

    @Test(arguments: SRTPProfile.allCases)
    func tamperingIsRejected(profile: SRTPProfile) throws {
        let (left, right) = try Self.ends(profile)
        let media = try #require(Self.apply(Self.rtp(1, extended: true)) { left.protectRTP($0, length: $1) })
        let control = try #require(Self.apply(Self.rtcp(4)) { left.protectRTCP($0, length: $1) })
        for index in media.indices {
            var changed = media
            changed[index] ^= 0x01
            #expect(Self.apply(changed, room: 0) { right.unprotectRTP($0, length: $1) } == nil, "byte \(index)")
        }
        for index in control.indices {
            var changed = control
            changed[index] ^= 0x01
            #expect(Self.apply(changed, room: 0) { right.unprotectRTCP($0, length: $1) } == nil, "byte \(index)")
        }
        // Rejected packets leave the state unchanged.
        #expect(Self.apply(media, room: 0) { right.unprotectRTP($0, length: $1) } != nil)
        #expect(Self.apply(control, room: 0) { right.unprotectRTCP($0, length: $1) } != nil)
    }

    @Test
    func otherKeysAreRejected() throws {
        let (left, _) = try Self.ends(.aeadAES128GCM)
        let packet = try #require(Self.apply(Self.rtp(1)) { left.protectRTP($0, length: $1) })
        // A transform's outbound keys do not unprotect its own packets.
        #expect(Self.apply(packet, room: 0) { left.unprotectRTP($0, length: $1) } == nil)
        let (other, _) = try Self.ends(.aes128CMSHA1_80)
        #expect(Self.apply(packet, room: 0) { other.unprotectRTP($0, length: $1) } == nil)
    }

    /// Every length of every kind, with an RTP header, an RTCP header or neither; also through `protect`.
    @Test(arguments: SRTPProfile.allCases)
    func lengthSweep(profile: SRTPProfile) throws {
        let (left, right) = try Self.ends(profile)
        var generator = SeededGenerator(seed: 11)
        let noise = (0..<8_192).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
        for length in 0...1_500 {
            for first: UInt8 in [0x00, 0x16, 0x7f, 0x80, 0x81, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xff] {
                var packet = Array(noise[Int(generator.next() % 6_000)...].prefix(length))
                if length > 0 { packet[0] = first }
                #expect(Self.apply(packet, room: 0) { right.unprotectRTP($0, length: $1) } == nil)
                #expect(Self.apply(packet, room: 0) { right.unprotectRTCP($0, length: $1) } == nil)
                _ = Self.apply(packet) { left.protectRTP($0, length: $1) }
                _ = Self.apply(packet) { left.protectRTCP($0, length: $1) }
            }
        }
        let counters = right.counters
        #expect(counters.malformed > 0)
        #expect(counters.unprotectRefused > 0)
        #expect(counters.malformed + counters.unprotectRefused == 1_501 * 11 * 2)
        let media = try #require(Self.apply(Self.rtp(1, ssrc: 77)) { left.protectRTP($0, length: $1) })
        #expect(Self.apply(media, room: 0) { right.unprotectRTP($0, length: $1) } != nil)
    }

    /// Rejects a caller's mistakes too.
    @Test
    func lengthsThatDoNotFit() throws {
        let (left, _) = try Self.ends(.aeadAES128GCM)
        let packet = Self.rtp(1)
        for room in 0..<SRTPTransform.maximumOverhead {
            #expect(Self.apply(packet, room: room) { left.protectRTP($0, length: $1) } == nil)
            #expect(Self.apply(Self.rtcp(4), room: room) { left.protectRTCP($0, length: $1) } == nil)
        }
        for length in [Int.min, -1, 0, 11, 1_000, Int.max] {
            #expect(Self.apply(packet) { buffer, _ in left.protectRTP(buffer, length: length) } == nil)
            #expect(Self.apply(packet) { buffer, _ in left.protectRTCP(buffer, length: length) } == nil || length == 11)
            #expect(Self.apply(packet) { buffer, _ in left.unprotectRTP(buffer, length: length) } == nil)
            #expect(Self.apply(packet) { buffer, _ in left.unprotectRTCP(buffer, length: length) } == nil)
        }
        let empty = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        #expect(left.protectRTP(empty, length: 0) == nil)
        #expect(left.unprotectRTCP(empty, length: 0) == nil)
    }

    /// The RTP thread and the RTCP thread use one transform concurrently.
    @Test(arguments: SRTPProfile.allCases)
    func concurrency(profile: SRTPProfile) async throws {
        let (left, right) = try Self.ends(profile)
        let counts = await withTaskGroup(of: Int.self) { group in
            for ssrc: UInt8 in 1...2 {
                group.addTask {
                    (1...2_000).filter { sequence in
                        let plain = Self.rtp(sequence, payload: 200, ssrc: ssrc)
                        guard let sent = Self.apply(plain, { left.protectRTP($0, length: $1) }) else { return false }
                        return Self.apply(sent, room: 0) { right.unprotectRTP($0, length: $1) } == plain
                    }.count
                }
            }
            for ssrc: UInt8 in 3...4 {
                group.addTask {
                    (1...2_000).filter { _ in
                        let plain = Self.rtcp(6, ssrc: ssrc)
                        guard let sent = Self.apply(plain, { left.protectRTCP($0, length: $1) }) else { return false }
                        return Self.apply(sent, room: 0) { right.unprotectRTCP($0, length: $1) } == plain
                    }.count
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(counts == [2_000, 2_000, 2_000, 2_000])
    }

    /// RFC 5764 4.2 orders the exported block: client key, server key, client salt, server salt. Each endpoint sends
    /// with its own key. The keys are fixed, because two endpoints of ours with the same mix-up would interoperate.
    @Test(arguments: SRTPProfile.allCases)
    func exportedKeysBelongToTheirRoles(profile: SRTPProfile) throws {
        let clientKey = [UInt8](repeating: 0xc1, count: profile.keyLength)
        let serverKey = [UInt8](repeating: 0x51, count: profile.keyLength)
        let clientSalt = [UInt8](repeating: 0xc2, count: profile.saltLength)
        let serverSalt = [UInt8](repeating: 0x52, count: profile.saltLength)
        let block = clientKey + serverKey + clientSalt + serverSalt
        #expect(block.count == (profile == .aeadAES128GCM ? 56 : 60))
        let client = try #require(SRTPKeyMaterial(profile: profile, exported: block, role: .client))
        let server = try #require(SRTPKeyMaterial(profile: profile, exported: block, role: .server))
        #expect(client.withLocal(Array.init) == clientKey + clientSalt)
        #expect(client.withRemote(Array.init) == serverKey + serverSalt)
        #expect(server.withLocal(Array.init) == serverKey + serverSalt)
        #expect(server.withRemote(Array.init) == clientKey + clientSalt)
        #expect(SRTPKeyMaterial(profile: profile, exported: block.dropLast(), role: .client) == nil)
        #expect(SRTPKeyMaterial(profile: profile, exported: block + [0], role: .client) == nil)
    }

    /// Keys exported by a real handshake protect media in both directions.
    @Test
    func keysOfAHandshake() throws {
        let pair = try DTLSPair()
        pair.handshake()
        let client = try SRTPTransform(keys: #require(pair.clientKeys))
        let server = try SRTPTransform(keys: #require(pair.serverKeys))
        let there = try #require(Self.apply(Self.rtp(1)) { client.protectRTP($0, length: $1) })
        #expect(Self.apply(there, room: 0) { server.unprotectRTP($0, length: $1) } == Self.rtp(1))
        let back = try #require(Self.apply(Self.rtcp(3)) { server.protectRTCP($0, length: $1) })
        #expect(Self.apply(back, room: 0) { client.unprotectRTCP($0, length: $1) } == Self.rtcp(3))
    }
}
