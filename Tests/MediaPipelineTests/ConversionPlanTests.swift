import GStreamerKit
import MediaPipeline
import Testing
import WebRTCTransport

@Suite(.timeLimit(.minutes(1))) struct ConversionPlanTests {
    init() { GStreamerRuntime.initialise() }

    /// A class, because `#expect` takes no mutating call.
    private final class Driven {
        private var plan = ConversionPlan()

        func turn(_ rotation: ImageRotation) { plan.turn(rotation) }
        func take(caps: Event, isFirst: Bool, _ target: ConversionPlan.Target) -> Bool {
            plan.take(caps: caps, isFirst: isFirst, target)
        }
        func take(_ frame: Buffer, _ target: ConversionPlan.Target) -> ConversionPlan.Step { plan.take(frame, target) }
        func beginHeld() -> Event? { plan.beginHeld() }
        func endHeld() { plan.endHeld() }
        func takeGeometry() -> ConversionPlan.Geometry? { plan.takeGeometry() }
    }

    private let target = ConversionPlan.Target(width: 64, height: 48, fit: .stretch)

    private func caps(_ format: String, _ width: Int, _ height: Int, _ more: String = "") throws -> Event {
        .caps(try Caps("video/x-raw,format=\(format),width=\(width),height=\(height),framerate=25/1\(more)"))
    }

    private func frame(_ width: Int, _ height: Int, bytes: Int = 2) -> Buffer { Buffer(size: width * height * bytes) }

    private func isDirect(_ step: ConversionPlan.Step) -> Bool { if case .passesBy = step { true } else { false } }
    private func needsElements(_ step: ConversionPlan.Step) -> Bool {
        if case .needsElements = step { true } else { false }
    }
    private func isLost(_ step: ConversionPlan.Step) -> Bool { if case .lost = step { true } else { false } }

    /// The elements get the first caps, whatever the route, and later ones with the first frame that needs them.
    @Test func capsWaitForAFrameThatNeedsThem() throws {
        let plan = Driven()
        #expect(plan.take(caps: try caps("I420", 96, 64), isFirst: true, target))
        #expect(plan.takeGeometry()?.input?.width == 96 && plan.takeGeometry() == nil)
        #expect(isDirect(plan.take(frame(96, 64), target)))
        let later = try caps("NV12", 128, 64)
        #expect(!plan.take(caps: later, isFirst: false, target))
        #expect(isDirect(plan.take(frame(128, 64), target)))
        // A rotation is the elements' work, in the caps that they have not got.
        plan.turn(.right)
        #expect(needsElements(plan.take(frame(128, 64), target)))
        let held = try #require(plan.beginHeld())
        #expect(held.caps == later.caps)
        // It comes in as an event does.
        #expect(plan.take(caps: held, isFirst: false, target))
        #expect(plan.takeGeometry()?.input?.width == 128)
        plan.endHeld()
        #expect(plan.beginHeld() == nil && plan.takeGeometry() == nil)
        #expect(plan.take(caps: try caps("NV12", 32, 64), isFirst: false, target), "the route is that of the elements")
    }

    /// A frame that the scaler cannot read goes through the elements, by its own caps; the next one need not.
    @Test func aFrameMayNeedTheElementsOnce() throws {
        let plan = Driven()
        _ = plan.take(caps: try caps("I420", 96, 64), isFirst: true, target)
        _ = plan.take(caps: try caps("I420", 32, 64), isFirst: false, target)
        let held = try #require(plan.beginHeld())
        #expect(plan.take(caps: held, isFirst: false, target))
        plan.endHeld()
        #expect(isDirect(plan.take(frame(32, 64), target)))
        #expect(!plan.take(caps: try caps("I420", 48, 64), isFirst: false, target))
    }

    @Test func aFrameOfOtherCapsIsLost() throws {
        let plan = Driven()
        #expect(needsElements(plan.take(frame(8, 8), target)), "there are no caps")
        _ = plan.take(caps: try caps("I420", 96, 64), isFirst: true, target)
        #expect(isLost(plan.take(frame(8, 8), target)))
        #expect(isDirect(plan.take(frame(96, 64), target)))
    }

    /// A new size of the frames that leave holds from the next frame on.
    @Test func theTargetChangesWithTheNextFrame() throws {
        let plan = Driven()
        _ = plan.take(caps: try caps("I420", 96, 64), isFirst: true, target)
        _ = plan.takeGeometry()
        guard case .passesBy(let scaler?, let shape) = plan.take(frame(96, 64), target) else {
            Issue.record("no scaler")
            return
        }
        #expect(shape.size == (64, 48) && scaler.scaled(frame(96, 64))?.size == 64 * 48 * 3 / 2)
        guard case .passesBy(_, let same) = plan.take(frame(96, 64), target) else { return }
        #expect(same.caps === shape.caps && plan.takeGeometry() == nil)
        let other = ConversionPlan.Target(width: 96, height: 64, fit: .stretch)
        guard case .passesBy(_, let next) = plan.take(frame(96, 64), other) else { return }
        #expect(next.size == (96, 64) && plan.takeGeometry()?.target.size.width == 96)
        // An odd side is not the scaler's.
        let odd = ConversionPlan.Target(width: 95, height: 64, fit: .stretch)
        #expect(needsElements(plan.take(frame(96, 64), odd)))
    }

    /// A new crop makes upstream repeat its caps.
    @Test func repeatedCapsChangeNothing() throws {
        let plan = Driven()
        _ = plan.take(caps: try caps("AYUV64", 96, 64), isFirst: true, target)
        #expect(plan.takeGeometry() != nil)
        #expect(plan.take(caps: try caps("AYUV64", 96, 64), isFirst: false, target))
        #expect(plan.takeGeometry() == nil)
    }

    /// Mixed caps without a flag on any frame: all are interlaced. From the first flag on, the others are not.
    @Test func interlacedFramesAreTheElements() throws {
        let plan = Driven()
        _ = plan.take(caps: try caps("I420", 96, 64, ",interlace-mode=mixed"), isFirst: true, target)
        #expect(needsElements(plan.take(frame(96, 64), target)))
        #expect(plan.takeGeometry()?.isUnflagged == true)
        let flagged = frame(96, 64)
        flagged.isInterlaced = true
        #expect(needsElements(plan.take(flagged, target)))
        #expect(plan.takeGeometry()?.isUnflagged == false)
        #expect(needsElements(plan.take(frame(96, 64), target)) && plan.takeGeometry() == nil)
    }

    /// A processor negotiates for another event: equal caps of scaled frames stay the same one.
    @Test func aScaledStreamKeepsItsCaps() throws {
        let plan = Driven()
        var events: [Event?] = []
        for (width, isFirst) in [(96, true), (32, false), (96, false)] {
            _ = plan.take(caps: try caps("I420", width, 64), isFirst: isFirst, target)
            guard case .passesBy(_, let shape) = plan.take(frame(width, 64), target) else { return }
            events.append(shape.caps)
        }
        #expect(events.count == 3 && events.allSatisfy { $0 != nil && $0 === events[0] })
    }
}
