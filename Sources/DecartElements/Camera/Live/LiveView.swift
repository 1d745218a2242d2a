import GStreamerKit

/// One live view of a camera: its connection, and the way to it. Methods are called on the camera's queue. What happens
/// becomes events of the view, on any thread; nothing comes after `close`.
protocol LiveView: AnyObject, Sendable {
    var number: Int { get }
    /// Asks the camera for its stream.
    func request()
    /// Applies what the camera granted.
    func connect(_ grant: LiveViewGrant) throws
    /// Asks for an extension of the granted duration.
    func extend()
    /// Takes a candidate of the camera; nil: the last one has come.
    func add(candidate: String?)
    /// Closes the connection, and ends the view at the camera.
    func close()
    /// Why an error of one of its elements ends the view; nil: the element is not its own. Any thread.
    func failure(_ error: Message) -> LiveViewFailure?
    /// Takes secrets of the camera out of a text. Any thread.
    func redacting(_ text: String) -> String
}
