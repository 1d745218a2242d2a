import TestSupport
import Testing

@Suite("A child process of a test", .timeLimit(.minutes(1)))
struct ChildProcessTests {
    @Test func aWriteToOneThatHasExitedRaisesNoSIGPIPE() throws {
        let child = try ChildProcess(["/bin/true"])
        _ = child.end(within: .seconds(20))
        #expect(BrokenPipe.signals { child.write([1]) } == 0)
    }
}
