import GStreamerKit
import Glibc
import ICE
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Proxy, ports, addresses and bitrate of a whole session.
    @Suite(.serialized, .timeLimit(.minutes(2))) struct NetworkTests {
        /// The service's name exists for the proxy only: control channel and room both go through it.
        @Test func aSessionThroughAProxy() throws {
            try StandIn.run({ $0.allowsBrowsers = true }) { standIn in
                let proxy = try ConnectProxy()
                let properties =
                    "base-url=ws://service.test:\(standIn.port) insecure=true api-key=x stun-server=\"\" "
                    + "http-proxy=http://canary:canary@127.0.0.1:\(proxy.port) prompt=noir \(TransformPipeline.custom)"
                try TransformPipeline.run(try .init(properties)) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForFrames(5))
                    #expect(pipeline.takeProblems().isEmpty)
                }
                #expect(!proxy.requests.isEmpty)
                #expect(proxy.requests.allSatisfy { $0.hasPrefix("CONNECT service.test:\(standIn.port) ") })
                #expect(proxy.requests.allSatisfy { $0.contains("Proxy-Authorization: Basic ") })
            }
        }

        /// An error that no retry mends is posted at once, without the credentials.
        @Test func aProxyThatRejectsTheCredentials() throws {
            let proxy = try ConnectProxy { _ in "HTTP/1.1 407 Authenticate\r\nContent-Length: 0\r\n\r\n" }
            let properties =
                "base-url=wss://service.test api-key=x http-proxy=http://canary:canary@127.0.0.1:\(proxy.port) "
                + "\(TransformPipeline.custom) max-retries=5"
            try TransformPipeline.run(try .init(properties)) { pipeline in
                pipeline.play()
                let error = try #require(pipeline.waitForError())
                #expect(error.details?.string("code") == "NETWORK_ERROR")
                #expect(error.details?.string("stage") == "connect")
                #expect(error.details?["permanent"]?.bool == true)
                #expect(error.text.contains("HTTP 407"), "\(error.text)")
                let said = error.text + error.debug + (error.details?.description ?? "")
                #expect(!said.contains("canary"))
                #expect(proxy.requests.count == 1)
            }
        }

        /// Both ends keep to their ports.
        @Test func aSessionInAPortRange() throws {
            let first = UInt16.random(in: 20_000...30_000)
            let properties = "rtp-port-range=\(first)-\(first + 9) local-address=lo"
            try TransformPipeline.run(
                with: { try .init($0, properties, prompt: "noir") },
                standIn: { $0.media.network.ports = (first + 100)...(first + 119) }
            ) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(5))
                let open = try openPorts()
                #expect(open.contains { (first...(first + 9)).contains($0) }, "\(open)")
                #expect(open.contains { ((first + 100)...(first + 119)).contains($0) }, "\(open)")
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// UDP ports that this host has open.
        private func openPorts() throws -> [UInt16] {
            var ports: [UInt16] = []
            for name in ["udp", "udp6"] {
                let file = try #require(fopen("/proc/self/net/\(name)", "r"))
                defer { fclose(file) }
                var line = [CChar](repeating: 0, count: 512)
                while fgets(&line, 512, file) != nil {
                    let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
                    let words = text.split(separator: " ")
                    guard words.count > 1, let port = words[1].split(separator: ":").last else { continue }
                    if let port = UInt16(port, radix: 16) { ports.append(port) }
                }
            }
            return ports
        }

        /// No port is free: one error that names the range.
        @Test func anExhaustedPortRange() throws {
            let taken = try LoopbackSocket()
            let properties = "rtp-port-range=\(taken.port)-\(taken.port) local-address=127.0.0.1"
            try TransformPipeline.run(with: { try .init($0, properties, prompt: "noir") }) { pipeline, _ in
                pipeline.play()
                let error = try #require(pipeline.waitForError())
                #expect(error.text.contains("No UDP port from \(taken.port) to \(taken.port) is free"))
                #expect(error.details?.string("code") == "WEB_RTC_ERROR")
            }
        }

        /// Without congestion control the target is the configured one from the first report to the last.
        @Test func aFixedBitrate() throws {
            let properties = "congestion-control=off max-bitrate=900000"
            try TransformPipeline.run(with: { try .init($0, properties, prompt: "noir") }) { pipeline, _ in
                pipeline.play()
                for count in Verification.isOn ? [2, 30, 60] : [2, 5] {
                    #expect(pipeline.waitForFrames(count))
                    #expect(pipeline.stats?.int("target-bitrate") == 900_000)
                    #expect(pipeline.stats?.string("bitrate-reason") == "off")
                }
            }
        }
    }
}
