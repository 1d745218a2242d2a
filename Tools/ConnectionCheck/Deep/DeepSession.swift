// A session with synthetic frames through the element decarttransform, which GStreamer loads as in any application.
package import DecartProtocol
import GStreamerKit

package struct DeepSession: Sendable {
    package var baseURL: String
    package var key: APIKey
    package var model: String
    package var insecure = false
    package var caFile: String?
    /// Empty: none.
    package var stunServer = ""
    package var turnServers: [String] = []
    /// May contain a password.
    package var httpProxy: String?
    package var localAddress: String?
    /// Without a frame until then, the session has failed. A slow service or machine needs longer than `duration`.
    package var firstFrameLimit = Duration.seconds(30)

    private static let duration = Duration.seconds(12)
    /// How long frames are measured at least.
    private static let shortest = Duration.seconds(5)
    /// The prompt of the session; the stand-in has an effect for it.
    private static let prompt = "Lego World"
    private static let interval = Duration.milliseconds(500)

    package init(baseURL: String, key: APIKey, model: String) {
        self.baseURL = baseURL
        self.key = key
        self.model = model
    }

    package struct Failure: Error, Sendable {
        package let message: String
    }

    /// Runs the session; blocks until it ends. Throws if GStreamer lacks an element.
    /// - Parameter progress: called every half second with a line for people.
    package func run(progress: (String) -> Void) throws(Failure) -> SessionSummary {
        GStreamerRuntime.initialise()
        guard GStreamerRuntime.hasElement("decarttransform") else {
            throw Failure(
                message: "GStreamer finds no element decarttransform. Install gstreamer1.0-decart, or name the "
                    + "plugin's folder in GST_PLUGIN_PATH.")
        }
        let pipeline: Pipeline
        do throws(GStreamerError) {
            pipeline = try Pipeline(
                description: "videotestsrc is-live=true pattern=ball ! video/x-raw,width=640,height=360,framerate=30/1 "
                    + "! decarttransform name=session ! fakesink")
        } catch {
            throw Failure(message: "GStreamer cannot build the pipeline: \(error.message).")
        }
        guard let element = pipeline.child(named: "session") else {
            throw Failure(message: "GStreamer cannot build the pipeline.")
        }
        set(element)
        return observe(pipeline, element, progress)
    }

    private func set(_ element: Element) {
        // As values: gst_util_set_object_arg would interpret quotes and backslashes in texts.
        element.set("base-url", GValueBox(baseURL))
        element.set("api-key", GValueBox(key.reveal()))
        element.set("model", GValueBox(model))
        element.set("insecure", GValueBox(insecure))
        if let caFile { element.set("ca-file", GValueBox(caFile)) }
        element.set("stun-server", GValueBox(stunServer))
        if !turnServers.isEmpty { element.set("turn-servers", GValueBox(strings: turnServers)) }
        if let httpProxy { element.set("http-proxy", GValueBox(httpProxy)) }
        if let localAddress { element.set("local-address", GValueBox(localAddress)) }
        element.set("prompt", GValueBox(Self.prompt))
        // The report names the limit instead of waiting.
        element.set("limit-wait", GValueBox(int: 0))
    }

    private func observe(_ pipeline: Pipeline, _ element: Element, _ progress: (String) -> Void) -> SessionSummary {
        var summary = SessionSummary()
        /// The first statistics with frames; those after a reconnect, which starts the byte counters over.
        var first: (time: Duration, stats: Structure)?
        var bytes = 0
        let begun = ContinuousClock.now
        var elapsed: Duration { begun.duration(to: .now) }
        pipeline.setState(.playing)
        defer { pipeline.setState(.null) }
        let bus = pipeline.bus
        var nextReading = Self.interval
        var end: Duration {
            let limit = firstFrameLimit
            return max(Self.duration, first.map { min($0.time, limit) + Self.shortest } ?? limit)
        }
        while summary.error == nil, elapsed < end {
            let wait = max(.zero, min(nextReading, end) - elapsed)
            if let message = bus.next(timeout: wait) { summary.note(message, at: elapsed.milliseconds) }
            guard elapsed >= nextReading else { continue }
            nextReading += Self.interval
            let reading = element.structure("stats")
            let frames = reading?.int("frames-received") ?? 0
            progress("\(elapsed.milliseconds / 1000) s: \(summary.states.last?.name ?? "starting"), \(frames) frames")
            guard let stats = reading, frames > 0 else { continue }
            let before = bytes
            bytes = stats.int("bytes-received") ?? 0
            if first == nil || bytes < before { first = (elapsed, stats) }
        }
        summary.duration = elapsed.milliseconds
        if let stats = element.structure("stats") {
            summary.note(stats, since: first?.stats, first.map { elapsed - $0.time } ?? .zero)
        }
        return summary
    }
}

extension SessionSummary {
    fileprivate mutating func note(_ message: GStreamerKit.Message, at time: Int) {
        if let problem = message.problem {
            let details = problem.details
            messages.append(
                Message(
                    isError: message.kind == .error, time: time,
                    code: details?.string("code") ?? "\(problem.domain) \(problem.code)",
                    stage: details?.string("stage"), httpStatus: details?.int("http-status"),
                    text: problem.text.printable(limit: 500)))
        } else if message.kind == .element, let structure = message.structure, structure.name == "decart-state",
            let state = structure.string("state"), state != states.last?.name
        {
            states.append(State(time: time, name: state))
        }
    }

    fileprivate mutating func note(_ stats: Structure, since first: Structure?, _ window: Duration) {
        let seconds = window / .seconds(1)
        func rate(_ field: String) -> Double? {
            guard seconds >= 1, let now = stats.int(field), let before = first?.int(field), now >= before
            else {
                return nil
            }
            return Double(now - before) / seconds
        }
        func duration(_ field: String) -> Duration? {
            stats.int(field).flatMap { $0 >= 0 ? .nanoseconds($0) : nil }
        }
        transport = stats.string("transport")
        connectTime = duration("connect-time")
        firstFrameTime = duration("time-to-first-frame")
        framesSent = stats.int("frames-sent") ?? 0
        framesReceived = stats.int("frames-received") ?? 0
        framesPerSecond = rate("frames-received")
        bitrateSent = rate("bytes-sent").map { Int($0 * 8) }
        bitrateReceived = rate("bytes-received").map { Int($0 * 8) }
        roundTripTime = duration("round-trip-time")
        packetsLost = stats.int("packets-lost").flatMap { $0 >= 0 ? $0 : nil }
        packetsReceived = stats.int("packets-received") ?? 0
        if let width = stats.int("received-width"), let height = stats.int("received-height"), width > 0 {
            receivedSize = "\(width) x \(height)"
        }
        let types = [stats.string("local-candidate-type"), stats.string("remote-candidate-type")].compactMap(\.self)
        if types.count == 2 { candidateTypes = types.joined(separator: " and ") }
        isRelayed = connectTime == nil ? nil : stats["relayed"]?.bool
        retries = stats.int("retries") ?? 0
    }
}
