import Dispatch
import EventLoopThreads
import ICE
import RTP
import Synchronization
import Testing

import WebRTCTransport

/// The pacer on virtual time.
@Suite struct SendPacerTests {
    private static let size = 1200
    private static let bitrate = 2_500_000

    /// An RTP packet of `size` bytes: its number in the sequence number, its frame in the timestamp.
    private func packet(_ number: Int, frame: UInt8 = 1, size: Int = Self.size) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: size)
        guard size >= 12 else { return bytes }
        (bytes[0], bytes[2], bytes[3], bytes[7]) = (0x80, UInt8(number >> 8 & 0xff), UInt8(number & 0xff), frame)
        return bytes
    }

    private func number(_ packet: [UInt8]) -> Int { Int(packet[2]) << 8 | Int(packet[3]) }

    private struct Sent { var time: Duration, number: Int, size: Int }

    /// Takes packets whenever `wait` says so until none waits.
    private func drain(_ pacer: inout SendPacer, from start: Duration) -> [Sent] {
        var (sent, now) = ([Sent](), start)
        while let wait = pacer.wait(now: now) {
            // As a timer with a resolution of milliseconds does.
            now += max(.milliseconds(1), .milliseconds(Int(wait / .milliseconds(1))) + .milliseconds(1))
            while let packet = pacer.next(now: now) {
                sent.append(Sent(time: now, number: number(packet), size: packet.count))
            }
            guard now < start + .seconds(60) else { break }
        }
        return sent
    }

    @Test func smallFrameLeavesAtOnce() {
        var pacer = SendPacer(bitrate: Self.bitrate)
        for frame in 0..<100 {
            let now = Duration.milliseconds(33 * frame)
            for number in 0..<8 {
                let leaves = packet(number).withUnsafeBytes { pacer.offer($0, .media, now: now) }
                #expect(leaves)
            }
        }
        #expect(pacer.isEmpty && pacer.totalDelay == .zero)
    }

    /// A process that gets the CPU for a part of the time only would never catch up otherwise.
    @Test func everythingThatWasDueLeavesAtALateCall() {
        var pacer = SendPacer(bitrate: Self.bitrate)
        for number in 0..<30 {
            _ = packet(number).withUnsafeBytes { pacer.offer($0, .media, now: .zero) }
        }
        var sent = 0
        while pacer.next(now: .milliseconds(30)) != nil { sent += 1 }
        let due = Int(Double(Self.bitrate) / 8 * SendPacer.share * 0.03) / Self.size
        #expect(due > 8 && (due...due + 1).contains(sent), "\(sent) of \(due)")
        // The time before the next frame is no credit for it.
        while pacer.next(now: .seconds(5)) != nil {}
        let atOnce = (0..<30).count { number in
            packet(number).withUnsafeBytes { pacer.offer($0, .media, now: .seconds(6)) }
        }
        #expect(atOnce == 9)
    }

    /// The bytes of each interval stay below the burst and the share of the target.
    @Test(arguments: [600_000, 2_500_000, 20_000_000]) func largeFrameIsSpread(bitrate: Int) {
        var pacer = SendPacer(bitrate: bitrate)
        var sent: [Sent] = []
        // The last packet of a burst may overdraw it.
        let atOnce = (SendPacer.burst(bitrate) + Self.size - 1) / Self.size
        let count = atOnce + 16
        for index in 0..<count {
            let bytes = packet(index)
            // Some payloaders mark the first packet only.
            if bytes.withUnsafeBytes({ pacer.offer($0, index == 0 ? .keyframe : .media, now: .zero) }) {
                sent.append(Sent(time: .zero, number: index, size: bytes.count))
            }
        }
        #expect(sent.count == atOnce)
        sent += drain(&pacer, from: .zero)
        #expect(sent.map(\.number) == Array(0..<count))
        let rate = Double(bitrate) / 8 * SendPacer.share
        for (from, first) in sent.enumerated() {
            var bytes = 0
            for last in sent[from...] {
                bytes += last.size
                let time = (last.time - first.time) / .seconds(1)
                let allowed = Double(SendPacer.burst(bitrate) + Self.size) + rate * time
                #expect(Double(bytes) <= allowed, "\(bytes) bytes from \(first.time) to \(last.time)")
            }
        }
        // The 16th packet leaves when the ones before it have been paid for.
        let shortest = Duration.seconds(Double((count - 1) * Self.size - SendPacer.burst(bitrate)) / rate)
        let last = sent.last?.time ?? .zero
        #expect(last >= shortest - .milliseconds(2) && last <= shortest + .milliseconds(5), "\(last), \(shortest)")
        #expect(pacer.keyframeDelay == last)
        #expect(pacer.totalDelay > .zero)
    }

    @Test func retransmissionsOvertake() {
        var pacer = SendPacer(bitrate: Self.bitrate)
        for index in 0..<20 { _ = packet(index).withUnsafeBytes { pacer.offer($0, .media, now: .zero) } }
        _ = packet(100).withUnsafeBytes { pacer.offer($0, .retransmission, now: .zero) }
        _ = packet(101).withUnsafeBytes { pacer.offer($0, .retransmission, now: .zero) }
        #expect(drain(&pacer, from: .zero).map(\.number) == [100, 101] + Array(9..<20))
    }

    @Test func nothingOvertakesAPacketThatIsLeaving() {
        var pacer = SendPacer(bitrate: Self.bitrate)
        let leaves = packet(0).withUnsafeBytes { pacer.offer($0, .media, mustWait: true, now: .zero) }
        #expect(!leaves)
        let second = packet(1).withUnsafeBytes { pacer.offer($0, .media, now: .zero) }
        #expect(!second)
        #expect(pacer.next(now: .zero).map(number) == 0)
        #expect(pacer.next(now: .zero).map(number) == 1)
    }

    /// The target falls to a hundredth while 200 kB wait.
    @Test func noPacketWaitsLongerThanTheLimit() {
        var pacer = SendPacer(bitrate: 10_000_000)
        for index in 0..<170 { _ = packet(index).withUnsafeBytes { pacer.offer($0, .keyframe, now: .zero) } }
        pacer.pace(bitrate: 100_000, now: .zero)
        let sent = drain(&pacer, from: .zero)
        #expect(sent.count == 135)
        #expect(sent.last.map { $0.time <= SendPacer.longestWait + .milliseconds(5) } == true)
        // The next burst is paced by the target again.
        let later = Duration.seconds(10)
        for index in 0..<10 { _ = packet(index).withUnsafeBytes { pacer.offer($0, .media, now: later) } }
        #expect(drain(&pacer, from: later).last.map { $0.time > later + .milliseconds(50) } == true)
    }

    @Test func delayOfAKeyframeIsItsOwn() {
        var pacer = SendPacer(bitrate: Self.bitrate)
        for index in 0..<12 { _ = packet(index).withUnsafeBytes { pacer.offer($0, .keyframe, now: .zero) } }
        _ = drain(&pacer, from: .zero)
        let first = pacer.keyframeDelay
        #expect(first.map { $0 > .zero } == true)
        _ = packet(20, frame: 2).withUnsafeBytes { pacer.offer($0, .media, now: .seconds(1)) }
        #expect(pacer.keyframeDelay == first)
        _ = packet(21, frame: 3).withUnsafeBytes { pacer.offer($0, .keyframe, now: .seconds(2)) }
        #expect(pacer.keyframeDelay == .zero)
    }

    @Test func oddInput() {
        var pacer = SendPacer(bitrate: 0)
        pacer.pace(bitrate: -1, now: .seconds(5))
        for size in [0, 1, 11, 12, 65_535, 1_000_000] {
            _ = packet(1, size: size).withUnsafeBytes { pacer.offer($0, .keyframe, now: .seconds(4)) }
        }
        pacer.pace(bitrate: .max, now: .seconds(6))
        _ = drain(&pacer, from: .seconds(6))
        #expect(pacer.isEmpty && pacer.wait(now: .seconds(7)) == nil)
        pacer.clear()
        #expect(pacer.next(now: .seconds(8)) == nil)
    }

    /// Two threads send: that of the caller and the network thread.
    @Test(.timeLimit(.minutes(1))) func senderKeepsTheOrder() {
        let received = Mutex<[Int]>([])
        let areAllSent = DispatchSemaphore(value: 0)
        let batches = Mutex<[Int]>([0])
        let sender = PacedSender(
            bitrate: 20_000_000, network: .shared,
            send: { packet in
                let number = Int(packet[2]) << 8 | Int(packet[3])
                batches.withLock { $0[$0.count - 1] += 1 }
                let count = received.withLock { received in
                    received.append(number)
                    return received.count
                }
                if count == 600 { areAllSent.signal() }
            }, flush: { batches.withLock { $0.append(0) } })
        for first in stride(from: 0, to: 600, by: 20) {
            sender.offer { offer in
                for index in first..<first + 20 { packet(index).withUnsafeBytes { offer($0, .media) } }
            }
        }
        #expect(areAllSent.wait(timeout: .now() + 30) == .success)
        #expect(received.withLock { $0 } == Array(0..<600))
        #expect(sender.delays.total > .zero)
        // The last entry belongs to the flush that has not come yet.
        #expect(batches.withLock { $0.dropLast().allSatisfy { $0 > 0 } })
        #expect(batches.withLock { ($0.max() ?? 0) >= 8 })
        sender.stop()
        sender.offer { offer in packet(601).withUnsafeBytes { offer($0, .media) } }
        letTheNetworkThreadRun()
        #expect(received.withLock { $0.count } == 600)
    }

    /// Padding repeats the newest packet, so that it must not overtake those that wait.
    @Test(.timeLimit(.minutes(1))) func paddingFollowsThePacketsThatWait() {
        let padding = -1
        let received = Mutex<[Int]>([])
        let areAllSent = DispatchSemaphore(value: 0)
        let sender = PacedSender(
            bitrate: 1_000_000, network: .shared,
            send: { packet in
                let number = Int(packet[2]) << 8 | Int(packet[3])
                received.withLock { $0.append(number) }
                if number == 39 { areAllSent.signal() }
            }, pad: { _ in received.withLock { $0.append(padding) } }, flush: {})
        func pad() {
            var left = 3
            sender.fill {
                left -= 1
                return left >= 0 ? packet(0) : nil
            }
        }
        sender.offer { offer in
            for index in 0..<40 { packet(index).withUnsafeBytes { offer($0, .media) } }
        }
        pad()
        #expect(areAllSent.wait(timeout: .now() + 30) == .success)
        #expect(received.withLock { Array($0.prefix(40)) } == Array(0..<40))
        letTheNetworkThreadRun()
        let before = received.withLock { $0.count }
        pad()
        #expect(received.withLock { Array($0.dropFirst(before)) } == [padding, padding, padding])
        sender.stop()
    }
}
