import GStreamerKit

/// An error that stops the element and is posted on the bus.
struct ElementFailure: Error {
    let problem: ElementProblem
    init(_ code: ElementProblem.Code, _ text: String) { problem = ElementProblem(code, text) }
    init(missing what: String) { problem = .missing(what) }
}
