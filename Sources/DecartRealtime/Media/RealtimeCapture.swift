import Foundation
import GStreamerKit
import Synchronization

/// The side that a camera faces.
public enum CameraPosition: String, Sendable { case front, back, unspecified }
/// The shape of the frames; a capture crops, and rotates nothing.
public enum CaptureOrientation: String, Sendable { case portrait, landscape }
/// `auto` mirrors while the camera faces front.
public enum MirrorMode: String, Sendable { case off, auto, on }

/// A camera that gives its frames to a video source, cropped to the model's shape and scaled to its size. It needs no
/// session. It ends when it is released.
public final class RealtimeCapture: Sendable {
    /// The shape of the frames.
    public let orientation: CaptureOrientation
    /// The size of the frames, pixels; `portrait` exchanges width and height of the model.
    public let targetWidth, targetHeight: Int
    private let model: ModelDefinition
    private let videoSource: VideoSource
    private let camera: String
    private struct State {
        var position: CameraPosition
        var mirror: MirrorMode
        var feed: FeedPipeline?
    }
    private let state: Mutex<State>

    /// A capture that `startCapture` starts.
    ///
    /// - Parameters:
    ///   - model: the model for whose frames the camera's are cropped and scaled.
    ///   - videoSource: the source that gets the frames.
    ///   - orientation: `portrait` exchanges the model's width and height.
    ///   - initialPosition: cameras that do not report their side count as front.
    ///   - mirror: `auto` mirrors while the camera faces front.
    ///   - camera: `auto` (a camera of the wanted side, else the first), `test` (a pattern), a device's path, id or name,
    ///     or a bin with one raw video output. Its default is `DECART_SOURCE` of the environment, else `auto`.
    public init(
        model: ModelDefinition, videoSource: VideoSource, orientation: CaptureOrientation = .portrait,
        initialPosition: CameraPosition = .front, mirror: MirrorMode = .off, camera: String? = nil
    ) {
        (self.model, self.videoSource, self.orientation) = (model, videoSource, orientation)
        self.camera = camera ?? ProcessInfo.processInfo.environment["DECART_SOURCE"] ?? "auto"
        let isPortrait = orientation == .portrait
        (targetWidth, targetHeight) = isPortrait ? (model.height, model.width) : (model.width, model.height)
        state = Mutex(State(position: initialPosition, mirror: mirror))
    }

    /// The side of the camera in use.
    public var position: CameraPosition {
        let (feed, stored) = state.withLock { ($0.feed, $0.position) }
        return feed?.pipeline.child(named: "camera")?.string("position").flatMap(CameraPosition.init) ?? stored
    }

    /// Takes effect at once.
    public var mirror: MirrorMode {
        get { state.withLock(\.mirror) }
        set {
            let feed = state.withLock { state in
                state.mirror = newValue
                return state.feed
            }
            feed?.pipeline.child(named: "camera")?.set("mirror", newValue.rawValue)
        }
    }

    /// Opens the camera and returns when its first frame has come. Does nothing while it runs.
    ///
    /// Throws `DecartError.processingError` if there is no camera, or it does not open.
    public func startCapture() async throws {
        try Elements.register()
        guard model.width > 0, model.height > 0, model.fps > 0 else {
            throw DecartError.modelNotFound("The model \(model.name) is unknown.")
        }
        let made = try makeFeed()
        let (feed, isNew) = state.withLock { state -> (FeedPipeline, Bool) in
            if let feed = state.feed { return (feed, false) }
            state.feed = made
            return (made, true)
        }
        do {
            try await feed.startAndWait(
                within: .seconds(15), orThrow: .processingError("The camera has given no frame within 15 seconds."))
        } catch {
            if isNew { await stopCapture() }
            throw error
        }
    }

    /// The camera element without a session: its preview is the camera as it would be sent.
    private func makeFeed() throws(DecartError) -> FeedPipeline {
        let (position, mirror) = state.withLock { ($0.position, $0.mirror) }
        let raw = "video/x-raw,format=I420,width=\(targetWidth),height=\(targetHeight),pixel-aspect-ratio=1/1"
        let pipeline: Pipeline
        do throws(GStreamerError) {
            pipeline = try Pipeline(
                description: """
                    decartsrc name=camera auto-connect=false fallback=none max-retries=0 ! fakesink sync=false async=false
                    camera.preview ! videoconvert ! videoscale ! \(raw) ! appsink name=decart-output sync=false async=false
                    """)
        } catch { throw DecartError(error) }
        guard let element = pipeline.child(named: "camera") else {
            throw .processingError("The element decartsrc is missing.")
        }
        // The element checks these at its start, although it does not connect.
        element.set("api-key", "none")
        element.set("base-url", "wss://api.decart.ai")
        element.set("model", model.name)
        if !model.isKnown {
            element.set("width", model.width)
            element.set("height", model.height)
            element.set("framerate", model.fps)
        }
        element.set("orientation", orientation.rawValue)
        element.set("position", position.rawValue)
        element.set("mirror", mirror.rawValue)
        let isDevice = camera.hasPrefix("/dev/") || !(camera == "auto" || camera == "test" || camera.contains(" "))
        element.set(isDevice ? "device" : "source", camera)
        return try FeedPipeline(pipeline, sink: "decart-output", hub: videoSource.hub)
    }

    /// Changes to the camera of the other side, else to the next one; the session goes on, and `position` and a mirror in
    /// `auto` follow.
    ///
    /// Throws `DecartError.processingError` if the capture does not run, or there is no other camera.
    public func switchCamera() async throws {
        guard let feed = state.withLock(\.feed) else {
            throw DecartError.processingError("The capture does not run: call startCapture first.")
        }
        let id = await feed.perform { $0.child(named: "camera")?.emit("switch-camera")?.string }
        guard id != nil else { throw DecartError.processingError("There is no other camera.") }
        let position = position
        state.withLock { $0.position = position }
    }

    /// Closes the camera and returns when it is closed.
    public func stopCapture() async {
        let position = position
        let feed = state.withLock { state in
            state.position = position
            defer { state.feed = nil }
            return state.feed
        }
        await feed?.stop()
    }
}
