import DecartRealtime
import Foundation
import StandInServer
import Testing

extension RealtimeTests {
    @Suite struct ManagerTests {
        @Test("Frames of the application are sent as they are pushed", arguments: [VideoFrame.Format.rgba, .i420])
        func pushedFrames(format: VideoFrame.Format) async throws {
            try await Service.run { service, configuration in
                let manager = try configuration.manager()
                let source = manager.createVideoSource()
                let track = manager.createVideoTrack(source: source, trackId: "pushed")
                let green = Data([0, 255, 0, 255])
                let rgba = try VideoFrame(
                    width: 320, height: 176, format: .rgba, data: Data((0..<320 * 176).flatMap { _ in green }))
                let frame =
                    format == .rgba
                    ? rgba : try VideoFrame(width: 320, height: 176, format: .i420, data: rgba.i420)
                let pushing = Task {
                    while !Task.isCancelled {
                        source.push(frame)
                        try await Task.sleep(for: .milliseconds(50))
                    }
                }
                defer { pushing.cancel() }
                let remote = try await manager.connect(track)
                let returned = try #require(await remote.frame { _ in true })
                #expect(returned.format == .i420)
                let pixel = returned.rgba[(88 * 320 + 160) * 4..<(88 * 320 + 160) * 4 + 3]
                #expect(zip(pixel, green).allSatisfy { abs(Int($0) - Int($1)) < 16 })
                await manager.disconnect()
            }
        }

        @Test("A frame of another size than its data is refused")
        func wrongFrame() throws {
            #expect(throws: DecartError.self) {
                try VideoFrame(width: 4, height: 4, format: .rgba, data: Data(count: 63))
            }
            let frame = try VideoFrame(width: 3, height: 3, format: .i420, data: Data(0..<17))
            #expect(frame.i420 == Data(0..<17))
        }

        @Test("A refused prompt throws the service's reason, and the session goes on")
        func refusedPrompt() async throws {
            try await Service.run(["ack_fail:skip=1"]) { _, configuration in
                let manager = try configuration.manager(DecartPrompt(text: "Noir"))
                let remote = try await manager.connect(try manager.track())
                let error = await Guide.describe { try await manager.setPrompt(DecartPrompt(text: "Anime")) }
                #expect(error?.code == "PROCESSING_ERROR")
                let image = await Guide.describe { try await manager.setImage(Data([1, 2, 3])) }
                #expect(image?.code == "INVALID_INPUT")
                #expect(await remote.frame { $0.saturation < 3 } != nil)
                await manager.disconnect()
                let late = await Guide.describe { try await manager.setPrompt(DecartPrompt(text: "Anime")) }
                #expect(late?.code == "WEBSOCKET_ERROR")
            }
        }

        @Test("Cancelling the task ends connect, and the manager connects again")
        func cancellation() async throws {
            try await Service.run(["ack_none:count=1"]) { service, configuration in
                let manager = try configuration.manager(DecartPrompt(text: "Noir"))
                let track = try manager.track()
                let connecting = Task { try await manager.connect(track) }
                #expect(await service.wait { !$0.isEmpty })
                connecting.cancel()
                await #expect(throws: CancellationError.self) { _ = try await connecting.value }
                #expect(await service.wait { $0.allSatisfy { !$0.isOpen } })
                let remote = try await manager.connect(track)
                #expect(await remote.frame { $0.saturation < 3 } != nil)
                await manager.disconnect()
            }
        }

        @Test("A cancelled setPrompt ends its wait")
        func cancelledPrompt() async throws {
            try await Service.run(["ack_none:skip=1"]) { service, configuration in
                let manager = try configuration.manager(DecartPrompt(text: "Noir"))
                _ = try await manager.connect(try manager.track())
                let asking = Task { try await manager.setPrompt(DecartPrompt(text: "Anime")) }
                #expect(await service.wait { $0.first?.prompts.last == "Anime" })
                asking.cancel()
                await #expect(throws: CancellationError.self) { _ = try await asking.value }
                await manager.disconnect()
            }
        }

        @Test("A permanent failure ends in the state error, and the manager connects again")
        func permanentFailure() async throws {
            try await Service.run(["error_permanent:at=2,count=1"]) { service, configuration in
                let manager = try configuration.manager(DecartPrompt(text: "Noir"))
                let track = try manager.track()
                let updates = Collected(manager.remoteStreamUpdates)
                _ = try await manager.connect(track)
                for await state in manager.events where state.connectionState == .error { break }
                let remote = try await manager.connect(track)
                #expect(await remote.frame { $0.saturation < 3 } != nil)
                #expect(service.sessions.count == 2)
                await manager.disconnect()
                #expect(await updates.all.isEmpty)
            }
        }

        @Test("A manager that is released ends its session and its streams")
        func release() async throws {
            try await Service.run { service, configuration in
                var manager: DecartRealtimeManager? = try configuration.manager()
                let events = Collected(try #require(manager).events)
                let track = try #require(manager).track()
                let remote = try await manager?.connect(track)
                #expect(service.sessions.first?.isOpen == true)
                manager = nil
                #expect(await service.wait { $0.allSatisfy { !$0.isOpen } })
                #expect(await events.all.isEmpty == false)
                _ = remote
            }
        }

        @Test("A track without frames is an error, not a wait for ever")
        func silentTrack() async throws {
            try await Service.run { _, configuration in
                let manager = try configuration.manager { $0.connectionTimeout = 1 }
                let track = manager.createVideoTrack(source: manager.createVideoSource(), trackId: "silent")
                let error = await Guide.describe { _ = try await manager.connect(track) }
                #expect(error?.code == "INVALID_INPUT")
                #expect(manager.state.connectionState == .error)
            }
        }

        @Test("What is pushed right after play is written, and an output that is finished at once ends")
        func outputAtOnce() async throws {
            try await Service.run { _, configuration in
                let manager = try configuration.manager()
                let source = manager.createVideoSource()
                let track = manager.createVideoTrack(source: source, trackId: "pushed")
                let path = NSTemporaryDirectory() + "decart-realtime-\(UUID().uuidString).i420"
                defer { try? FileManager.default.removeItem(atPath: path) }
                let output = try track.play("video/x-raw,format=I420 ! filesink location=\(path)")
                let size = 64 * 48 * 3 / 2
                let frame = try VideoFrame(width: 64, height: 48, format: .i420, data: Data(count: size))
                for _ in 0..<3 { source.push(frame) }
                try await output.finish()
                #expect(try Data(contentsOf: URL(fileURLWithPath: path)).count == 3 * size)
                try await track.play("fakesink").finish()
            }
        }

        @Test("A track is written to a file")
        func file() async throws {
            try await Service.run { _, configuration in
                let manager = try configuration.manager(DecartPrompt(text: "Noir"))
                let remote = try await manager.connect(try manager.track())
                let path = NSTemporaryDirectory() + "decart-realtime-\(UUID().uuidString).avi"
                defer { try? FileManager.default.removeItem(atPath: path) }
                let output = try remote.play("jpegenc ! avimux ! filesink location=\(path)")
                #expect(await remote.frame { $0.saturation < 3 } != nil)
                try await output.finish()
                await manager.disconnect()
                let source = try manager.videoSource(from: "filesrc location=\(path) ! avidemux ! jpegdec")
                let track = manager.createVideoTrack(source: source, trackId: "file")
                #expect(await track.frame { $0.saturation < 3 }?.width == 320)
            }
        }
    }
}
