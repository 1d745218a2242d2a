import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

/// Runs `source ! decarttransform name=t … ! downstream ! fakesink name=out` and records everything that leaves the
/// element.
// @unchecked: state that changes across threads is in `Watched` values, `problems` belongs to the test's thread, and
// GStreamer objects lock themselves.
final class TransformPipeline: @unchecked Sendable {
    static let width = 320
    static let height = 176
    static let framerate = 20
    /// A colourful still pattern, which every look changes.
    static let pattern = "smpte-rp-219"
    static let size = "width=\(width),height=\(height)"
    static let liveSource = source()
    static let key = "key-that-nobody-may-see"
    static let custom = "model=test-model width=\(width) height=\(height) framerate=\(framerate)"
    /// No fallback and no retry: only the service's frames leave the element, and the first failure is final.
    static let bare = "fallback=none max-retries=0 transport=\(MediaWay.current.transport)"

    static func source(_ options: String = "is-live=true", caps: String = "format=I420,\(size),framerate=20/1")
        -> String
    {
        "videotestsrc name=source pattern=\(pattern) \(options) ! video/x-raw,\(caps)"
    }

    struct Frame: Sendable {
        let image: CopiedFrame
        let pts: UInt64?
        let isDiscontinuous: Bool
        let caps: String
    }

    struct Seen: Sendable {
        var frames = 0
        var latest: Frame?
        var first: Frame?
        /// Output frames that look like the forbidden one, usually the raw input.
        var leaks = 0
        /// Output frames of `fallback=black`: their luma is 16 everywhere.
        var blackFrames = 0
        var times: [UInt64?] = []
        var discontinuities: [Int] = []
        var events: [Event.Kind] = []
        var capsTexts: [String] = []
        var orientationTags: [String] = []
        var isEnded = false
    }

    let pipeline: Pipeline
    let bus: BusWatch
    let transform: Element
    let output: Element
    let sink: Pad
    private let seen = Watched(Seen())
    private var problems: [Problem] = []
    /// A wait for frames has timed out.
    private var hasMissedFrames = false
    /// A frame that differs from this one by less than `leakLimit` code values counts as a leak.
    private let forbidden: Watched<CopiedFrame?>
    static let leakLimit = 5.0

    struct Problem: Sendable {
        let kind: Message.Kind
        let source: String
        let domain: String
        let code: Int
        let text: String
        let debug: String
        let details: Structure?
        /// Short form of domain and code, such as `resource 15`, for comparisons in tests.
        var name: String { domain.replacing("gst-", with: "").replacing("-error-quark", with: "") + " \(code)" }
    }

    convenience init(
        _ properties: String, source: String = TransformPipeline.liveSource, downstream: String = "",
        settings: [(String, String)] = [], forbidden: CopiedFrame? = nil
    ) throws {
        try self.init(
            description: "\(source) ! decarttransform name=t \(Self.bare) \(properties) ! \(downstream) "
                + (downstream.isEmpty ? "" : "! ") + "fakesink name=out sync=false", settings: settings,
            forbidden: forbidden)
    }

    /// The description must have an element `t`, whose output is recorded, and a fakesink `out`.
    init(description: String, settings: [(String, String)] = [], forbidden: CopiedFrame? = nil) throws {
        try #require(ElementTests.isReady)
        pipeline = try Pipeline(description: description)
        bus = BusWatch(pipeline)
        transform = try #require(pipeline.child(named: "t"))
        output = try #require(pipeline.child(named: "out"))
        sink = try #require(output.staticPad("sink"))
        self.forbidden = Watched(forbidden)
        for (name, value) in settings { transform.set(name, GValueBox(value)) }
        watch()
    }

    /// Uses the standard key, size and model against a stand-in.
    convenience init(
        _ standIn: StandIn, _ properties: String = "", prompt: String = "",
        source: String = TransformPipeline.liveSource,
        downstream: String = "", forbidden: CopiedFrame? = nil
    ) throws {
        try self.init(
            "base-url=\(standIn.url) api-key=\(Self.key) \(Self.custom) \(properties)", source: source,
            downstream: downstream, settings: prompt.isEmpty ? [] : [("prompt", prompt)], forbidden: forbidden)
    }

    /// Uses `decartsrc` in place of a source and decarttransform; `preview` adds a sink `preview` to its preview pad.
    static func camera(
        _ standIn: StandIn, _ properties: String, prompt: String = "", preview: Bool = false, size: String = custom
    ) throws -> TransformPipeline {
        try TransformPipeline(
            description: """
                decartsrc name=t \(bare) base-url=\(standIn.url) api-key=\(key) \(size) \(properties) \
                t.src ! fakesink name=out sync=false
                """ + (preview ? " t.preview ! fakesink name=preview sync=false" : ""),
            settings: prompt.isEmpty ? [] : [("prompt", prompt)])
    }

    private func watch() {
        // Only for the thread that pushes.
        nonisolated(unsafe) var video: VideoInfo?
        nonisolated(unsafe) var capsText = ""
        let transformSource = transform.staticPad("src")
        // The probe is on the element's own pad, so that downstream elements cannot alter what it sees.
        transformSource?.addProbe([.buffer, .downstreamEvent]) { [weak self] item in
            guard let self else { return .pass }
            switch item {
            case .event(let event):
                if let caps = event.caps {
                    video = caps.first?.name == "video/x-raw" ? VideoInfo(caps: caps) : nil
                    capsText = caps.description
                }
                self.note(event, capsText)
            case .buffer(let buffer):
                if let video, let image = CopiedFrame(buffer, video) { self.note(buffer, image, capsText) }
            case .query: break
            }
            return .pass
        }
        sink.addProbe(.downstreamEvent) { [weak self] item in
            if case .event(let event) = item, event.kind == .eos { self?.seen.change { $0.isEnded = true } }
            return .pass
        }
    }

    private func note(_ event: Event, _ caps: String) {
        if event.kind == .gap { return }
        seen.change { seen in
            seen.events.append(event.kind)
            if event.kind == .caps { seen.capsTexts.append(caps) }
            if let tag = event.imageOrientationTag { seen.orientationTags.append(tag) }
        }
    }

    private func note(_ buffer: Buffer, _ image: CopiedFrame, _ caps: String) {
        let frame = Frame(image: image, pts: buffer.pts, isDiscontinuous: buffer.isDiscontinuous, caps: caps)
        let isBlack = image.planes[0].allSatisfy { $0 == 16 }
        let isLeak = forbidden.value.map { image.difference(from: $0) < Self.leakLimit } ?? false
        seen.change { seen in
            if frame.isDiscontinuous { seen.discontinuities.append(seen.frames) }
            seen.frames += 1
            seen.latest = frame
            if seen.first == nil { seen.first = frame }
            if isLeak { seen.leaks += 1 }
            if isBlack { seen.blackFrames += 1 }
            seen.times.append(frame.pts)
        }
    }

    // MARK: Running

    @discardableResult func play() -> StateChangeReturn { pipeline.setState(.playing) }

    /// Makes a pipeline, runs the body and sets the pipeline to NULL. Checks that this does not hang and that the
    /// element is finalised; NULL should take less than a second.
    static func run(
        _ make: @autoclosure () throws -> TransformPipeline, sourceLocation: SourceLocation = #_sourceLocation,
        test: String = #function, file: String = #fileID, _ body: (TransformPipeline) throws -> Void
    ) throws {
        weak var implementation: (any ElementImplementation)?
        do {
            let pipeline = try make()
            implementation = pipeline.transform.implementation
            #expect(implementation != nil, sourceLocation: sourceLocation)
            defer {
                let time = duration { _ = pipeline.pipeline.setState(.null) }
                #expect(time < .seconds(20), "NULL took \(time)", sourceLocation: sourceLocation)
                // Only the slow ones, because each test sets several pipelines to NULL.
                if time > .milliseconds(300) { measure("NULL", time, atMost: .seconds(1), test: test, file: file) }
            }
            try body(pipeline)
        }
        let isGone = eventually { implementation == nil }
        #expect(isGone, "the element outlives its pipeline", sourceLocation: sourceLocation)
    }

    /// The same with a stand-in for this pipeline alone.
    /// - Parameter judgesConduct: checks at the end that the element conducted itself well; see `runWell`.
    static func run(
        with make: (StandIn) throws -> TransformPipeline,
        standIn configure: (inout StandInConfiguration) -> Void = { _ in }, judgesConduct: Bool = false,
        sourceLocation: SourceLocation = #_sourceLocation, test: String = #function, file: String = #fileID,
        _ body: (TransformPipeline, StandIn) throws -> Void
    ) throws {
        try StandIn.run(configure) { standIn in
            try run(try make(standIn), sourceLocation: sourceLocation, test: test, file: file) {
                try body($0, standIn)
                if $0.hasMissedFrames {
                    for session in standIn.sessions {
                        Issue.record("The stand-in: \(session.frames), \(session.media), \(session.mediaFailure ?? "")")
                    }
                }
            }
            if judgesConduct { standIn.expectGoodConduct(sourceLocation: sourceLocation) }
        }
    }

    /// The same, and checks at the end that the element conducted itself well.
    static func runWell(
        with make: (StandIn) throws -> TransformPipeline,
        standIn configure: (inout StandInConfiguration) -> Void = { _ in },
        sourceLocation: SourceLocation = #_sourceLocation, test: String = #function, file: String = #fileID,
        _ body: (TransformPipeline, StandIn) throws -> Void
    ) throws {
        try run(
            with: make, standIn: configure, judgesConduct: true, sourceLocation: sourceLocation, test: test, file: file,
            body)
    }

    // MARK: Observed output

    var current: Seen { seen.value }
    var frames: Int { seen.read(\.frames) }
    var isEnded: Bool { seen.read(\.isEnded) }

    /// Sets the frame that counts as a leak from now on.
    func forbid(_ image: CopiedFrame?) { forbidden.change { $0 = image } }

    func wait(until condition: (Seen) -> Bool) -> Bool {
        let holds = seen.wait(until: condition)
        if !holds {
            for problem in takeProblems() { Issue.record("\(problem.kind): \(problem.text) (\(problem.debug))") }
            hasMissedFrames = true
            Issue.record("The element: \(counters)")
        }
        return holds
    }

    /// How far frames have come, for the report of a failure.
    private var counters: String {
        let stats = stats
        return [
            "frames-in", "frames-sent", "frames-encoded", "packets-sent", "plis-received", "packets-received",
            "packets-refused", "plis-sent", "frames-decoded", "frames-received", "frames-out",
        ].map { "\($0) \(stats?.int($0) ?? -1)" }.joined(separator: ", ")
    }

    /// Waits for `count` more frames.
    func waitForFrames(_ count: Int) -> Bool {
        let target = frames + count
        return wait { $0.frames >= target }
    }

    /// Waits for a frame that differs from the given one by less than `limit` code values.
    func waitForFrame(_ image: CopiedFrame, within limit: Double = 6) -> Bool {
        wait { seen in seen.latest.map { $0.image.difference(from: image) < limit } ?? false }
    }

    /// Waits for a black frame: that of `fallback=black`, whose luma is 16, or one of muted video, which the service
    /// has transformed and two codecs have changed a little.
    func waitForBlack(upTo luma: UInt8 = 16) -> Bool {
        wait { $0.latest?.image.planes[0].allSatisfy { $0 <= luma } == true }
    }

    /// Timestamps of the output so far increase from frame to frame.
    var timesRise: Bool {
        let times = current.times.compactMap { $0 }
        return zip(times, times.dropFirst()).allSatisfy { $0 < $1 }
    }

    var latestFrame: CopiedFrame? { seen.read(\.latest)?.image }

    // MARK: The bus

    /// Returns the errors and warnings posted so far, without waiting.
    func takeProblems() -> [Problem] {
        while let message = bus.next(timeout: .zero) { keep(message) }
        return problems
    }

    /// Waits for the first error.
    func waitForError() -> Problem? { waitForProblem(.error) }

    func waitForProblem(_ kind: Message.Kind) -> Problem? {
        let deadline = ContinuousClock.now + .seconds(60)
        while true {
            if let problem = takeProblems().first(where: { $0.kind == kind }) { return problem }
            let left = deadline - ContinuousClock.now
            guard left > .zero, let message = bus.next(timeout: left) else { return nil }
            keep(message)
        }
    }

    /// Collects further errors and warnings for the given time.
    func collect(milliseconds: Int) -> [Problem] {
        let deadline = ContinuousClock.now + .milliseconds(milliseconds)
        while case let left = deadline - ContinuousClock.now, left > .zero, let message = bus.next(timeout: left) {
            keep(message)
        }
        return problems
    }

    /// Makes the sink render in time with the clock and drop frames that are 20 ms late, as video sinks do.
    /// - Returns: the number of frames that it renders.
    func countRendered() -> Watched<Int> {
        let rendered = Watched(0)
        output.set("sync", true)
        output.set("qos", true)
        output.set("max-lateness", "20000000")
        output.set("signal-handoffs", true)
        output.connect("handoff") { _ in
            rendered.change { $0 += 1 }
            return nil
        }
        return rendered
    }

    /// Waits for a message of any kind that matches.
    func waitForMessage(seconds: Int = 60, where matches: (Message) -> Bool) -> Message? {
        let deadline = ContinuousClock.now + .seconds(seconds)
        while case let left = deadline - ContinuousClock.now, left > .zero, let message = bus.next(timeout: left) {
            keep(message)
            if matches(message) { return message }
        }
        return nil
    }

    private func keep(_ message: Message) {
        guard let problem = message.problem else { return }
        problems.append(
            Problem(
                kind: message.kind, source: message.sourceName, domain: problem.domain, code: problem.code,
                text: problem.text, debug: problem.debug, details: problem.details))
    }

    // MARK: Statistics

    var stats: Structure? { transform.structure("stats") }
    func count(_ field: String) -> Int { stats?.int(field) ?? -1 }
    var connectionState: String? { transform.string("connection-state") }
    var isConnected: Bool { ["connected", "generating"].contains(connectionState) }

    /// Records the values of `connection-state` from now on; a test that polls may miss one.
    func recordConnectionStates() -> Watched<[String]> {
        let states = Watched<[String]>([])
        transform.connect("notify::connection-state") { [weak self] _ in
            if let state = self?.connectionState { states.change { if $0.last != state { $0.append(state) } } }
            return nil
        }
        return states
    }
}
