// GObject classes written in Swift. The GType, its virtual methods, properties and signals are all set from here: C
// never calls up into Swift by name. Each instance carries one retained Swift object behind its C struct.
internal import CGStreamer

/// What is fixed for all instances of an element: read by gst-inspect.
package struct ElementClass: Sendable {
    package enum Parent: Sendable {
        case element, bin
        /// What `make` gives is a `VideoFilterImplementation`.
        case videoFilter
    }

    package var typeName: String
    package var parent: Parent
    package var longName: String
    package var classification: String
    package var summary: String
    package var author: String
    package var pads: [PadTemplate]
    package var properties: [PropertySpec]
    package var signals: [SignalSpec]
    package var make: @Sendable (ElementHandle) -> any ElementImplementation

    package init(
        typeName: String, parent: Parent, longName: String, classification: String, summary: String, author: String,
        pads: [PadTemplate], properties: [PropertySpec] = [], signals: [SignalSpec] = [],
        make: @escaping @Sendable (ElementHandle) -> any ElementImplementation
    ) {
        self.typeName = typeName
        self.parent = parent
        self.longName = longName
        self.classification = classification
        self.summary = summary
        self.author = author
        self.pads = pads
        self.properties = properties
        self.signals = signals
        self.make = make
    }

    /// This class with all properties and signals of another one, whatever they are, but for names that it has itself.
    /// `CarriedElement` carries them out.
    package func carrying(_ other: ElementClass) -> ElementClass {
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

package struct PadTemplate: Sendable {
    package enum Presence: Sendable { case always, sometimes, request }
    package var name: String
    package var direction: PadDirection
    package var presence: Presence
    package var caps: String

    package init(name: String, direction: PadDirection, presence: Presence, caps: String) {
        self.name = name
        self.direction = direction
        self.presence = presence
        self.caps = caps
    }
}

package struct SignalSpec: Sendable {
    package enum Kind: Sendable { case boolean, int, uint, uint64, double, string, element, structure, bytes, array }
    package var name: String
    package var parameters: [Kind]
    package var result: Kind?
    /// An action signal is a method: the application emits it, `signal(_:arguments:)` carries it out.
    package var isAction: Bool

    package init(name: String, parameters: [Kind] = [], result: Kind? = nil, isAction: Bool = false) {
        self.name = name
        self.parameters = parameters
        self.result = result
        self.isAction = isAction
    }
}

/// The Swift side of one element instance. Called from any thread; it guards its own state.
package protocol ElementImplementation: AnyObject, Sendable {
    func setProperty(_ name: String, _ value: GValueBox)
    func property(_ name: String) -> GValueBox?
    /// Once after each g_object_set, whatever number of properties it set, before `notify` is emitted for them.
    func propertiesChanged(_ names: [String])
    /// `chainUp` is the parent class's change of state and must be called exactly once, but for a refused way up.
    func changeState(_ change: StateChange, chainUp: () -> StateChangeReturn) -> StateChangeReturn
    /// Whether the event was sent; nil = as the parent class does.
    func sendEvent(_ event: Event) -> Bool?
    /// A child's message: what goes on to the parent class, nil to swallow it. Bins only.
    func handleMessage(_ message: Message) -> Message?
    /// An action signal was emitted.
    func actionSignal(_ name: String, _ arguments: [GValueBox]) -> GValueBox?
    /// A pad of a request template was asked for: one that is added to the element already, nil when there can be no more.
    func requestPad(template: String) -> Pad?
    /// A requested pad is given back: it is to be removed from the element.
    func releasePad(_ pad: Pad)
}

extension ElementImplementation {
    package func setProperty(_ name: String, _ value: GValueBox) {}
    package func property(_ name: String) -> GValueBox? { nil }
    package func propertiesChanged(_ names: [String]) {}
    package func changeState(_ change: StateChange, chainUp: () -> StateChangeReturn) -> StateChangeReturn { chainUp() }
    package func sendEvent(_ event: Event) -> Bool? { nil }
    package func handleMessage(_ message: Message) -> Message? { message }
    package func actionSignal(_ name: String, _ arguments: [GValueBox]) -> GValueBox? { nil }
    package func requestPad(template: String) -> Pad? { nil }
    package func releasePad(_ pad: Pad) {}
}

package enum StateChange: Sendable, Equatable {
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
}

/// An implementation's way to its own element: no reference, for the element owns the implementation.
// @unchecked: GStreamer elements lock themselves.
package struct ElementHandle: @unchecked Sendable {
    let raw: UnsafeMutableRawPointer
    /// No reference is held: use it only while the implementation lives and is called.
    package var unowned: Bin { Bin(unowned: raw) }
    /// With a reference, for work that is handed to another thread.
    package var retained: Bin { Bin(borrowing: raw) }

    /// Makes a pad by one of the class's templates (a ghost pad without target for a bin).
    package func makeGhostPad(template name: String) -> GhostPad? {
        template(name).flatMap { gst_ghost_pad_new_no_target_from_template(name, $0) }.map { GhostPad(taking: $0) }
    }

    package func makePad(template name: String) -> Pad? {
        template(name).flatMap { gst_pad_new_from_template($0, name) }.map { Pad(taking: $0) }
    }

    private func template(_ name: String) -> UnsafeMutablePointer<GstPadTemplate>? {
        raw.assumingMemoryBound(to: GTypeInstance.self).pointee.g_class?
            .withMemoryRebound(to: GstElementClass.self, capacity: 1) { gst_element_class_get_pad_template($0, name) }
    }
}

extension Element {
    /// Makes an instance of a class that is registered but need not be an installed factory.
    package convenience init(class elementClass: RegisteredElementClass) {
        self.init(taking: g_object_new_with_properties(elementClass.type, 0, nil, nil))
    }
}

/// A class that has its GType.
package struct RegisteredElementClass: Sendable {
    let type: GType

    /// Registers once per process; asking again gives the same type.
    package init(_ elementClass: ElementClass) { type = registerType(elementClass) }

    /// Adds a factory to a plugin (nil = a static one of this process, for programs and tests).
    package func addFactory(_ name: String, rank: UInt32 = 0, to plugin: PluginHandle?) -> Bool {
        gst_element_register(plugin?.pointer, name, rank, type) != 0
    }
}

// @unchecked: only used during the plugin's initialisation.
package struct PluginHandle: @unchecked Sendable {
    let pointer: OpaquePointer
}
