import MediaPipeline
import Testing

@Suite struct PadSlotTests {
    @Test func onePadIsAddedAndRemoved() {
        var slot = PadSlot<Int>()
        let isEarly = slot.mayAdd(1)
        #expect(!isEarly, "READY")
        slot.start()
        let steps = [slot.mayAdd(1), slot.added(), slot.mayAdd(2), slot.mayRemove()]
        #expect(steps == [true, false, false, true])
        let next = slot.removed()
        let later = [slot.mayRemove(), slot.mayAdd(3)]
        #expect(next == nil && later == [false, true])
    }

    /// Two threads add the pad: one of them does.
    @Test func aPadThatIsBeingAddedIsNotAddedAgain() {
        var slot = PadSlot<Int>()
        slot.start()
        let steps = [slot.mayAdd(1), slot.mayAdd(2), slot.added()]
        #expect(steps == [true, false, false])
    }

    /// The name is free only when the pad has gone.
    @Test func aPadThatIsWantedWhileItGoesFollows() {
        var slot = PadSlot<Int>()
        slot.start()
        let steps = [slot.mayAdd(1), slot.added(), slot.mayRemove(), slot.mayAdd(2), slot.mayRemove(), slot.mayAdd(3)]
        #expect(steps == [true, false, true, false, false, false])
        let next = slot.removed()
        #expect(next == 3)
        let isAdded = slot.mayAdd(3)
        #expect(isAdded)
    }

    @Test func aPadThatIsUnwantedBeforeItHasComeGoes() {
        var slot = PadSlot<Int>()
        slot.start()
        let steps = [slot.mayAdd(1), slot.mayRemove(), slot.added(), slot.mayRemove()]
        #expect(steps == [true, false, true, true])
        let next = slot.removed()
        let isAdded = slot.mayAdd(2)
        slot.failed()
        let isAddedAgain = slot.mayAdd(3)
        #expect(next == nil && isAdded && isAddedAgain)
    }

    /// A session's work that ends late adds nothing to a stopped element.
    @Test func aStoppedElementGetsNoPad() {
        var slot = PadSlot<Int>()
        slot.start()
        let isAdded = slot.mayAdd(1)
        slot.stop()
        let steps = [slot.mayRemove(), slot.added(), slot.mayRemove(), slot.mayAdd(2)]
        #expect(isAdded && steps == [false, true, true, false])
        let next = slot.removed()
        let isLate = slot.mayAdd(3)
        slot.start()
        let isNew = slot.mayAdd(4)
        #expect(next == nil && !isLate && isNew)
    }
}
