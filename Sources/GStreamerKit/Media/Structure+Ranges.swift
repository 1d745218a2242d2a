internal import CGStreamer

/// A non-negative fraction, such as a frame rate.
public struct Fraction: Sendable, Equatable, Comparable, CustomStringConvertible {
    /// The upper number.
    public var numerator: Int
    /// The lower number, at least 1.
    public var denominator: Int

    /// A fraction; a denominator below 1 becomes 1.
    public init(_ numerator: Int, _ denominator: Int) {
        self.numerator = max(0, numerator)
        self.denominator = max(1, denominator)
    }

    /// The quotient.
    public var value: Double { Double(numerator) / Double(denominator) }
    /// As in caps: "30/1".
    public var description: String { "\(numerator)/\(denominator)" }
    /// Compares the quotients.
    // Caps fields have 32 bits, so the products fit.
    public static func < (a: Fraction, b: Fraction) -> Bool {
        a.numerator &* b.denominator < b.numerator &* a.denominator
    }
    public static func == (a: Fraction, b: Fraction) -> Bool {
        a.numerator &* b.denominator == b.numerator &* a.denominator
    }
}

extension Structure {
    /// The values that an integer field allows; a single value is a range of one.
    public func integers(_ field: String) -> [ClosedRange<Int>] { alternatives(field, integerRange) }
    /// The values or ranges that a field allows.
    public func fractions(_ field: String) -> [ClosedRange<Fraction>] { alternatives(field, fractionRange) }
    /// The texts that a field allows.
    public func strings(_ field: String) -> [String] { alternatives(field) { GValueBox(copying: $0).string } }

    private func alternatives<Item>(_ field: String, _ read: (UnsafePointer<GValue>) -> Item?) -> [Item] {
        guard let value = gst_structure_get_value(pointer, field) else { return [] }
        guard kit_value_holds(value, gst_value_list_get_type()) != 0 else { return read(value).map { [$0] } ?? [] }
        return (0..<gst_value_list_get_size(value)).compactMap { gst_value_list_get_value(value, $0).flatMap(read) }
    }
}

private func integerRange(_ value: UnsafePointer<GValue>) -> ClosedRange<Int>? {
    if kit_value_holds(value, kit_type_int()) != 0 {
        let number = Int(g_value_get_int(value))
        return number...number
    }
    guard kit_value_holds(value, gst_int_range_get_type()) != 0 else { return nil }
    let (low, high) = (Int(gst_value_get_int_range_min(value)), Int(gst_value_get_int_range_max(value)))
    return low <= high ? low...high : nil
}

private func fractionRange(_ value: UnsafePointer<GValue>) -> ClosedRange<Fraction>? {
    func fraction(_ value: UnsafePointer<GValue>) -> Fraction {
        Fraction(Int(gst_value_get_fraction_numerator(value)), Int(gst_value_get_fraction_denominator(value)))
    }
    if kit_value_holds(value, gst_fraction_get_type()) != 0 {
        let number = fraction(value)
        return number...number
    }
    guard kit_value_holds(value, gst_fraction_range_get_type()) != 0,
        let low = gst_value_get_fraction_range_min(value).map(fraction),
        let high = gst_value_get_fraction_range_max(value).map(fraction), low <= high
    else { return nil }
    return low...high
}

extension Structure {
    /// Sets a field.
    public func set(_ field: String, fraction: Fraction) {
        let box = GValueBox(type: gst_fraction_get_type())
        box.withMutablePointer {
            gst_value_set_fraction($0, Int32(clamping: fraction.numerator), Int32(clamping: fraction.denominator))
        }
        self[field] = box
    }
}
