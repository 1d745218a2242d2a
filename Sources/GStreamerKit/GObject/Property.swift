/// The value whose fields a property table reads and writes. A fresh value holds the defaults.
public protocol PropertyStorage: Sendable {
    /// The element that applies a change at once.
    associatedtype Owner = Never
    init()
}

/// An enumeration that GObject knows: the raw value is the nick, the position in `allCases` the number.
public protocol PropertyEnumeration: CaseIterable, RawRepresentable, Equatable, Sendable where RawValue == String {
    static var typeName: String { get }
    var blurb: String { get }
}

extension PropertyEnumeration {
    var number: Int { Self.allCases.enumerated().first { $0.element == self }?.offset ?? 0 }

    init?(number: Int) {
        guard let match = Self.allCases.enumerated().first(where: { $0.offset == number })?.element else { return nil }
        self = match
    }

    static func kind(default value: Self) -> PropertySpec.Kind {
        .enumeration(
            type: typeName, values: allCases.enumerated().map { ($0.offset, $0.element.rawValue, $0.element.blurb) },
            default: value.number)
    }
}

extension GValueBox {
    /// The value of an enumeration.
    public convenience init<Value: PropertyEnumeration>(_ value: Value) {
        self.init(enumeration: Value.typeName, value.number)
    }
}

/// One property: what gst-inspect shows, and the field of the storage that holds the value. Its default is the field's
/// value in fresh storage.
public struct Property<Storage: PropertyStorage>: Sendable {
    /// Reads the property from the storage; nil: it has no value.
    public typealias Getter = @Sendable (Storage) -> GValueBox?
    /// Stores a value, whose type and range GObject has checked.
    public typealias Setter = @Sendable (inout Storage, GValueBox) -> Void

    /// What `gst-inspect-1.0` shows.
    public private(set) var spec: PropertySpec
    let get: Getter?
    let set: Setter?
    private(set) var apply: (@Sendable (Storage.Owner) -> Void)?

    /// A property with accessors of one's own; without a setter it is to be read only.
    public init(_ spec: PropertySpec, get: Getter? = nil, set: Setter? = nil) {
        (self.spec, self.get, self.set) = (spec, get, set)
    }

    /// The property may change in PLAYING: `apply` runs after the new value is stored, on the thread that sets it.
    public func playing(_ apply: @escaping @Sendable (Storage.Owner) -> Void) -> Property {
        var property = onChange(apply)
        property.spec.mutability = .playing
        return property
    }

    /// Runs `apply` at each change, in any state.
    public func onChange(_ apply: @escaping @Sendable (Storage.Owner) -> Void) -> Property {
        var property = self
        property.apply = apply
        return property
    }
}

/// The kinds of properties. GObject checks type and range of a value before a setter gets it.
extension Property {
    /// The field that holds the value.
    public typealias Path<Value> = any WritableKeyPath<Storage, Value> & Sendable

    /// A Boolean.
    public static func boolean(_ name: String, _ path: Path<Bool>, nick: String, blurb: String) -> Property {
        stored(name, nick, blurb, path, { .boolean(default: $0) }, { GValueBox($0) }, { $0.bool })
    }

    /// A gint within a range.
    public static func int(
        _ name: String, _ path: Path<Int>, in range: ClosedRange<Int>, nick: String, blurb: String
    ) -> Property {
        stored(name, nick, blurb, path, { .int(range, default: $0) }, { GValueBox(int: $0) }, { $0.int })
    }

    /// A guint within a range.
    public static func uint(
        _ name: String, _ path: Path<Int>, in range: ClosedRange<Int>, nick: String, blurb: String
    ) -> Property {
        stored(name, nick, blurb, path, { .uint(range, default: $0) }, { GValueBox(uint: $0) }, { $0.int })
    }

    /// A duration as a whole number of units, for GObject has no type for it.
    public static func duration(
        _ name: String, _ path: Path<Duration>, of unit: Duration, in range: ClosedRange<Int>, nick: String,
        blurb: String
    ) -> Property {
        let count = { @Sendable (duration: Duration) in Int((duration / unit).rounded()) }
        return stored(
            name, nick, blurb, path, { .uint(range, default: count($0)) }, { GValueBox(uint: count($0)) },
            { $0.int.map { unit * $0 } })
    }

    /// An enumeration.
    public static func enumeration<Value: PropertyEnumeration>(
        _ name: String, _ path: Path<Value>, nick: String, blurb: String
    ) -> Property {
        stored(
            name, nick, blurb, path, Value.kind(default:), { GValueBox($0) }, { $0.int.flatMap(Value.init(number:)) })
    }

    /// A field that always has a value. A GValue of another type sets the default.
    private static func stored<Value>(
        _ name: String, _ nick: String, _ blurb: String, _ path: Path<Value>, _ kind: (Value) -> PropertySpec.Kind,
        _ box: @escaping @Sendable (Value) -> GValueBox, _ unbox: @escaping @Sendable (GValueBox) -> Value?
    ) -> Property {
        Property(
            PropertySpec(name, nick: nick, blurb: blurb, kind(Storage()[keyPath: path])),
            get: { box($0[keyPath: path]) },
            set: { $0[keyPath: path] = unbox($1) ?? Storage()[keyPath: path] })
    }

    /// A text. `empty` is what NULL and "" stand for; without it, NULL is the default and "" a value. `shown` makes what a
    /// reader gets, such as a URL without its credentials.
    public static func string(
        _ name: String, _ path: Path<String>, empty: String? = nil, nick: String, blurb: String,
        shown: @escaping @Sendable (String) -> String = { $0 }
    ) -> Property {
        let initial = Storage()[keyPath: path]
        return Property(
            PropertySpec(name, nick: nick, blurb: blurb, .string(default: initial)),
            get: { GValueBox(shown($0[keyPath: path])) },
            set: { storage, value in
                let text = value.string ?? empty ?? initial
                storage[keyPath: path] = text.isEmpty ? empty ?? text : text
            })
    }

    /// A text that can be NULL, for which a text counts that `isUnset` accepts. `shown` makes what a reader gets, such as a
    /// URL without its credentials.
    public static func optionalString(
        _ name: String, _ path: Path<String?>, nick: String, blurb: String,
        isUnset: @escaping @Sendable (String) -> Bool = { $0.isEmpty },
        shown: @escaping @Sendable (String) -> String = { $0 }
    ) -> Property {
        Property(
            PropertySpec(name, nick: nick, blurb: blurb, .string(default: nil)),
            get: { GValueBox($0[keyPath: path].map(shown)) },
            set: { storage, value in storage[keyPath: path] = value.string.flatMap { isUnset($0) ? nil : $0 } })
    }

    /// A GstValueArray of strings.
    public static func strings(
        _ name: String, _ path: Path<[String]>, nick: String, blurb: String,
        shown: @escaping @Sendable (String) -> String = { $0 }
    ) -> Property {
        Property(
            PropertySpec(name, nick: nick, blurb: blurb, .strings),
            get: { GValueBox(strings: $0[keyPath: path].map(shown)) }, set: { $0[keyPath: path] = $1.strings ?? [] })
    }
}

/// Read-only properties that show a state. Their default is what a fresh state shows.
extension Property {
    /// A property that the application only reads.
    public static func readOnly<Value>(
        _ name: String, nick: String, blurb: String, _ kind: (_ default: Value) -> PropertySpec.Kind,
        _ box: @escaping @Sendable (Value) -> GValueBox, _ shown: @escaping @Sendable (Storage) -> Value
    ) -> Property {
        Property(
            PropertySpec(name, nick: nick, blurb: blurb, kind(shown(Storage())), access: .readOnly),
            get: { box(shown($0)) })
    }

    /// An enumeration that the application only reads.
    public static func enumeration<Value: PropertyEnumeration>(
        _ name: String, nick: String, blurb: String, _ shown: @escaping @Sendable (Storage) -> Value
    ) -> Property {
        readOnly(name, nick: nick, blurb: blurb, Value.kind(default:), { GValueBox($0) }, shown)
    }
}

/// The properties of an element class by name.
public struct PropertyTable<Storage: PropertyStorage>: Sendable {
    /// The properties for `ElementClass`.
    public let specs: [PropertySpec]
    private let byName: [String: Property<Storage>]

    /// A table of properties, whose names are unique.
    public init(_ properties: [Property<Storage>]) {
        specs = properties.map(\.spec)
        byName = Dictionary(properties.map { ($0.spec.name, $0) }) { first, _ in first }
    }

    /// Does nothing for a property that is not in the table or that the element sets itself.
    public func set(_ name: String, _ value: GValueBox, in storage: inout Storage) {
        byName[name]?.set?(&storage, value)
    }

    /// Runs what `playing` or `onChange` of the property has.
    public func apply(_ name: String, to owner: Storage.Owner) { byName[name]?.apply?(owner) }

    /// Names of the properties that read differently, except those that emit no `notify`.
    public func changes(from before: Storage, to now: Storage) -> [String] {
        specs.filter { !$0.isPrivate && value($0.name, in: before) != value($0.name, in: now) }.map(\.name)
    }

    /// Returns nil for a property that is not in the table, cannot be read, or that the element answers itself.
    public func value(_ name: String, in storage: Storage) -> GValueBox? { byName[name]?.get?(storage) }
}
