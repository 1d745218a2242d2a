import DecartElements
import GStreamerKit
import Glibc
import Testing

/// Parent of this target's suites: `.serialized` then also holds between suites, so that each pipeline has the machine
/// to itself and no test fails for lack of CPU time.
@Suite(.serialized) enum ElementTests {
    /// Registers the elements statically; the process must not load the plugin library as well, because the type names
    /// would clash.
    static let isReady: Bool = {
        // Threads of the tests themselves write to sockets whose peer is gone.
        signal(SIGPIPE, SIG_IGN)
        GStreamerRuntime.initialise()
        // A key in the developer's environment must not change a test's outcome.
        unsetenv("DECART_API_KEY")
        return DecartElements.register(in: nil)
    }()
}
