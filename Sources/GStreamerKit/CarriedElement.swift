internal import Synchronization

/// A child whose properties and signals its parent's class carries (`ElementClass.carrying`): what is set, read, emitted or
/// heard on the one happens on the other. Nothing is listed by name, so that what the child's class gains the parent has.
package final class CarriedElement: Sendable {
    package let element: Element
    private let carrier: ElementHandle
    private let properties: [String: PropertySpec]
    private let signals: [String: SignalSpec]

    private struct State {
        /// How often the child's notifications are held back until the parent's come, by the property that was set.
        var frozen: [String: Int] = [:]
        var answering: [SignalHandler] = []
    }
    private let state = Mutex(State())

    /// - Parameter own: the carrier's class before it carried anything.
    package init(_ element: Element, of elementClass: ElementClass, in carrier: ElementHandle, own: ElementClass) {
        self.element = element
        self.carrier = carrier
        let specs = elementClass.properties(besides: own.properties)
        let told = elementClass.signals(besides: own.signals)
        properties = Dictionary(specs.map { ($0.name, $0) }) { first, _ in first }
        signals = Dictionary(told.map { ($0.name, $0) }) { first, _ in first }
        // What can be set is told by whoever sets it; the rest changes in the child alone.
        for spec in specs where spec.access == .readOnly {
            element.connect("notify::\(spec.name)") { [weak self] _ in
                self?.carrier.unowned.notify(spec.name)
                return nil
            }
        }
        for signal in told where !signal.isAction && signal.result == nil { passOn(signal) }
    }

    @discardableResult private func passOn(_ signal: SignalSpec) -> SignalHandler {
        element.connect(signal.name) { [weak self] arguments in self?.carrier.unowned.emit(signal.name, arguments) }
    }

    // MARK: Properties

    package func has(property name: String) -> Bool { properties[name] != nil }

    package func set(_ name: String, _ value: GValueBox) {
        // One g_object_set on the parent is one on the child, whose end is told by `propertiesChanged`. Of what cannot be
        // read GObject tells nothing.
        if properties[name]?.access == .readWrite {
            state.withLock { $0.frozen[name, default: 0] += 1 }
            element.freezeNotifications()
        }
        element.set(name, value)
    }

    package func value(_ name: String) -> GValueBox? { element.value(name) }

    /// To be called by the parent's method of this name.
    package func propertiesChanged(_ names: [String]) {
        let frozen = state.withLock { state in names.reduce(0) { $0 + (state.frozen.removeValue(forKey: $1) ?? 0) } }
        for _ in 0..<frozen { element.thawNotifications() }
    }

    // MARK: Signals

    package func has(signal name: String) -> Bool { signals[name] != nil }

    package func emit(_ name: String, _ arguments: [GValueBox]) -> GValueBox? { element.emit(name, arguments) }

    /// To be called before the child starts: a signal that wants an answer is passed on where somebody would give one, for
    /// the child asks whether somebody does.
    package func connectAnsweredSignals() {
        disconnectAnsweredSignals()
        let parent = carrier.unowned
        let wanted = signals.values.filter { !$0.isAction && $0.result != nil && parent.hasHandler($0.name) }
        let handlers = wanted.map { passOn($0) }
        state.withLock { $0.answering = handlers }
    }

    package func disconnectAnsweredSignals() {
        let handlers = state.withLock { state in
            defer { state.answering = [] }
            return state.answering
        }
        for handler in handlers { element.disconnect(handler) }
    }
}
