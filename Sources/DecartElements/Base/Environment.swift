import Glibc

enum Environment {
    /// Returns a copy of the variable's current value; nil if it is unset or empty.
    static func value(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}
