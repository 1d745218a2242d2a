import MediaPipeline
import Testing

@Suite struct PadSlotTests {
    private var slot = PadSlot<Int>()

    @Test mutating func onePadIsAddedAndRemoved() {
        #expect(!slot.mayAdd(1))
        slot.start()
        #expect(slot.mayAdd(1))
        #expect(!slot.added())
        #expect(!slot.mayAdd(2))
        #expect(slot.mayRemove())
        #expect(slot.removed() == nil)
        #expect(!slot.mayRemove())
        #expect(slot.mayAdd(3))
    }

    /// Two threads add the pad: one of them does.
    @Test mutating func aPadThatIsBeingAddedIsNotAddedAgain() {
        slot.start()
        #expect(slot.mayAdd(1))
        #expect(!slot.mayAdd(2))
        #expect(!slot.added())
    }

    /// The name is free only when the pad has gone.
    @Test mutating func aPadThatIsWantedWhileItGoesFollows() {
        slot.start()
        #expect(slot.mayAdd(1))
        #expect(!slot.added())
        #expect(slot.mayRemove())
        #expect(!slot.mayAdd(2))
        #expect(!slot.mayRemove())
        #expect(!slot.mayAdd(3))
        #expect(slot.removed() == 3)
        #expect(slot.mayAdd(3))
    }

    @Test mutating func aPadThatIsUnwantedBeforeItHasComeGoes() {
        slot.start()
        #expect(slot.mayAdd(1))
        #expect(!slot.mayRemove())
        #expect(slot.added())
        #expect(slot.mayRemove())
        #expect(slot.removed() == nil)
        #expect(slot.mayAdd(2))
        slot.failed()
        #expect(slot.mayAdd(3))
    }

    /// A session's work that ends late adds nothing to a stopped element.
    @Test mutating func aStoppedElementGetsNoPad() {
        slot.start()
        #expect(slot.mayAdd(1))
        slot.stop()
        #expect(!slot.mayRemove())
        #expect(slot.added())
        #expect(slot.mayRemove())
        #expect(!slot.mayAdd(2))
        #expect(slot.removed() == nil)
        #expect(!slot.mayAdd(3))
        slot.start()
        #expect(slot.mayAdd(4))
    }
}
