// Starts, replaces and removes captures, as `CameraMachine` decides, while everything downstream of the selector keeps
// running. A new camera starts alongside the old one and takes over with its first frame; only another format of the
// same camera must wait until the old capture has released the device. This file knows devices; it must not know
// sessions.
//
// After `start`, captures are created and removed on one queue, which may block in drivers. State that other
// threads read is locked, and the lock is never held in a call-out, nor while a device is released.
import DecartProtocol
import EventLoopThreads
import GStreamerKit
import MirrorElement

// @unchecked: elements lock themselves; `count` belongs to the queue, and to `start`; the rest is locked.
final class CameraSwitch: @unchecked Sendable {
    struct Host: Sendable {
        let element: ElementHandle
        let selector: Element
        let log: DebugCategory
        let settings: @Sendable () -> SourceSettings
        /// Size and frame rate of the model.
        let model: @Sendable () -> VideoFormat
        /// Called on the streaming thread, before the first frame of a source that takes over.
        let onFirst: @Sendable (CapturePlan) -> Void
        /// Called when the current camera has changed.
        let onChange: @Sendable () -> Void
        /// Settings of the camera that answers offers, and the pad for its audio; nil for another source.
        let live: @Sendable () throws(ElementProblem) -> (LiveCamera.Settings, audioEntry: Pad?)?
    }

    private struct State: Sendable {
        var machine = CameraMachine<Capture>()
        var monitor: DeviceMonitor?
    }
    private let state = StateLock(State())
    /// Captures made so far.
    private var count = 0
    private let latest = LatestFrameTime()
    private let queue = SerialQueue(label: "decart-camera")
    private let host: Host
    /// Timeout for a camera's first frame.
    private static let startTimeout = Duration.seconds(5)

    init(_ host: Host) { self.host = host }

    /// All of one moment.
    private var now: State { state.read(\.self) }

    private func decide(_ event: CameraMachine<Capture>.Event) -> [CameraMachine<Capture>.Action] {
        state.withLock { $0.machine.handle(event) }
    }

    private func handle(_ event: CameraMachine<Capture>.Event) { decide(event).forEach(carryOut) }

    /// On the queue.
    private func carryOut(_ action: CameraMachine<Capture>.Action) {
        switch action {
        case .open: retake()
        case .take: break
        case .begin(let capture): capture.plan.live?.begin()
        case .start(let capture):
            if capture.start() { awaitFirst(capture) } else { lost(capture, "it cannot be started") }
        case .watch(let capture): watch(capture)
        case .remove(let capture): remove(capture)
        case .release(let capture):
            remove(capture)
            host.onChange()
        case .lose: break
        case .notify: host.onChange()
        }
    }

    /// Runs work on the queue unless the element has stopped, if the condition holds then. Retains the element during the
    /// work, because a handler of the application that is called from there may drop the last reference.
    private func perform(
        after delay: Duration? = nil, if isDue: @escaping @Sendable (CameraMachine<Capture>) -> Bool = { _ in true },
        _ work: @escaping @Sendable (CameraSwitch) -> Void
    ) {
        let item = { @Sendable [weak self] in
            guard let self, case let machine = self.now.machine, machine.isUp, isDue(machine) else { return }
            withExtendedLifetime(self.host.element.retained) { work(self) }
        }
        if let delay { queue.schedule(after: delay, item) } else { queue.async(item) }
    }

    private var isAutomatic: Bool { host.settings().source == SourceSettings.automatic }
    var currentCamera: Camera? { now.machine.current?.camera }
    /// Frames are to come: `stop-capture` has not released the camera, and it does not have to dial in.
    var expectsFrames: Bool {
        let machine = now.machine
        return machine.isRequested && machine.newest?.plan.live == nil
    }
    /// The camera that answers offers; nil with another source.
    var liveCamera: LiveCamera? { now.machine.newest?.plan.live }

    // MARK: State changes

    /// Called in READY to PAUSED, before the parent class. Throws the error to post.
    func start() throws(ElementProblem) {
        if isAutomatic { watchDevices() }
        latest.reset()
        guard !decide(.start).isEmpty else { return }
        do throws(ElementProblem) {
            handle(.opened(try make(try plan(now))))
        } catch {
            stop()
            throw error
        }
    }

    private func watchDevices() {
        let monitor = DeviceMonitor.ofCameras()
        state.withLock { $0.monitor = monitor }
        _ = monitor.start { [weak self] device, isThere in self?.deviceChanged(device, isThere) }
    }

    /// Called in PAUSED: from now on a source that fails can be replaced.
    func started() { handle(.run) }

    /// Called in PAUSED to READY, before the parent class: no more changes.
    func willStop() { handle(.halt) }

    /// Called in PAUSED to READY, after the parent class. Returns when the captures have been removed. If a handler of
    /// the application calls it on the switch's own queue, it only schedules the removal.
    func stop() {
        let monitor = state.withLock { state in
            _ = state.machine.handle(.stop)
            return state.monitor.take()
        }
        monitor?.stop()
        // Decided here: if the queue works for longer than `sync` waits, the captures may be those of the next start.
        let removals = decide(.clear)
        let work = { @Sendable [self, element = host.element.retained] in
            withExtendedLifetime(element) { removals.forEach(carryOut) }
        }
        if queue.isCurrent { queue.async(work) } else { queue.sync(work) }
    }

    // MARK: Choice of the source

    private func plan(_ now: State) throws(ElementProblem) -> CapturePlan {
        let settings = host.settings()
        if let (camera, entry) = try host.live() {
            return CapturePlan(
                kind: .live(try LiveCamera(camera, host: cameraHost), audioEntry: entry),
                position: settings.position)
        }
        switch settings.source {
        case SourceSettings.automatic:
            let camera = try camera(settings, now.machine, among: cameras(now))
            if let wanted = settings.captureCaps, let offered = camera.device.caps, !offered.canIntersect(wanted) {
                throw ElementProblem(
                    .resourceSettings,
                    "The camera '\(camera.name)' (\(camera.id)) has no format that matches capture-caps. "
                        + "The signal list-formats returns its formats."
                )
            }
            return plan(for: camera, settings, now.machine)
        case SourceSettings.test:
            let model = host.model()
            let text =
                "video/x-raw, width=(int)\(model.width), height=(int)\(model.height), framerate=(fraction)\(model.framerate)/1"
            return CapturePlan(
                kind: .testPattern(caps: settings.captureCaps ?? (try? Caps(text))), position: settings.position)
        default:
            return CapturePlan(
                kind: .description(settings.source, caps: settings.captureCaps), position: settings.position)
        }
    }

    private var cameraHost: LiveCamera.Host {
        LiveCamera.Host(
            element: host.element, log: host.log,
            perform: { [weak self] delay, work in
                let delay = delay.map { Duration.nanoseconds(Int(clamping: $0.clockTime)) }
                self?.perform(after: delay, if: { $0.isRunning }) { _ in work() }
            })
    }

    private func plan(
        for camera: Camera, _ settings: SourceSettings, _ machine: CameraMachine<Capture>
    ) -> CapturePlan {
        let model = host.model()
        let wanted = machine.chosen?.id == camera.id ? machine.format : nil
        let best = wanted ?? CameraFormat.best(of: camera.formats(wished: model), for: model)
        let own = best.flatMap { try? Caps($0.capsText(for: model)) }
        return CapturePlan(
            kind: .camera(camera, caps: wanted == nil ? settings.captureCaps ?? own : own), position: camera.side)
    }

    /// Returns the cameras that are present and have not failed.
    private func cameras(_ now: State) -> [Camera] {
        (now.monitor ?? .ofCameras()).cameras(positions: host.settings().devicePositions).filter {
            !now.machine.lost.contains($0.id)
        }
    }

    private func camera(
        _ settings: SourceSettings, _ machine: CameraMachine<Capture>, among cameras: [Camera]
    ) throws(ElementProblem) -> Camera {
        let found =
            cameras.isEmpty
            ? "none"
            : cameras.map { "'\($0.name)' (\($0.id), \($0.position.rawValue))" }.joined(separator: ", ")
        if let wanted = machine.chosen?.id ?? settings.device {
            guard let camera = cameras.first(where: { $0.matches(wanted) }) else {
                throw ElementProblem(.resourceNotFound, "No camera matches '\(wanted)'. Available: \(found).")
            }
            return camera
        }
        guard let camera = cameras.first(where: { $0.looks(to: settings.position) }) else {
            let side = settings.position == .unspecified ? "" : " that faces the \(settings.position.rawValue)"
            throw ElementProblem(
                .resourceNotFound,
                "No camera\(side) was found. Available: \(found). "
                    + "Plug one in, or change position or device-positions.")
        }
        return camera
    }

    // MARK: Captures (on the queue, or in `start`)

    private func make(_ plan: CapturePlan) throws(ElementProblem) -> Capture {
        count &+= 1
        let capture = try Capture(plan, number: count, latest: latest)
        do throws(GStreamerError) {
            try capture.attach(
                to: host.element, selector: host.selector, onFirst: { [weak self] in self?.arrived($0) },
                onEnd: { [weak self] in self?.ended($0) ?? true })
        } catch {
            remove(capture)
            throw ElementProblem(
                .resourceFailed, "The output of \(plan.label) cannot be linked as raw video: \(error.message).")
        }
        return capture
    }

    private func remove(_ capture: Capture) {
        capture.remove(from: host.element.unowned, selector: host.selector)
        handle(.removed(capture))
    }

    /// Starts a new source. The current one delivers until the first frame of the new one.
    private func change(to plan: CapturePlan) {
        handle(.replacing(cameraID: plan.camera?.id))
        // The application has been notified, and its handler may have stopped the element.
        guard now.machine.isRunning else { return }
        host.log(.info, host.element.unowned, "starting \(plan.label)")
        do throws(ElementProblem) { handle(.made(try make(plan))) } catch { host.element.unowned.postWarning(error) }
    }

    private func awaitFirst(_ capture: Capture) {
        let isDue = { @Sendable [weak capture] (machine: CameraMachine<Capture>) in
            capture.map { machine.isStarting($0) } ?? false
        }
        perform(after: Self.startTimeout, if: isDue) { [weak capture] camera in
            guard let capture, !capture.hasDelivered else { return }
            // No frames are due in PAUSED.
            if camera.host.element.unowned.state() == .playing {
                camera.lost(capture, "it delivered no frame within 5 s")
            } else {
                camera.awaitFirst(capture)
            }
        }
    }

    /// A driver that hangs, or a grabber without a signal, sends nothing and no error.
    private func watch(_ capture: Capture) {
        guard capture.plan.camera != nil else { return }
        let isDue = { @Sendable [weak capture] (machine: CameraMachine<Capture>) in
            capture.map { machine.isInUse($0) } ?? false
        }
        perform(after: .seconds(1), if: isDue) { [weak capture] camera in
            guard let capture else { return }
            guard capture.hasStopped(isDue: camera.host.element.unowned.state() == .playing) else {
                return camera.watch(capture)
            }
            camera.lost(capture, "it has delivered no frame for 5 s")
        }
    }

    /// Called on the streaming thread of a capture, with its first frame.
    private func arrived(_ capture: Capture) {
        let machine = now.machine
        guard machine.mayTakeOver(capture) else { return }
        let last = machine.current
        capture.activate(host.selector, after: last === capture ? nil : last)
        host.onFirst(capture.plan)
        perform { $0.handle(.delivered(capture)) }
    }

    /// Handles EOS of a source; true if it is to be forwarded. EOS of a camera follows an error, so the camera is lost;
    /// EOS of any other source ends the stream.
    private func ended(_ capture: Capture) -> Bool {
        guard capture.plan.camera != nil else { return !capture.isLost }
        perform { $0.lost(capture, "it ended the stream (EOS)") }
        return false
    }

    // MARK: Hot-plugging and failures

    /// Handles an error. Returns true for that of a camera, which another one can replace, and of a capture being
    /// removed; an error of any other source ends the element.
    func claims(_ message: Message) -> Bool {
        let machine = now.machine
        let captures = machine.captures
        if machine.leaving.contains(where: { $0.posted(message) }) { return true }
        if captures.contains(where: { $0.plan.live?.claims(message) ?? false }) { return true }
        guard machine.isRunning, let capture = captures.first(where: { $0.posted(message) }) else { return false }
        // A new source starts beside the current one, which stays in use if it fails.
        guard capture.plan.camera != nil || captures.count > 1 && capture === captures.last else { return false }
        let text = message.problem?.text ?? "its error has no text"
        perform { $0.lost(capture, text.withoutFinalPoint) }
        return true
    }

    /// True for a message of a capture that is being removed: its threads still push while its elements stop.
    func isLeaving(_ message: Message) -> Bool { now.machine.leaving.contains { $0.posted(message) } }

    /// Called on a device provider's thread.
    private func deviceChanged(_ device: Device, _ isThere: Bool) {
        perform(if: { $0.isRunning }) { cameras in
            let camera = Camera(device, positions: cameras.host.settings().devicePositions)
            if isThere { cameras.handle(.appeared(cameraID: camera.id)) } else { cameras.cameraWent(camera) }
        }
    }

    /// Starts the source that the settings ask for or, if it is missing, any camera that is present.
    private func retake() {
        let now = now
        do throws(ElementProblem) { change(to: try plan(now)) } catch {
            guard isAutomatic, let other = cameras(now).first else {
                host.element.unowned.postWarning(error)
                return
            }
            change(to: plan(for: other, host.settings(), now.machine))
        }
    }

    private func cameraWent(_ camera: Camera) {
        for capture in now.machine.captures where capture.camera?.id == camera.id { lost(capture, "it was unplugged") }
    }

    /// Runs on the queue.
    private func lost(_ capture: Capture, _ why: String) {
        guard case .lose(_, let wasCurrent)? = decide(.failed(capture)).first else { return }
        capture.lose()
        remove(capture)
        guard let camera = capture.plan.camera else {
            let text = "The new source failed: \(why). The former one stays in use."
            return host.element.unowned.postWarning(ElementProblem(.resourceFailed, text))
        }
        host.onChange()
        // A handler of the application may have stopped the element.
        let now = now
        guard now.machine.isRunning else { return }
        let (rest, hasOther) = (cameras(now), now.machine.newest != nil)
        let next = hasOther ? nil : rest.first { $0.side == camera.side } ?? rest.first
        let then =
            hasOther
            ? "The other camera stays in use."
            : next.map { "Switching to '\($0.name)'." } ?? "Sending no frames until a camera is plugged in."
        host.element.unowned.postWarning(
            ElementProblem(
                wasCurrent ? .resourceRead : .resourceFailed,
                "The camera '\(camera.name)' (\(camera.id)) failed: \(why). \(then)"))
        if let next { change(to: plan(for: next, host.settings(), self.now.machine)) }
    }

    // MARK: Application interface

    func devices() -> [Structure] {
        let now = now
        let current = now.machine.current?.camera?.id
        return cameras(now).map { $0.structure(isCurrent: $0.id == current) }
    }

    /// Returns the formats of a camera; nil stands for the current one.
    func formats(of device: String?) -> [Structure] {
        let now = now
        let camera =
            device.flatMap { $0.isEmpty ? nil : $0 }.map { text in cameras(now).first { $0.matches(text) } }
            ?? now.machine.current?.camera
        return camera?.formats(wished: host.model()).map(\.structure) ?? []
    }

    /// Switches to a camera on the other side, or else to the next one. Returns nil if there is no other.
    func switchCamera() -> Camera? {
        let now = now
        let all = cameras(now)
        guard let current = now.machine.next else { return nil }
        let opposite = all.first { $0.side != current.side }
        let at = all.firstIndex { $0.id == current.id } ?? -1
        let next = opposite ?? (all.isEmpty ? nil : all[(at + 1) % all.count])
        guard let next, next.id != current.id else { return nil }
        choose(next)
        return next
    }

    /// Selects a camera by path, ID or display name. Returns nil if there is none.
    func select(_ text: String) -> Camera? {
        guard isAutomatic, let camera = anyCamera(text) else { return nil }
        choose(camera)
        return camera
    }

    /// Finds cameras that failed before, too.
    private func anyCamera(_ text: String) -> Camera? {
        if let known = cameras(now).first(where: { $0.matches(text) }) { return known }
        handle(.forgetLost)
        return cameras(now).first { $0.matches(text) }
    }

    /// Selects a format of the current camera. Returns false if none matches.
    func select(format wish: Structure) -> Bool {
        guard let camera = currentCamera,
            let format = camera.formats(wished: host.model()).first(where: { $0.matches(wish) })
        else { return false }
        choose(camera, format)
        return true
    }

    /// Called when the property `source` has been set: the new source takes over with its first frame. The parts around a
    /// network camera are made when the element starts.
    func sourceChanged() {
        perform(if: { $0.isRunning }) { cameras in
            let live = try? cameras.host.live()
            guard cameras.liveCamera == nil, live == nil else {
                let text = "A source that is or was a network camera changes at the next start of the element."
                return cameras.host.element.unowned.postWarning(ElementProblem(.resourceSettings, text))
            }
            let actions = cameras.decide(.sourceChanged)
            if cameras.isAutomatic, cameras.now.monitor == nil { cameras.watchDevices() }
            actions.forEach(cameras.carryOut)
        }
    }

    /// Called when the property `position` has been set.
    func positionChanged(_ position: CameraPosition) {
        let now = now
        guard isAutomatic, let current = now.machine.next, !current.looks(to: position),
            let camera = cameras(now).first(where: { $0.looks(to: position) })
        else { return }
        choose(camera)
    }

    private func choose(_ camera: Camera, _ format: CameraFormat? = nil) {
        guard !decide(.chose(camera, format)).isEmpty else { return }
        perform { cameras in
            defer { cameras.handle(.handled(camera)) }
            let machine = cameras.now.machine
            guard machine.takes(camera, format) else { return }
            cameras.change(to: cameras.plan(for: camera, cameras.host.settings(), machine))
        }
    }

    /// Releases the camera or opens it again. Before the element runs, this decides whether the next start opens it.
    func setCapturing(_ wanted: Bool) { wish(.requested(wanted)) }

    /// Releases the camera while video is muted.
    func setMuted(_ isMuted: Bool) { wish(.muted(isMuted)) }

    private func wish(_ event: CameraMachine<Capture>.Event) {
        handle(event)
        perform { $0.handle(.apply) }
    }
}
