import CommandLineOptions
import GStreamerKit
import Glibc
import Synchronization

/// The remote peer: answers calls and echoes the received frames without decoding them. Reads messages from standard
/// input, one per line.
struct PeerCommand: Command {
    private var far = Implementation.ours

    static var table: OptionTable<PeerCommand> {
        .bench(
            "peer", abstract: "The remote peer of a measurement; started by the other commands.",
            options: [.value("far", "implementation", \.far, "Implementation of the peer.")])
    }

    func run() throws {
        signal(SIGPIPE, SIG_IGN)
        GStreamerRuntime.initialise()
        var calls: [Int: Call] = [:]
        var early: [Int: [PeerMessage]] = [:]
        let output = Mutex(STDOUT_FILENO)
        readLines(from: STDIN_FILENO) { line in
            guard let (number, message) = PeerMessage.parse(line) else { return }
            switch message.kind {
            case .stop:
                calls.removeValue(forKey: number)?.stop()
                early[number] = nil
            case .offer:
                let call = try? Call(far, sending: .echo, receiving: .discard) { message in
                    output.withLock { writeAll(message.line(call: number), to: $0) }
                }
                // The local peer is measured; its remote peer must not delay the first packets in a jitter buffer.
                if far == .webrtcbin { call?.transport.element.set("latency", 10) }
                calls[number] = call
                call?.receive(message)
                for candidate in early.removeValue(forKey: number) ?? [] { call?.receive(candidate) }
            default:
                if let call = calls[number] {
                    call.receive(message)
                } else {
                    early[number, default: []].append(message)
                }
            }
        }
        for call in calls.values { call.stop() }
    }
}

extension Implementation: OptionValue {}
