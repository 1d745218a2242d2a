// Decides which capture of `decartsrc` delivers, which one starts, and which ones go. `CameraSwitch` performs it. The
// machine is a value: it knows no element, device or thread.

/// The part of a capture that the machine reads. Two captures are equal if they are the same object.
package protocol CameraCapture: AnyObject, Equatable, Sendable {
    associatedtype Camera: Identifiable & Sendable where Camera.ID == String
    /// nil for a source that no other one can replace: a test pattern, a description, a camera on the network.
    var camera: Camera? { get }
}

extension CameraCapture {
    package static func == (left: Self, right: Self) -> Bool { left === right }
}

package struct CameraMachine<Capture: CameraCapture>: Sendable {
    package typealias Camera = Capture.Camera

    package enum Event: Sendable {
        /// READY to PAUSED.
        case start
        /// The capture of the start exists.
        case opened(Capture)
        /// The element is in PAUSED: from now on a source can be replaced.
        case run
        /// PAUSED to READY: no more changes.
        case halt
        /// The element has left PAUSED; work that is queued is void.
        case stop
        /// All captures are to go.
        case clear
        /// The settings name another source.
        case sourceChanged
        /// By `start-capture` and `stop-capture`.
        case requested(Bool)
        /// Video is muted, and the camera is released until it is unmuted.
        case muted(Bool)
        /// Follows these two, on the queue.
        case apply
        /// An action signal or `position` has chosen a camera.
        case chose(Camera, CameraFormat?)
        /// The queue has handled that request.
        case handled(Camera)
        /// Another capture is about to be made.
        case replacing(cameraID: String?)
        /// It has been made.
        case made(Capture)
        /// Its first frame has come.
        case delivered(Capture)
        /// It ended, posted an error or was unplugged.
        case failed(Capture)
        /// Its elements have gone.
        case removed(Capture)
        /// A camera was plugged in.
        case appeared(cameraID: String)
        /// Cameras that failed before may be used again.
        case forgetLost
    }

    package enum Action: Equatable, Sendable {
        /// Makes a capture of the source that the settings ask for.
        case open
        /// Changes to the chosen camera, on the queue.
        case take
        /// Lets the capture dial in.
        case begin(Capture)
        /// Starts its elements, and waits for its first frame.
        case start(Capture)
        /// Notices when its frames stop.
        case watch(Capture)
        /// Takes its elements away.
        case remove(Capture)
        /// The same for the capture in use, after which the application is notified.
        case release(Capture)
        /// The capture is lost: it is to be removed, and replaced if it was in use.
        case lose(Capture, wasCurrent: Bool)
        /// The current camera has changed.
        case notify
    }

    /// From `start` to `stop`.
    package private(set) var isUp = false
    /// From `run` to `halt`.
    package private(set) var isRunning = false
    package private(set) var isRequested = true
    private var isMuted = false
    private var wantsCapture: Bool { isRequested && !isMuted }
    package private(set) var current: Capture?
    package private(set) var starting: Capture?
    /// The camera chosen last. It takes precedence over the properties until the element stops.
    package private(set) var chosen: Camera?
    package private(set) var format: CameraFormat?
    /// The camera of the last request that the queue has not handled yet.
    private var requested: Camera?
    /// IDs of cameras that failed. They are used again only after they are plugged in again or selected.
    package private(set) var lost: Set<String> = []
    /// Captures being removed, whose bus messages are ignored.
    package private(set) var leaving: [Capture] = []

    package init() {}

    package var newest: Capture? { starting ?? current }
    /// The camera that is in use once all requests are handled.
    package var next: Camera? { requested ?? newest?.camera }
    /// The one in use first.
    package var captures: [Capture] { [current, starting].compactMap { $0 } }

    package func isStarting(_ capture: Capture) -> Bool { isRunning && starting === capture }
    package func isInUse(_ capture: Capture) -> Bool { isRunning && current === capture }

    /// False for a capture that goes while its first frame comes. One whose start has not returned yet may take over.
    package func mayTakeOver(_ capture: Capture) -> Bool { !leaving.contains(capture) }

    /// True if the choice still stands and the camera is not in use already, or has another format.
    package func takes(_ camera: Camera, _ format: CameraFormat?) -> Bool {
        isRunning && wantsCapture && chosen?.id == camera.id && (newest?.camera?.id != camera.id || format != nil)
    }

    package mutating func handle(_ event: Event) -> [Action] {
        switch event {
        case .start:
            isUp = true
            return wantsCapture ? [.open] : []
        case .opened(let capture): current = capture
        case .run:
            isRunning = true
            return current.map { [Action.begin($0)] } ?? []
        case .halt: isRunning = false
        case .stop: isUp = false
        case .clear: return clear()
        case .sourceChanged:
            (chosen, format, requested) = (nil, nil, nil)
            return wantsCapture ? [.open] : []
        case .requested(let wanted): isRequested = wanted
        case .muted(let muted): isMuted = muted
        case .apply: return apply()
        case .chose(let camera, let format):
            (chosen, self.format) = (camera, format)
            guard isRunning, wantsCapture else { return [] }
            requested = camera
            return [.take]
        case .handled(let camera): if requested?.id == camera.id { requested = nil }
        case .replacing(let cameraID): return makeRoom(for: cameraID)
        case .made(let capture):
            guard isRunning else {
                leaving.append(capture)
                return [.remove(capture)]
            }
            starting = capture
            return [.start(capture)]
        case .delivered(let capture): return use(capture)
        case .failed(let capture): return fail(capture)
        case .removed(let capture): leaving.removeAll { $0 === capture }
        case .appeared(let cameraID):
            lost.remove(cameraID)
            return wantsCapture && newest == nil ? [.open] : []
        case .forgetLost: lost = []
        }
        return []
    }

    private mutating func clear() -> [Action] {
        (chosen, format, requested, lost) = (nil, nil, nil, [])
        // Those that leave already are removed by the call that decided it.
        let last = captures
        for capture in last { leave(capture) }
        return last.map { .remove($0) }
    }

    /// Releases the camera, or opens one again.
    private mutating func apply() -> [Action] {
        guard isRunning else { return [] }
        guard !wantsCapture else { return newest == nil ? [.open] : [] }
        let (last, current) = (starting, self.current)
        return [leave(last).map(Action.remove), leave(current).map(Action.release)].compactMap { $0 }
    }

    /// The current capture delivers until the first frame of the next one. A camera can be opened only once.
    private mutating func makeRoom(for cameraID: String?) -> [Action] {
        let same = cameraID != nil && current?.camera?.id == cameraID ? current : nil
        let last = starting
        return [leave(last).map(Action.remove), leave(same).map(Action.release)].compactMap { $0 }
    }

    private mutating func use(_ capture: Capture) -> [Action] {
        guard starting === capture else { return [.watch(capture), .notify] }
        let old = leave(current)
        (current, starting) = (capture, nil)
        return (old.map { [Action.remove($0)] } ?? []) + [.watch(capture), .notify]
    }

    /// A source in use that no other one can replace ends the element, which is no decision of this machine.
    private mutating func fail(_ capture: Capture) -> [Action] {
        let isCurrent = current === capture
        guard isRunning, isCurrent || starting === capture, capture.camera != nil || !isCurrent else { return [] }
        if let camera = capture.camera { lost.insert(camera.id) }
        leave(capture)
        return [.lose(capture, wasCurrent: isCurrent)]
    }

    @discardableResult private mutating func leave(_ capture: Capture?) -> Capture? {
        guard let capture else { return nil }
        if current === capture { current = nil }
        if starting === capture { starting = nil }
        leaving.append(capture)
        return capture
    }
}
