internal import Synchronization

/// Proxies the properties and signals of a child element on its parent (`ElementClass.inheriting`): setting, reading,
/// emitting and notifying on one also takes effect on the other. No property or signal is listed by name, so the parent
/// gains whatever is added to the child's class.
package final class ProxiedElement: Sendable {
    package let element: Element
    private let carrier: ElementHandle
    private let properties: [String: PropertySpec]
    private let signals: [String: SignalSpec]

    private struct State {
        var answering: [SignalHandler] = []
    }
    private let state = Mutex(State())

    /// - Parameter own: the parent's class without the child's properties and signals.
    package init(_ element: Element, of elementClass: ElementClass, in carrier: ElementHandle, own: ElementClass) {
        self.element = element
        self.carrier = carrier
        let specs = elementClass.properties(besides: own.properties)
        let inherited = elementClass.signals(besides: own.signals)
        properties = Dictionary(specs.map { ($0.name, $0) }) { first, _ in first }
        signals = Dictionary(inherited.map { ($0.name, $0) }) { first, _ in first }
        for spec in specs where spec.access != .writeOnly {
            element.connect("notify::\(spec.name)") { [weak self] _ in
                // While the application sets the property on the parent, GObject merges this with the parent's own.
                self?.carrier.unowned.notify(spec.name)
                return nil
            }
        }
        for signal in inherited where !signal.isAction && signal.result == nil { passOn(signal) }
    }

    @discardableResult private func passOn(_ signal: SignalSpec) -> SignalHandler {
        element.connect(signal.name) { [weak self] arguments in self?.carrier.unowned.emit(signal.name, arguments) }
    }

    // MARK: Properties

    package func has(property name: String) -> Bool { properties[name] != nil }

    /// The child notifies at once, so that nothing is held back for a `notify` of the parent, which need not come. What the
    /// child does once for all properties of one g_object_set, the parent's `propertiesChanged` has to start.
    package func set(_ name: String, _ value: GValueBox) { element.set(name, value) }

    package func value(_ name: String) -> GValueBox? { element.value(name) }

    // MARK: Signals

    package func has(signal name: String) -> Bool { signals[name] != nil }

    package func emit(_ name: String, _ arguments: [GValueBox]) -> GValueBox? { element.emit(name, arguments) }

    /// Forwards the signals that return a value, but only those that have a handler on the parent: the child checks for
    /// handlers of its own before it emits. Call it before the child starts.
    package func connectAnsweredSignals() {
        disconnectAnsweredSignals()
        let parent = carrier.unowned
        let wanted = signals.values.filter { !$0.isAction && $0.result != nil && parent.hasHandler($0.name) }
        let handlers = wanted.map { passOn($0) }
        state.withLock { $0.answering = handlers }
    }

    package func disconnectAnsweredSignals() {
        for handler in state.withLock({ exchange(&$0.answering, with: []) }) { element.disconnect(handler) }
    }
}
