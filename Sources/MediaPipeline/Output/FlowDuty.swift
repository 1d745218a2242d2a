// The table of flow returns: the duty that each one from downstream causes on each of our source pads.
package import GStreamerKit

package enum OutputPad: Sendable, CaseIterable { case video, audio, preview }

package enum FlowDuty: Sendable, Equatable {
    /// The next buffer follows.
    case goOn
    /// The buffer is lost, and the next one may be taken: a branch that was flushed or restarted gets the stream again.
    case tryAgain
    /// Downstream has enough: the stream ends as by EOS.
    case end
    /// Downstream refuses the stream, which is an error of the pipeline.
    case fail

    /// - Parameter pad: what has pushed.
    package init(_ flow: FlowReturn, of pad: OutputPad) {
        switch (flow, pad) {
        case (.ok, _): self = .goOn
        // A consumer of the preview has no say in what the camera does: it may close, fail or come back.
        case (_, .preview), (.flushing, _): self = .tryAgain
        // `src` is linked from the beginning; `audio_src` may be linked later, or again.
        case (.notLinked, .audio): self = .tryAgain
        case (.eos, _): self = .end
        case (.notLinked, .video), (.notNegotiated, _), (.error, _): self = .fail
        }
    }
}
