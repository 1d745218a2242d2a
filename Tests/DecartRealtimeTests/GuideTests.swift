import DecartRealtime
import Foundation
import StandInServer
import Testing

extension RealtimeTests {
    /// The blocks of the guide, judged by pixels, states and the stand-in's record.
    @Suite struct GuideTests {
        @Test("The quick start sends the camera in portrait and shows both prompts")
        func quickStart() async throws {
            try await Service.run { service, configuration in
                try await Guide.quickStart(configuration) { track, prompt in
                    let grey = prompt == "Noir"
                    let frame = await track.frame { ($0.saturation < 3) == grey }
                    #expect(frame?.width == 704 && frame?.height == 1280)
                }
                let session = try #require(service.sessions.first)
                #expect(session.prompts == ["Noir", "Anime style"])
                #expect(!session.offeredBeforeState)
                #expect(session.frames.painted > 0)
            }
        }

        @Test("A key of one's own server opens a session")
        func temporaryKey() async throws {
            try await Service.run { service, _ in
                let url = try #require(URL(string: "http://127.0.0.1:\(service.port)/v1/client/tokens"))
                let key = try await Guide.temporaryKey(from: url, key: "key")
                #expect(key != "key")
                let manager = try service.configuration(key: key).manager()
                _ = try await manager.connect(try manager.track())
                await manager.disconnect()
            }
        }

        @Test("A capture needs no session, and mirrors", arguments: [MirrorMode.auto, .off])
        func capture(mirror: MirrorMode) async throws {
            // Its bars are brightest at the left.
            setenv("DECART_SOURCE", "videotestsrc is-live=true pattern=smpte", 1)
            defer { setenv("DECART_SOURCE", "test", 1) }
            let source = VideoSource()
            let capture = RealtimeCapture(
                model: Service.model, videoSource: source, orientation: .landscape, initialPosition: .front,
                mirror: mirror)
            let manager = try DecartConfiguration(apiKey: "key").manager()
            let track = manager.createVideoTrack(source: source, trackId: "preview")
            async let first = track.frame { _ in true }
            try await capture.startCapture()
            #expect(capture.position == .front)
            let frame = try #require(await first)
            #expect(frame.width == 320 && frame.height == 176)
            let brightness = try #require(frame.withPlanes { (Int($0[0, x: 10, y: 60]), Int($0[0, x: 310, y: 60])) })
            #expect(mirror == .off ? brightness.0 > brightness.1 + 50 : brightness.1 > brightness.0 + 50)
            await #expect(throws: DecartError.self) { try await capture.switchCamera() }
            await capture.stopCapture()
            #expect(capture.position == .front)
        }

        @Test("Connection and media are options, and the first prompt has an image")
        func options() async throws {
            try await Service.run { service, configuration in
                let prompt = DecartPrompt(text: "Noir", referenceImageData: Self.image, enrich: true)
                let manager = try Guide.configured(configuration, Service.model, prompt: prompt)
                let remote = try await manager.connect(try manager.track())
                #expect(await remote.frame { _ in true } != nil)
                let session = try #require(service.sessions.first)
                #expect(session.imageCount == 1 && session.prompts == ["Noir"])
                #expect(await manager.statistics?.text("codec") == "VP8")
                await manager.disconnect()
            }
        }

        @Test("Prompts while it runs are acknowledged in order")
        func prompts() async throws {
            try await Service.run { service, configuration in
                let manager = try configuration.manager()
                let remote = try await manager.connect(try manager.track())
                try await Guide.prompts(manager, image: Self.image)
                let session = try #require(service.sessions.first)
                #expect(session.prompts.suffix(3) == ["Cyberpunk city", "Noir", "Lego"])
                #expect(session.imageCount == 1)
                let result = try await manager.setImage(nil, prompt: "Noir")
                #expect(result.text == "Noir" && !result.isStored)
                #expect(await remote.frame { $0.saturation < 3 } != nil)
                await manager.disconnect()
            }
        }

        @Test("The states of a session come in order, and their stream ends")
        func events() async throws {
            try await Service.run { _, configuration in
                let manager = try configuration.manager()
                let events = Collected(manager.events)
                let remote = try await manager.connect(try manager.track())
                #expect(await remote.frame { _ in true } != nil)
                for await state in manager.events where state.generationTick != nil {
                    #expect(state.connectionState == .generating && state.serviceStatus != .enteringQueue)
                    #expect(Guide.describe(state).hasPrefix("Generating"))
                    break
                }
                await manager.disconnect()
                var states = await events.all.map(\.connectionState)
                states = states.enumerated().filter { $0.offset == 0 || states[$0.offset - 1] != $0.element }
                    .map(\.element)
                #expect(states == [.connecting, .connected, .generating, .disconnected])
                #expect(manager.state.connectionState == .disconnected)
            }
        }

        @Test("An automatic reconnection brings a stream, and a disconnection none")
        func reconnection() async throws {
            try await Service.run(["drop_tcp_at_T:at=3,count=1"]) { service, configuration in
                let manager = try configuration.manager(DecartPrompt(text: "Noir"))
                let updates = manager.remoteStreamUpdates
                let later = Collected(manager.remoteStreamUpdates)
                var track = try await manager.connect(try manager.track())
                for await stream in updates {
                    track = try #require(stream.videoTrack)
                    break
                }
                #expect(await track.frame { $0.saturation < 3 } != nil)
                #expect(service.sessions.count == 2)
                await manager.disconnect()
                #expect(await later.all.count == 1)
            }
        }

        @Test("Another track takes the place of the first, and audio comes back")
        func replacement() async throws {
            try await Service.run { service, configuration in
                let manager = try configuration.manager()
                let audioSource = try manager.audioSource(from: "audiotestsrc is-live=true")
                let audioTrack = manager.createAudioTrack(source: audioSource, trackId: "audio0")
                let stream = try await manager.connect(
                    localStream: RealtimeMediaStream(
                        videoTrack: try manager.track("red"), audioTrack: audioTrack, id: .localStream))
                let remote = try #require(stream.videoTrack)
                #expect(await remote.frame { $0.mean(ofPlane: 2) > 200 } != nil)
                manager.replaceVideoTrack(with: try manager.track("blue", id: "video1"))
                #expect(await remote.frame { $0.mean(ofPlane: 1) > 200 } != nil)
                for await samples in try #require(stream.audioTrack).samples
                where samples.contains(where: { $0.magnitude > 1_000 }) { break }
                #expect(service.sessions.count == 1)
                await manager.disconnect()
            }
        }

        @Test("Errors have the guide's cases and codes")
        func errors() async throws {
            try await Service.run { service, configuration in
                let rejected = await Guide.describe {
                    let manager = try service.configuration(key: Service.rejectedKey).manager()
                    _ = try await manager.connect(try manager.track())
                }
                #expect(rejected?.code == "INVALID_API_KEY")
                let url = await Guide.describe { _ = try DecartConfiguration(apiKey: "key", baseURL: "no url") }
                #expect(url?.code == "INVALID_BASE_URL" && url?.text == "invalid URL no url")
                let key = await Guide.describe { _ = try DecartConfiguration(apiKey: "").manager() }
                #expect(key?.code == "INVALID_API_KEY")
                let model = await Guide.describe {
                    _ = try DecartClient(decartConfiguration: configuration).createRealtimeManager(
                        options: RealtimeConfiguration(model: Models.realtime("no-model")))
                }
                #expect(model?.code == "MODEL_NOT_FOUND")
                // No program listens on the discard port.
                let network = await Guide.describe {
                    let manager = try DecartConfiguration(apiKey: "key", baseURL: "ws://127.0.0.1:9").manager()
                    _ = try await manager.connect(try manager.track())
                }
                #expect(network?.code == "NETWORK_ERROR")
            }
        }

        @MainActor @Test("An application's model connects, updates and disconnects")
        func application() async throws {
            try await Service.run { @MainActor service, configuration in
                let application = SessionModel(configuration, model: Service.model)
                await application.connect(prompt: "Noir")
                #expect(application.message == nil)
                let local = try #require(application.localTrack)
                let remote = try #require(application.remoteTrack)
                #expect(await local.frame { $0.saturation > 10 } != nil)
                #expect(await remote.frame { $0.saturation < 3 } != nil)
                await application.update(prompt: "Anime")
                #expect(await remote.frame { $0.saturation > 10 } != nil)
                #expect(application.message == nil)
                await application.switchCamera()
                #expect(application.message == "There is no other camera.")
                await application.disconnect()
                #expect(application.states.first == .connecting && application.states.last == .disconnected)
                #expect(service.sessions.first?.prompts == ["Noir", "Anime"])
            }
        }

        /// A red PNG of 2x2 pixels.
        static let image = Data(
            base64Encoded: "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP8zwACTGCSAQANHQEDgslx/wAAAABJ"
                + "RU5ErkJggg==")!
    }
}
