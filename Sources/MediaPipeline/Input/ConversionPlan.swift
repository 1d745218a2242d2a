// Decides, behind the queue of the input, whether a frame goes through the chain of GStreamer elements or bypasses it,
// and which caps and geometry that chain needs before the frame. A value: it knows no pad and no thread.
package import GStreamerKit

package struct ConversionPlan {
    /// Size and fit of the converted frames.
    package struct Target: Sendable {
        package var size = (width: 1280, height: 704)
        package var fit = Fit.crop

        package init() {}

        package init(width: Int, height: Int, fit: Fit) { (size, self.fit) = ((width, height), fit) }
    }

    /// Caps and size of frames that leave.
    package struct Shape {
        package var caps: Event?
        package var size = (width: 0, height: 0)

        package init() {}
    }

    package enum Step {
        /// The frame is not of the present caps.
        case lost
        /// It leaves as it is, or scaled.
        case passesBy(FrameScaler?, Shape)
        case needsElements
    }

    /// Size, fit, rotation and interlacing for which the elements of the chain are configured.
    package struct Geometry {
        package let target: Target
        package let rotation: ImageRotation
        package let input: VideoInfo?
        /// All frames are interlaced, although no flag says so.
        package let isUnflagged: Bool
    }

    private var target = Target()
    private var rotation = ImageRotation.none
    private var input: VideoInfo?
    private var caps: Event?
    /// A frame of these caps was flagged as interlaced, so that the others are not.
    private var hasInterlaceFlags = false
    private var isChanged = true
    private var route = InputRoute.elements
    /// For the route `.scaler` only.
    private var scaler: FrameScaler?
    private var direct = Shape()
    /// The elements have the geometry of earlier frames.
    private var isStale = true
    /// Caps that the elements have not got, because no frame of them has needed the elements.
    private var held: Event?
    private var passesHeld = false

    package init() {}

    package mutating func turn(_ rotation: ImageRotation) { (self.rotation, isChanged) = (rotation, true) }

    /// The elements negotiate for longer than a frame lasts. An input whose caps change with every frame gets through all
    /// the same if none needs them.
    /// - Parameter isFirst: the elements have no caps.
    /// - Returns: false if the elements do not get the caps now.
    package mutating func take(caps event: Event, isFirst: Bool, _ target: Target) -> Bool {
        guard let caps = event.caps, let info = VideoInfo(caps: caps) else { return true }
        // Setting the crop makes upstream send its caps again; to react to those would loop forever.
        if self.caps?.caps != caps {
            (self.caps, input, hasInterlaceFlags, isChanged) = (event, info, false, true)
        }
        decide(target)
        let isForElements = isFirst || passesHeld || route == .elements
        held = isForElements ? nil : event
        return isForElements
    }

    package mutating func take(_ frame: Buffer, _ target: Target) -> Step {
        if input?.shortage(of: frame) != nil { return .lost }
        if !hasInterlaceFlags, frame.isInterlaced, input?.isMixed == true {
            (hasInterlaceFlags, isChanged) = (true, true)
        }
        decide(target)
        switch route {
        case .elements: return .needsElements
        case .unchanged: return .passesBy(nil, direct)
        case .scaler: return .passesBy(scaler, direct)
        }
    }

    /// Returns the caps that the elements need in front of the next frame; `endHeld` follows once they have them.
    package mutating func beginHeld() -> Event? {
        passesHeld = held != nil
        return held
    }

    package mutating func endHeld() { passesHeld = false }

    /// Returns the geometry of the next frame that goes through the elements; nil if they have it.
    package mutating func takeGeometry() -> Geometry? {
        guard exchange(&isStale, with: false) else { return nil }
        return Geometry(
            target: target, rotation: rotation, input: input,
            isUnflagged: input?.isMixed == true && !hasInterlaceFlags)
    }

    private mutating func decide(_ target: Target) {
        if target.size != self.target.size || target.fit != self.target.fit {
            (self.target, isChanged) = (target, true)
        }
        guard exchange(&isChanged, with: false) else { return }
        (isStale, route, scaler, direct.size) = (true, .elements, nil, target.size)
        guard let input, let own = caps?.caps else { return }
        route = InputRoute(own, input, target: target.size, fit: target.fit, rotation: rotation)
        guard case .scaler(let placement) = route else {
            direct.caps = caps
            return
        }
        let format = OutputFormat(width: target.size.width, height: target.size.height, framerate: input.framerate)
        let sent = try? Caps(format.capsText)
        scaler = sent.flatMap(VideoInfo.init(caps:)).flatMap { FrameScaler(input, to: $0, placement) }
        // The same event stays, or a processor would negotiate again.
        if direct.caps?.caps != sent { direct.caps = sent.map(Event.caps) }
        if scaler == nil { route = .elements }
    }
}
