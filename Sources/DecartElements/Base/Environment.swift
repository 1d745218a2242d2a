import Glibc

enum Environment {
    /// Returns a copy of the variable's current value; nil if it is unset.
    static func value(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}
