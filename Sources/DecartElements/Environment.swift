import Glibc

enum Environment {
    /// A copy of the variable's value, taken when asked.
    static func value(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}
