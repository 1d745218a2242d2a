// Reads a file that the user named. The name is not trusted: it may lead to a pipe that never ends, a device, a
// directory, or a file that grows during the read.
#if canImport(Glibc)
    import Glibc
#endif

package enum BoundedFileError: Error, Sendable, Equatable, CustomStringConvertible {
    case notRegular
    case tooLarge
    /// The cause, as a phrase for the user.
    case system(String)

    package var description: String {
        switch self {
        case .notRegular: "it is not a regular file"
        case .tooLarge: "it is too large"
        case .system(let reason): reason
        }
    }
}

package enum BoundedFile {
    /// Reads a whole regular file; follows symbolic links. Never blocks on a pipe.
    package static func read(path: String, maximumSize: Int) throws(BoundedFileError) -> [UInt8] {
        guard !path.utf8.contains(0) else { throw .system("the path has a NUL character in it") }
        return try read(name: Array(path.utf8CString), maximumSize: maximumSize)
    }

    /// - Parameter name: a string of C, which need not be UTF-8.
    package static func read(name: [CChar], maximumSize: Int) throws(BoundedFileError) -> [UInt8] {
        // O_NONBLOCK: opening a pipe without a writer returns at once. O_NOCTTY: a terminal does not become our
        // controlling terminal.
        let descriptor = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { throw .system(reason(errno)) }
        defer { close(descriptor) }

        // Check the open descriptor, because the path may lead to another file by now.
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .system(reason(errno)) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
        guard status.st_size <= maximumSize else { throw .tooLarge }

        // Files below /proc report size 0 and any file may grow, so the limit applies to the bytes read.
        var content: [UInt8] = []
        content.reserveCapacity(Int(status.st_size))
        let chunkSize = 64 << 10
        while true {
            var count = 0
            let chunk = [UInt8](unsafeUninitializedCapacity: chunkSize) { buffer, initialized in
                count = Glibc.read(descriptor, buffer.baseAddress, chunkSize)
                initialized = max(count, 0)
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .system(reason(errno)) }
            if count == 0 { return content }
            guard content.count + count <= maximumSize else { throw .tooLarge }
            content += chunk
        }
    }

    private static func reason(_ code: Int32) -> String {
        switch code {
        case ENOENT: "no such file"
        case EACCES, EPERM: "permission denied"
        case EISDIR: "it is a directory"
        case ENOTDIR: "a part of the path is not a directory"
        case ELOOP: "too many symbolic links"
        case ENAMETOOLONG: "the path is too long"
        case EMFILE, ENFILE: "too many open files"
        default: "system error \(code)"
        }
    }
}
