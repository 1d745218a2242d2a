// Protobuf's JSON form of a message, from the names and types of its Swift properties: the names in LiveKit's own JSON are
// compared with them. Case and underscores differ between the two ("PTF_FRAME_ID" is `ptfFrameID`), so both lose them.
import DecartProtocol
import LiveKitProtocol

extension JSONValue {
    init(reflecting value: Any) {
        switch value {
        case let text as String: self = .string(text)
        case let flag as Bool: self = .bool(flag)
        case let number as UInt32: self = .integer(Int(number))
        case let number as Int32: self = .integer(Int(number))
        case let number as Int64: self = .string("\(number)")
        case let name as any OpenEnum: self = name.unrecognizedNumber.map { .integer(Int($0)) } ?? .string("\(name)")
        case let data as WireData: self = .string(Base64.encode(data.wrappedValue))
        case let map as [String: String]: self = .object(map.map { Field($0.key, .string($0.value)) })
        case let list as [Any]: self = .array(list.map(Self.init(reflecting:)))
        default: self = .object(Mirror(reflecting: value).children.compactMap(Self.field))
        }
    }

    /// Returns nil for a property that JSON leaves out: absent, or with its default value.
    private static func field(_ property: Mirror.Child) -> Field? {
        guard let label = property.label, label != "unknownFields" else { return nil }
        let name = label.hasPrefix("_") ? String(label.dropFirst()) : label
        switch property.value {
        case let submessage as any Present: return submessage.message.map { Field(name, JSONValue(reflecting: $0)) }
        case let value as any WireValue where value.isDefault: return nil
        case let map as [String: String] where map.isEmpty: return nil
        case let list as [Any] where list.isEmpty: return nil
        default: break
        }
        let mirror = Mirror(reflecting: property.value)
        guard mirror.displayStyle == .optional else { return Field(name, JSONValue(reflecting: property.value)) }
        // A oneof is an optional enum, whose case has the name.
        guard let oneOf = mirror.children.first?.value, let chosen = Mirror(reflecting: oneOf).children.first else {
            return nil
        }
        return Field(chosen.label ?? "", JSONValue(reflecting: chosen.value))
    }

    var withoutSpelling: JSONValue {
        switch self {
        case .string(let text): .string(Self.plain(text))
        case .array(let list): .array(list.map(\.withoutSpelling))
        case .object(let fields):
            .object(
                fields.map { Field(Self.plain($0.name), $0.value.withoutSpelling) }.sorted { $0.name < $1.name })
        case .null, .bool, .number: self
        }
    }

    private static func plain(_ text: String) -> String { text.lowercased().filter { $0 != "_" } }
}

extension WireValue {
    fileprivate var isDefault: Bool { self == Self() }
}

private protocol Present {
    var message: Any? { get }
}

extension Submessage: Present {
    fileprivate var message: Any? { projectedValue }
}
