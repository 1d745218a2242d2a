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
        /// Nested notification freezes of the child, by the name of the property that was set on the parent.
        var frozen: [String: Int] = [:]
        /// Properties of which the parent is about to emit `notify` itself, by the number of threads that do so.
        var notifying: [String: Int] = [:]
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
                self?.childNotified(spec.name)
                return nil
            }
        }
        for signal in inherited where !signal.isAction && signal.result == nil { passOn(signal) }
    }

    /// GObject notifies a property on the parent where the application sets it there; this adds the child's own
    /// changes.
    private func childNotified(_ name: String) {
        guard state.withLock({ $0.notifying[name, default: 0] == 0 }) else { return }
        carrier.unowned.notify(name)
    }

    @discardableResult private func passOn(_ signal: SignalSpec) -> SignalHandler {
        element.connect(signal.name) { [weak self] arguments in self?.carrier.unowned.emit(signal.name, arguments) }
    }

    // MARK: Properties

    package func has(property name: String) -> Bool { properties[name] != nil }

    package func set(_ name: String, _ value: GValueBox) {
        // Merge the notifications of one g_object_set on the parent into one on the child: `propertiesChanged` thaws
        // them. GObject emits no `notify` for a property that cannot be read, so there would be no thaw.
        if properties[name]?.access == .readWrite {
            state.withLock { $0.frozen[name, default: 0] += 1 }
            element.freezeNotifications()
        }
        element.set(name, value)
    }

    package func value(_ name: String) -> GValueBox? { element.value(name) }

    /// The parent's `propertiesChanged` must call this.
    package func propertiesChanged(_ names: [String]) {
        let frozen = state.withLock { state in
            for name in names { state.notifying[name, default: 0] += 1 }
            return names.reduce(0) { $0 + (state.frozen.removeValue(forKey: $1) ?? 0) }
        }
        for _ in 0..<frozen { element.thawNotifications() }
        state.withLock { state in for name in names { state.notifying[name, default: 1] -= 1 } }
    }

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
