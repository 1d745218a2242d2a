import DecartElements
import GStreamerKit
import Glibc
import Testing

/// All suites of this target are inside this one, for `.serialized` then holds between them too: a pipeline has the
/// machine to itself, and processor time is not what is tested.
@Suite(.serialized) enum ElementTests {
    /// Registers the elements with this process, which must not load the plugin library as well.
    static let isReady: Bool = {
        GStreamerRuntime.initialise()
        // What the developer's shell holds must not decide a test.
        unsetenv("DECART_API_KEY")
        return DecartElements.register(in: nil)
    }()
}
