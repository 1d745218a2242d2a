// GObject classes written in Swift. This target sets the GType, its virtual methods, properties and signals; C never
// calls Swift functions by name. Each instance holds one retained Swift object behind its C struct.
internal import CGStreamer

/// The description of an element class, most of it visible in gst-inspect.
public struct ElementClass: Sendable {
    /// The class of GStreamer that the element extends.
    public enum Parent: Sendable {
        case element, bin
        /// GstVideoFilter; `make` must return a `VideoFilterImplementation`.
        case videoFilter
    }

    /// The name of the GType, unique in a process: begin it with a prefix of your own.
    public var typeName: String
    /// The class that it extends.
    public var parent: Parent
    /// A short name for users.
    public var longName: String
    /// The kind of element, such as "Filter/Effect/Video".
    public var classification: String
    /// One sentence about what it does.
    public var summary: String
    /// Name and address.
    public var author: String
    /// The page that describes the element, for the metadata `doc-uri`.
    public var documentation: String?
    /// The templates of its pads.
    public var pads: [PadTemplate]
    /// The properties that `g_object_set` and `gst-inspect-1.0` know.
    public var properties: [PropertySpec]
    /// The signals that it emits or, as actions, takes.
    public var signals: [SignalSpec]
    /// Makes the implementation of an instance, on the thread that creates the element.
    public var make: @Sendable (ElementHandle) -> any ElementImplementation

    /// Describes a class; `RegisteredElementClass` registers it.
    public init(
        typeName: String, parent: Parent, longName: String, classification: String, summary: String, author: String,
        documentation: String? = nil, pads: [PadTemplate], properties: [PropertySpec] = [], signals: [SignalSpec] = [],
        make: @escaping @Sendable (ElementHandle) -> any ElementImplementation
    ) {
        self.typeName = typeName
        self.parent = parent
        self.longName = longName
        self.classification = classification
        self.summary = summary
        self.author = author
        self.documentation = documentation
        self.pads = pads
        self.properties = properties
        self.signals = signals
        self.make = make
    }

    /// Returns this class with all properties and signals of another class added, except for names that it already has.
    /// `ProxiedElement` connects them to an instance of the other class.
    public func inheriting(_ other: ElementClass) -> ElementClass {
        var both = self
        both.properties += other.properties(besides: properties)
        both.signals += other.signals(besides: signals)
        return both
    }

    func properties(besides own: [PropertySpec]) -> [PropertySpec] {
        let names = Set(own.map(\.name))
        return properties.filter { !names.contains($0.name) }
    }

    func signals(besides own: [SignalSpec]) -> [SignalSpec] {
        let names = Set(own.map(\.name))
        return signals.filter { !names.contains($0.name) }
    }
}

/// A pad that elements of the class have or may get.
public struct PadTemplate: Sendable {
    /// The raw values are those of GstPadPresence.
    public enum Presence: UInt32, Sendable { case always, sometimes, request }
    /// The name; of request pads it may contain "%u".
    public var name: String
    /// The template's direction (`GstPadDirection`).
    public var direction: PadDirection
    /// When the element has the pad (`GstPadPresence`).
    public var presence: Presence
    /// The formats, as the text of caps.
    public var caps: String

    /// A template; `caps` are the text of caps.
    public init(name: String, direction: PadDirection, presence: Presence, caps: String) {
        self.name = name
        self.direction = direction
        self.presence = presence
        self.caps = caps
    }
}

/// A signal of an element class.
public struct SignalSpec: Sendable {
    /// The types of parameters and results.
    public enum Kind: Sendable { case boolean, int, uint, uint64, string, element, structure, bytes, array }
    /// The signal's name.
    public var name: String
    /// The types of the parameters.
    public var parameters: [Kind]
    /// The type of the result; nil: none.
    public var result: Kind?
    /// An action signal acts as a method: the application emits it and `actionSignal` implements it.
    public var isAction: Bool

    /// The application emits an action, and `actionSignal` handles it.
    public init(name: String, parameters: [Kind] = [], result: Kind? = nil, isAction: Bool = false) {
        self.name = name
        self.parameters = parameters
        self.result = result
        self.isAction = isAction
    }
}

/// The Swift side of one element instance. It is called on any thread and guards its own state.
public protocol ElementImplementation: AnyObject, Sendable {
    func setProperty(_ name: String, _ value: GValueBox)
    func property(_ name: String) -> GValueBox?
    /// Called once per g_object_set, whatever the number of properties, before `notify` is emitted for them.
    func propertiesChanged(_ names: [String])
    /// `chainUp` runs the parent class's state change. Call it exactly once, unless you refuse an upward state change.
    func changeState(_ change: StateChange, chainUp: () -> StateChangeReturn) -> StateChangeReturn
    /// The element has got another clock, or none.
    func clockChanged()
    /// Returns true if the event was sent, or nil to use the parent class's implementation.
    func sendEvent(_ event: Event) -> Bool?
    /// Bins only. Returns the message of a child to pass to the parent class, or nil to drop it.
    func handleMessage(_ message: Message) -> Message?
    func actionSignal(_ name: String, _ arguments: [GValueBox]) -> GValueBox?
    /// Returns a new pad for a request template, already added to the element; nil if no more pads are possible.
    func requestPad(template: String) -> Pad?
    /// Releases a request pad: the implementation must remove it from the element.
    func releasePad(_ pad: Pad)
}

extension ElementImplementation {
    /// Ignores the value.
    public func setProperty(_ name: String, _ value: GValueBox) {}
    /// Has no value.
    public func property(_ name: String) -> GValueBox? { nil }
    /// Does nothing.
    public func propertiesChanged(_ names: [String]) {}
    /// Only chains up.
    public func changeState(_ change: StateChange, chainUp: () -> StateChangeReturn) -> StateChangeReturn { chainUp() }
    /// Does nothing.
    public func clockChanged() {}
    /// Leaves the event to the parent class.
    public func sendEvent(_ event: Event) -> Bool? { nil }
    /// Passes the message on.
    public func handleMessage(_ message: Message) -> Message? { message }
    /// Has no result.
    public func actionSignal(_ name: String, _ arguments: [GValueBox]) -> GValueBox? { nil }
    /// Gives no pad.
    public func requestPad(template: String) -> Pad? { nil }
    /// Does nothing.
    public func releasePad(_ pad: Pad) {}
}

/// A step from one state to the next.
public enum StateChange: Sendable, Equatable {
    case nullToReady, readyToPaused, pausedToPlaying, playingToPaused, pausedToReady, readyToNull, other

    init(_ raw: GstStateChange) {
        switch raw {
        case GST_STATE_CHANGE_NULL_TO_READY: self = .nullToReady
        case GST_STATE_CHANGE_READY_TO_PAUSED: self = .readyToPaused
        case GST_STATE_CHANGE_PAUSED_TO_PLAYING: self = .pausedToPlaying
        case GST_STATE_CHANGE_PLAYING_TO_PAUSED: self = .playingToPaused
        case GST_STATE_CHANGE_PAUSED_TO_READY: self = .pausedToReady
        case GST_STATE_CHANGE_READY_TO_NULL: self = .readyToNull
        default: self = .other
        }
    }

    /// From NULL to READY or from READY to PAUSED: the element checks its settings and acquires what it needs.
    package var isStart: Bool { self == .nullToReady || self == .readyToPaused }
}

/// An implementation's access to its own element. It holds no reference, because the element owns the implementation.
// @unchecked: GStreamer elements do their own locking.
public struct ElementHandle: @unchecked Sendable {
    let raw: UnsafeMutableRawPointer
    /// The element without a reference. Use it only during calls into the implementation.
    public var unowned: Bin { Bin(unowned: raw) }
    /// The element with a reference, for work that moves to another thread.
    public var retained: Bin { Bin(borrowing: raw) }

    /// Creates a ghost pad without a target from one of the class's pad templates. Bins only.
    public func makeGhostPad(template name: String) -> GhostPad? {
        template(name).flatMap { gst_ghost_pad_new_no_target_from_template(name, $0) }.map { GhostPad(taking: $0) }
    }

    /// Creates a pad from one of the class's pad templates. Add it to the element.
    public func makePad(template name: String) -> Pad? {
        template(name).flatMap { gst_pad_new_from_template($0, name) }.map { Pad(taking: $0) }
    }

    private func template(_ name: String) -> UnsafeMutablePointer<GstPadTemplate>? {
        raw.assumingMemoryBound(to: GTypeInstance.self).pointee.g_class?
            .withMemoryRebound(to: GstElementClass.self, capacity: 1) { gst_element_class_get_pad_template($0, name) }
    }
}

extension Element {
    /// Creates an instance of a registered class, which needs no element factory.
    public convenience init(class elementClass: RegisteredElementClass) {
        self.init(taking: g_object_new_with_properties(elementClass.type, 0, nil, nil))
    }
}

/// An element class that GObject knows.
public struct RegisteredElementClass: Sendable {
    let type: GType

    /// Registers the class once per process; repeated calls return the same type.
    public init(_ elementClass: ElementClass) { type = registerType(elementClass) }

    /// True if this process has a GType of this name, of whatever library.
    public static func isTaken(typeName: String) -> Bool { g_type_from_name(typeName) != 0 }

    /// Adds a factory to a plugin, or to the process itself if `plugin` is nil (programs and tests).
    public func addFactory(_ name: String, rank: UInt32 = 0, to plugin: PluginHandle?) -> Bool {
        gst_element_register(plugin?.pointer, name, rank, type) != 0
    }
}

/// The plugin that GStreamer initialises.
// @unchecked: used only during the plugin's initialisation.
public struct PluginHandle: @unchecked Sendable {
    let pointer: OpaquePointer
}
