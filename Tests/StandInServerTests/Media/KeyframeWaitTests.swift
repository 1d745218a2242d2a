import StandInServer
import Testing

@Suite
struct KeyframeWaitTests {
    @Test
    func repeatsTheRequestUntilAKeyframeComes() {
        var wait = KeyframeWait(isWaiting: true)
        let steps = (0..<31).map { _ in wait.add(isKeyframe: false) }
        #expect(steps.indices.filter { steps[$0] == .dropAndRequest } == [0, 15, 30])
        #expect(!steps.contains(.pass))
        #expect(wait.add(isKeyframe: true) == .pass)
        #expect(wait.add(isKeyframe: false) == .pass)
    }

    @Test
    func aPauseBeginsANewWait() {
        var wait = KeyframeWait(isWaiting: false)
        #expect(wait.add(isKeyframe: false) == .pass)
        wait.begin()
        #expect(wait.add(isKeyframe: false) == .dropAndRequest)
        wait.begin()
        #expect(wait.add(isKeyframe: false) == .dropAndRequest)
        wait.begin()
        #expect(wait.add(isKeyframe: true) == .pass)
    }
}
