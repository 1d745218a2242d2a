import EventLoopThreads
import GStreamerKit
import Synchronization

/// A pipeline beside that of the session: one that brings samples to a hub, or takes them. State changes run on a queue of their own,
/// because they may wait for drivers, and the tasks of an application must not.
final class FeedPipeline: Sendable {
    let pipeline: Pipeline
    private let queue = SerialQueue(label: "decart-feed")
    private let isStarted = Atomic(false)
    /// Fulfilled by the first sample.
    private let first = Promise<Void>()

    /// - Parameter sink: the name of the pipeline's `appsink`.
    init(_ pipeline: Pipeline, sink: String, hub: SampleHub) throws(DecartError) {
        self.pipeline = pipeline
        do throws(GStreamerError) {
            let output = try pipeline.appSink(named: sink)
            output.element.set("max-buffers", 2)
            output.element.set("drop", true)
            output.onSample { [weak hub, first] sample in
                first.fulfil()
                hub?.deliver(sample)
            }
            output.element.connect("eos") { [weak hub] _ in
                hub?.end()
                return nil
            }
        } catch { throw DecartError(error) }
        pipeline.bus.setSyncHandler { [weak hub, first] message in
            guard message.kind == .error, let error = DecartError(message) else { return }
            first.resolve(.failure(error))
            hub?.end(error)
        }
    }

    /// A pipeline that takes samples.
    /// - Parameter ended: EOS has reached all sinks, or an element has failed.
    init(playing pipeline: Pipeline, ended: Promise<Void>) {
        self.pipeline = pipeline
        pipeline.bus.setSyncHandler { message in
            if message.kind == .eos { ended.fulfil() }
            if message.kind == .error, let error = DecartError(message) { ended.resolve(.failure(error)) }
        }
    }

    deinit { queue.async { [pipeline] in pipeline.setState(.null) } }

    /// Starts without waiting.
    /// - Parameter started: runs when the elements take buffers.
    func start(then started: @escaping @Sendable () -> Void = {}) {
        guard !isStarted.exchange(true, ordering: .relaxed) else { return }
        queue.async { [pipeline, first] in
            if pipeline.setState(.playing) == .failure {
                first.resolve(.failure(DecartError.processingError("The source does not start.")))
            }
            started()
        }
    }

    /// Starts and waits for the first sample. Ends the wait if the task is cancelled.
    func startAndWait(within limit: Duration, orThrow late: DecartError) async throws {
        start()
        let timer = Task { [first] in
            try await Task.sleep(for: limit)
            first.resolve(.failure(late))
        }
        defer { timer.cancel() }
        try await first.value()
    }

    func stop() async {
        await withCheckedContinuation { done in
            queue.async { [pipeline] in
                pipeline.setState(.null)
                done.resume()
            }
        }
    }

    /// Runs `body` where the pipeline's state changes run.
    func perform<Result: Sendable>(_ body: @escaping @Sendable (Pipeline) -> Result) async -> Result {
        await withCheckedContinuation { done in
            queue.async { [pipeline] in done.resume(returning: body(pipeline)) }
        }
    }
}
