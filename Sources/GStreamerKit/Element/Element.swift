internal import CGStreamer

/// The states of an element, in their order.
public enum ElementState: Int, Sendable, Comparable {
    case null = 1
    case ready, paused, playing
    /// NULL is the least.
    public static func < (a: ElementState, b: ElementState) -> Bool { a.rawValue < b.rawValue }
    var raw: GstState { GstState(UInt32(rawValue)) }
    init(_ raw: GstState) { self = ElementState(rawValue: Int(raw.rawValue)) ?? .null }
}

/// The raw values are those of GstStateChangeReturn.
public enum StateChangeReturn: UInt32, Sendable {
    case failure, success, async, noPreroll
    init(_ raw: GstStateChangeReturn) { self = StateChangeReturn(rawValue: raw.rawValue) ?? .failure }
    var raw: GstStateChangeReturn { GstStateChangeReturn(rawValue) }
}

/// An element of GStreamer, with one reference. Any thread may call it, as far as GStreamer allows that.
public class Element: GObject, @unchecked Sendable {
    var element: UnsafeMutablePointer<GstElement> { raw.assumingMemoryBound(to: GstElement.self) }
    var gstObject: UnsafeMutablePointer<GstObject> { raw.assumingMemoryBound(to: GstObject.self) }

    /// Creates an element. If the factory is missing, the error names it.
    public convenience init(factory: String, name: String? = nil) throws(GStreamerError) {
        guard let made = gst_element_factory_make(factory, name) else {
            throw GStreamerError.missing(factory)
        }
        self.init(taking: made)
    }

    /// The name, which is unique within its bin.
    public var name: String { String(taking: gst_object_get_name(gstObject)) }

    /// The name of the factory that made it; nil: none did.
    public var factoryName: String? {
        gst_element_get_factory(element).map {
            String(taking: gst_object_get_name(UnsafeMutableRawPointer($0).assumingMemoryBound(to: GstObject.self)))
        }
    }

    /// Begins the change and may block in elements and drivers, so call it neither on a streaming thread nor in a task.
    @discardableResult
    public func setState(_ state: ElementState) -> StateChangeReturn {
        StateChangeReturn(gst_element_set_state(element, state.raw))
    }

    /// Returns the current state; waits at most `timeout` for a state change in progress.
    public func state(timeout: Duration = .zero) -> ElementState {
        var current = GST_STATE_NULL
        gst_element_get_state(element, &current, nil, timeout.clockTime)
        return ElementState(current)
    }

    /// The URI at which a source or sink is now, which a redirect may have changed; nil for other elements. **May have secrets.**
    package var location: String? {
        guard kit_instance_is(raw, gst_uri_handler_get_type()) != 0,
            let uri = gst_uri_handler_get_uri(OpaquePointer(raw))
        else { return nil }
        defer { g_free(uri) }
        return String(cString: uri)
    }

    /// Brings an element that was added to a running bin to the bin's state. Returns false if that fails.
    @discardableResult public func syncStateWithParent() -> Bool { gst_element_sync_state_with_parent(element) != 0 }
    /// Keeps the element's state when that of its bin changes.
    public func setLockedState(_ locked: Bool) { gst_element_set_locked_state(element, locked ? 1 : 0) }

    /// The pad of this name, if it exists already.
    public func staticPad(_ name: String) -> Pad? { gst_element_get_static_pad(element, name).map { Pad(taking: $0) } }
    /// A new pad of a request template; give it back with `releaseRequestPad`.
    public func requestPad(_ name: String) -> Pad? {
        gst_element_request_pad_simple(element, name).map { Pad(taking: $0) }
    }
    package func releaseRequestPad(_ pad: Pad) { gst_element_release_request_pad(element, pad.pad) }
    package func add(_ pad: Pad) { gst_element_add_pad(element, pad.pad) }
    /// Tells the application that waits for a sometimes pad that none comes for now.
    package func noMorePads() { gst_element_no_more_pads(element) }
    package func remove(_ pad: Pad) { gst_element_remove_pad(element, pad.pad) }

    /// Links compatible pads of both elements, which have the same parent.
    public func link(_ next: Element) throws(GStreamerError) {
        guard gst_element_link(element, next.element) != 0 else {
            throw GStreamerError(.linkFailed, "could not link \(name) to \(next.name)")
        }
    }

    /// True if a bin around the element, at any level, was made by this factory.
    public func isInside(factory name: String) -> Bool { isInside { $0.factoryName == name } }

    /// A bin around the element, at any level, is on its way down to READY or NULL. GStreamer takes a bin that is further down
    /// up to PAUSED first, and what is around it does not stop if that fails.
    package var isInsideStoppingBin: Bool {
        isInside { bin in
            let (current, next, target) = (
                bin.element.pointee.current_state, bin.element.pointee.next_state, bin.element.pointee.target_state
            )
            return next != GST_STATE_VOID_PENDING && target.rawValue < min(current.rawValue, GST_STATE_PAUSED.rawValue)
        }
    }

    private func isInside(_ isMeant: (Element) -> Bool) -> Bool {
        var parent = gst_object_get_parent(gstObject)
        while let object = parent {
            defer { gst_object_unref(object) }
            if kit_instance_is(object, kit_type_element()) != 0, isMeant(Element(borrowing: object)) {
                return true
            }
            parent = gst_object_get_parent(object)
        }
        return false
    }

    /// Removes the element from its bin, if it is in one. Its state does not change.
    public func removeFromParent() {
        guard let parent = gst_object_get_parent(gstObject) else { return }
        defer { gst_object_unref(parent) }
        if kit_instance_is(parent, gst_bin_get_type()) != 0 {
            gst_bin_remove(UnsafeMutableRawPointer(parent).assumingMemoryBound(to: GstBin.self), element)
        }
    }

    /// Sends an event into the element: a source takes those that go downstream, others take them at their sinks.
    @discardableResult public func send(_ event: Event) -> Bool {
        gst_element_send_event(element, event.copyReference()) != 0
    }

    package var providesClock: Bool {
        gstObject.pointee.flags & UInt32(GST_ELEMENT_FLAG_PROVIDE_CLOCK.rawValue) != 0
    }
    /// Keeps the pipeline from choosing this element's clock.
    package func provideNoClock() {
        gstObject.pointee.flags &= ~UInt32(GST_ELEMENT_FLAG_PROVIDE_CLOCK.rawValue)
    }

    /// The pipeline's current running time; nil without a clock.
    public var currentRunningTime: ClockTime? { ClockTime(validating: gst_element_get_current_running_time(element)) }
    /// The clock that the element uses; nil before PLAYING.
    public var currentClock: Clock? { gst_element_get_clock(element).map { Clock(taking: $0) } }
    /// The clock's time at running time 0, ns.
    public var baseTime: ClockTime { ClockTime(gst_element_get_base_time(element)) }

    /// Gives the element a clock of its own, whose running time begins now; nil takes it away.
    public func use(_ clock: Clock?) {
        gst_element_set_clock(element, clock?.raw.assumingMemoryBound(to: GstClock.self))
        if let clock { gst_element_set_base_time(element, GstClockTime(clock.time)) }
    }

    /// Sets a property `tls-database`: the authorities in a PEM file alone are trusted. Blocks, because it reads the file.
    package func setTLSDatabase(file: String) throws(GStreamerError) {
        var error: UnsafeMutablePointer<GError>?
        guard let database = g_tls_file_database_new(file, &error) else {
            let text =
                error.flatMap { $0.pointee.message }.map { String(cString: $0) } ?? "its certificates cannot be used"
            if let error { g_error_free(error) }
            throw GStreamerError(.badDescription, "ca-file: \(text)")
        }
        set("tls-database", GValueBox(object: GObject(taking: UnsafeMutableRawPointer(database))))
    }

    /// Posts a message on the bus. Call it without a lock: a handler may call back.
    public func post(_ message: Message) { gst_element_post_message(element, message.copyReference()) }
    /// Posts an element message.
    public func post(_ structure: Structure) { post(Message.element(self, structure)) }
}

/// An element that contains others.
public class Bin: Element, @unchecked Sendable {
    var bin: UnsafeMutablePointer<GstBin> { raw.assumingMemoryBound(to: GstBin.self) }

    /// An empty bin; without a name, GStreamer makes one.
    public convenience init(name: String? = nil) { self.init(taking: gst_bin_new(name)) }

    /// Builds a bin from a gst-launch description, with ghost pads for its unlinked pads if `ghostUnlinkedPads` is
    /// true. These include sink pads that wait for a sometimes pad, which can no longer be linked then.
    public convenience init(description: String, ghostUnlinkedPads: Bool) throws(GStreamerError) {
        let made = try Self.parsed {
            gst_parse_bin_from_description_full(
                description, ghostUnlinkedPads ? 1 : 0, nil, GST_PARSE_FLAG_FATAL_ERRORS, &$0)
        }
        self.init(taking: made)
    }

    fileprivate static func parsed<Made>(
        _ parse: (inout UnsafeMutablePointer<GError>?) -> UnsafeMutablePointer<Made>?
    ) throws(GStreamerError) -> UnsafeMutablePointer<Made> {
        var error: UnsafeMutablePointer<GError>?
        if let made = parse(&error) { return made }
        let text = error.flatMap { $0.pointee.message }.map { String(cString: $0) } ?? "not a pipeline description"
        if let error { g_error_free(error) }
        throw GStreamerError(.badDescription, text)
    }

    /// Adds an element, which must have no parent. Its state stays.
    public func add(_ child: Element) { gst_bin_add(bin, child.element) }
    /// Adds several elements.
    public func add(_ children: [Element]) { for child in children { add(child) } }
    /// Removes an element and unlinks it. Its state stays: set it to NULL before the last reference goes.
    public func remove(_ child: Element) { gst_bin_remove(bin, child.element) }

    /// Stops children and removes them. Their state is locked, or the bin could raise it again on its own way down.
    public func takeOut(_ children: [Element]) {
        for child in children {
            child.setLockedState(true)
            child.setState(.null)
        }
        for child in children { remove(child) }
    }

    /// The element of this name, also in bins inside.
    public func child(named name: String) -> Element? { gst_bin_get_by_name(bin, name).map { Element(taking: $0) } }

    /// Links each element to the next one.
    public func linkChain(_ elements: [Element]) throws(GStreamerError) {
        for (upstream, downstream) in zip(elements, elements.dropFirst()) { try upstream.link(downstream) }
    }

    /// Adds and links a chain of elements.
    /// - Returns: the pads at its ends.
    public func addAndLink(_ chain: [Element]) throws(GStreamerError) -> (sink: Pad, source: Pad) {
        add(chain)
        try linkChain(chain)
        guard let sink = chain.first?.staticPad("sink"), let source = chain.last?.staticPad("src") else {
            throw GStreamerError(.linkFailed, "a chain of elements has no pads at its ends")
        }
        return (sink, source)
    }

    /// Adds and links a chain of elements, and exposes its ends as the ghost pads "sink" and "src".
    public func hold(_ chain: [Element]) throws(GStreamerError) {
        let (sink, source) = try addAndLink(chain)
        add(try GhostPad(name: "sink", target: sink))
        add(try GhostPad(name: "src", target: source))
    }

    /// Adds and links a chain of elements in front of a pad, and starts them from their end.
    /// - Returns: the sink pad of the first one.
    @discardableResult
    public func insert(_ chain: [Element], before exit: Pad) throws(GStreamerError) -> Pad {
        let (sink, source) = try addAndLink(chain)
        try source.link(exit)
        for element in chain.reversed() { element.syncStateWithParent() }
        return sink
    }

    /// All descendants, child bins included.
    public var allElements: [Element] {
        GObject.all(of: gst_bin_iterate_recurse(bin)) { Element(borrowing: $0) }
    }

    /// Asks all sinks for their latency again. Not on a streaming thread.
    public func recalculateLatency() { gst_bin_recalculate_latency(bin) }
    /// The graph as text for Graphviz. It has the values of properties, which may be secrets.
    public func dotDescription() -> String {
        String(taking: gst_debug_bin_to_dot_data(bin, GST_DEBUG_GRAPH_SHOW_ALL))
    }

    /// Clears the bin's SOURCE and SINK flags and stops children from setting them.
    public func suppressSourceAndSinkFlags() {
        let flags = GST_ELEMENT_FLAG_SOURCE.rawValue | GST_ELEMENT_FLAG_SINK.rawValue
        gst_bin_set_suppressed_flags(bin, GstElementFlags(rawValue: flags))
        gstObject.pointee.flags &= ~UInt32(flags)
    }

    /// Sets the SOURCE flag permanently, whatever the children are, so that events sent to the pipeline's sources reach
    /// this bin.
    public func beSource() {
        suppressSourceAndSinkFlags()
        gstObject.pointee.flags |= UInt32(GST_ELEMENT_FLAG_SOURCE.rawValue)
    }
}

/// A bin with a bus, a clock and a running time.
public final class Pipeline: Bin, @unchecked Sendable {
    /// An empty pipeline; without a name, GStreamer makes one.
    public convenience init(name: String? = nil) { self.init(taking: gst_pipeline_new(name)) }

    /// Makes a pipeline from the text that `gst-launch-1.0` takes.
    public convenience init(description: String) throws(GStreamerError) {
        let made = try Self.parsed { gst_parse_launch_full(description, nil, GST_PARSE_FLAG_FATAL_ERRORS, &$0) }
        guard kit_instance_is(made, gst_pipeline_get_type()) != 0 else {
            gst_object_unref(made)
            throw GStreamerError(.badDescription, "the description is a single element, not a pipeline")
        }
        self.init(taking: made)
    }

    /// The pipeline's bus, with a reference of its own.
    public var bus: Bus { Bus(taking: gst_element_get_bus(element)) }
}

extension GValueBox {
    /// The object as an element; nil: it is something else.
    public var element: Element? {
        guard let found = object, kit_instance_is(found.raw, kit_type_element()) != 0 else { return nil }
        return Element(borrowing: found.raw)
    }
}

extension GObject {
    /// The value of a property that is an element.
    public func element(_ name: String) -> Element? { value(name)?.element }
}
