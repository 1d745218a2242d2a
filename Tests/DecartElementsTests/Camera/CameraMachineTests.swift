import DecartElements
import Testing

/// Which capture delivers, starts and goes, without a camera.
@Suite(.timeLimit(.minutes(1)), .indifferentToTransport) struct CameraMachineTests {
    private struct Device: Identifiable { let id: String }

    private final class Source: CameraCapture {
        let camera: Device?

        /// - Parameter id: of its camera; nil: another source.
        init(_ id: String? = nil) { camera = id.map(Device.init) }
    }

    private typealias Machine = CameraMachine<Source>

    /// A machine whose element is in PAUSED, with a capture of the camera "a" in use.
    private static func running() -> (Machine, Source) {
        let first = Source("a")
        var machine = Machine()
        for event in [.start, .opened(first), .run] as [Machine.Event] { _ = machine.handle(event) }
        return (machine, first)
    }

    @Test func aStartOpensTheSource() {
        var machine = Machine()
        #expect(machine.handle(.start) == [.open])
        let source = Source("a")
        #expect(machine.handle(.opened(source)) == [])
        #expect(machine.handle(.run) == [.begin(source)])
        #expect(machine.isUp && machine.isRunning && machine.current === source)
        #expect(machine.handle(.delivered(source)) == [.watch(source), .notify])
    }

    @Test(arguments: [true, false]) func aStartWithoutAWishForFramesOpensNothing(isMuted: Bool) {
        var machine = Machine()
        #expect(machine.handle(isMuted ? .muted(true) : .requested(false)) == [])
        #expect(machine.handle(.start) == [])
        #expect(machine.handle(.run) == [])
        #expect(machine.handle(.apply) == [])
        #expect(machine.handle(isMuted ? .muted(false) : .requested(true)) == [])
        #expect(machine.handle(.apply) == [.open])
    }

    @Test func anotherCameraTakesOverWithItsFirstFrame() {
        var (machine, first) = Self.running()
        #expect(machine.handle(.replacing(cameraID: "b")) == [])
        let second = Source("b")
        #expect(machine.handle(.made(second)) == [.start(second)])
        #expect(machine.current === first && machine.newest === second && machine.captures == [first, second])
        #expect(machine.isStarting(second) && !machine.isInUse(second))
        #expect(machine.handle(.delivered(second)) == [.remove(first), .watch(second), .notify])
        #expect(machine.current === second && machine.leaving == [first])
        #expect(machine.handle(.removed(first)) == [])
        #expect(machine.leaving.isEmpty)
    }

    /// A device can be opened only once.
    @Test func anotherFormatOfTheCameraWaitsForTheRelease() {
        var (machine, first) = Self.running()
        #expect(machine.handle(.replacing(cameraID: "a")) == [.release(first)])
        #expect(machine.current == nil && machine.leaving == [first])
    }

    @Test func aThirdCameraEndsTheSecondWhichHasNotDelivered() {
        var (machine, first) = Self.running()
        let second = Source("b")
        _ = machine.handle(.made(second))
        #expect(machine.handle(.replacing(cameraID: "c")) == [.remove(second)])
        #expect(machine.current === first && machine.starting == nil)
    }

    @Test func aCaptureThatIsMadeTooLateGoes() {
        var (machine, _) = Self.running()
        _ = machine.handle(.halt)
        let late = Source("b")
        #expect(machine.handle(.made(late)) == [.remove(late)])
        // The messages of its elements are its own until they have gone.
        #expect(machine.starting == nil && machine.leaving == [late])
    }

    /// Its position would decide how the frames of the one in use are mirrored.
    @Test func aFirstFrameThatComesTooLateChangesNothing() {
        var (machine, first) = Self.running()
        let second = Source("b")
        // The streaming thread may be faster than the start.
        #expect(machine.mayTakeOver(second))
        _ = machine.handle(.made(second))
        #expect(machine.mayTakeOver(second))
        _ = machine.handle(.failed(second))
        #expect(!machine.mayTakeOver(second))
        #expect(machine.handle(.delivered(second)) == [.watch(second), .notify])
        #expect(machine.current === first)
    }

    @Test func aLostCameraIsLostOnce() {
        var (machine, first) = Self.running()
        #expect(machine.handle(.failed(first)) == [.lose(first, wasCurrent: true)])
        #expect(machine.lost == ["a"] && machine.current == nil && machine.leaving == [first])
        #expect(machine.handle(.failed(first)) == [])
    }

    @Test func aCameraThatFailsAtItsStartLeavesTheFormerOne() {
        var (machine, first) = Self.running()
        let second = Source("b")
        _ = machine.handle(.made(second))
        #expect(machine.handle(.failed(second)) == [.lose(second, wasCurrent: false)])
        #expect(machine.newest === first && machine.lost == ["b"])
    }

    /// Its error ends the element.
    @Test func anotherSourceInUseCannotBeLost() {
        var machine = Machine()
        let source = Source()
        for event in [.start, .opened(source), .run] as [Machine.Event] { _ = machine.handle(event) }
        #expect(machine.handle(.failed(source)) == [])
        let next = Source()
        _ = machine.handle(.made(next))
        #expect(machine.handle(.failed(next)) == [.lose(next, wasCurrent: false)])
        #expect(machine.lost.isEmpty && machine.current === source)
    }

    @Test func nothingIsLostWhileTheElementStops() {
        var (machine, first) = Self.running()
        _ = machine.handle(.halt)
        #expect(machine.handle(.failed(first)) == [])
    }

    @Test func aCameraThatComesBackIsUsedIfThereIsNone() {
        var (machine, first) = Self.running()
        #expect(machine.handle(.appeared(cameraID: "b")) == [])
        _ = machine.handle(.failed(first))
        #expect(machine.handle(.appeared(cameraID: "a")) == [.open])
        #expect(machine.lost.isEmpty)
        _ = machine.handle(.requested(false))
        #expect(machine.handle(.appeared(cameraID: "a")) == [])
    }

    @Test func aCameraThatFailedMayBeChosenAgain() {
        var (machine, first) = Self.running()
        _ = machine.handle(.failed(first))
        _ = machine.handle(.forgetLost)
        #expect(machine.lost.isEmpty)
    }

    @Test func aReleaseEndsBothCaptures() {
        var (machine, first) = Self.running()
        let second = Source("b")
        _ = machine.handle(.made(second))
        _ = machine.handle(.requested(false))
        #expect(machine.handle(.apply) == [.remove(second), .release(first)])
        #expect(machine.newest == nil && machine.leaving == [second, first])
        _ = machine.handle(.requested(true))
        #expect(machine.handle(.apply) == [.open])
    }

    @Test func aChoiceCountsBeforeTheQueueHandlesIt() {
        var (machine, _) = Self.running()
        let wish = Device(id: "b")
        #expect(machine.handle(.chose(wish, nil)) == [.take])
        #expect(machine.next?.id == "b" && machine.current?.camera?.id == "a")
        #expect(machine.takes(wish, nil))
        _ = machine.handle(.handled(wish))
        #expect(machine.next?.id == "a")
        // Of two choices the later one holds.
        _ = machine.handle(.chose(Device(id: "c"), nil))
        #expect(!machine.takes(wish, nil))
    }

    @Test func aChoiceBeforeTheStartIsKept() {
        var machine = Machine()
        #expect(machine.handle(.chose(Device(id: "b"), nil)) == [])
        #expect(machine.chosen?.id == "b" && machine.next == nil)
        _ = machine.handle(.sourceChanged)
        #expect(machine.chosen == nil)
    }

    /// A handler of the application may stop the element while a capture is removed.
    @Test func aCaptureIsRemovedOnce() {
        var (machine, first) = Self.running()
        _ = machine.handle(.requested(false))
        #expect(machine.handle(.apply) == [.release(first)])
        for event in [.halt, .stop] as [Machine.Event] { _ = machine.handle(event) }
        #expect(machine.handle(.clear) == [])
        #expect(machine.leaving == [first])
    }

    @Test func aStopForgetsWhatWasChosenAndLost() {
        var (machine, first) = Self.running()
        let second = Source("b")
        _ = machine.handle(.made(second))
        _ = machine.handle(.chose(Device(id: "b"), nil))
        for event in [.halt, .stop] as [Machine.Event] { #expect(machine.handle(event) == []) }
        #expect(!machine.isUp && !machine.isRunning)
        #expect(machine.handle(.clear) == [.remove(first), .remove(second)])
        #expect(machine.chosen == nil && machine.newest == nil && machine.next == nil)
    }
}
