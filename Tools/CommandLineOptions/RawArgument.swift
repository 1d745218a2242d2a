import Glibc

/// An argument of the command line as the process received it: bytes that need not be UTF-8, such as a file's name.
package struct RawArgument: Sendable, Equatable, CustomStringConvertible {
    /// The bytes with a NUL at their end, for functions of C.
    package let bytes: [CChar]

    /// The text of the argument, or nil if it is not UTF-8.
    package var text: String? { String(validating: units, as: UTF8.self) }
    /// The text for messages.
    package var description: String { String(decoding: units, as: UTF8.self) }

    private var units: [UInt8] { bytes.dropLast().map { UInt8(bitPattern: $0) } }

    package init(_ text: String) { bytes = Array(text.utf8CString) }

    /// - Parameter bytes: with a NUL at their end.
    package init(bytes: [CChar]) { self.bytes = bytes }

    /// The arguments of this process, without the name of the program.
    package static var ofProcess: [RawArgument] {
        let arguments = UnsafeBufferPointer(start: CommandLine.unsafeArgv, count: Int(CommandLine.argc))
        return arguments.dropFirst().compactMap {
            $0.map { RawArgument(bytes: Array(UnsafeBufferPointer(start: $0, count: strlen($0) + 1))) }
        }
    }
}
