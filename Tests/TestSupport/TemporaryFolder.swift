import Glibc

/// A temporary folder, removed with its files when the body returns.
package struct TemporaryFolder {
    package let root: String

    package struct Failure: Error {}

    package static func with(_ body: (TemporaryFolder) throws -> Void) throws {
        var template = Array("/tmp/decart-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure() }
        let folder = TemporaryFolder(
            root: String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self))
        defer { folder.remove() }
        try body(folder)
    }

    package func path(_ name: String) -> String { root + "/" + name }

    package func write(_ name: String, _ bytes: [UInt8]) throws -> String {
        let descriptor = open(path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failure() }
        defer { close(descriptor) }
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else { throw Failure() }
        return path(name)
    }

    /// Creates a file of the given size that takes no disk space.
    package func makeSparse(_ name: String, size: Int) throws -> String {
        let descriptor = open(path(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failure() }
        defer { close(descriptor) }
        guard ftruncate(descriptor, size) == 0 else { throw Failure() }
        return path(name)
    }

    private func remove() {
        if let folder = opendir(root) {
            while let entry = readdir(folder) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                }
                unlink(path(name))
            }
            closedir(folder)
        }
        rmdir(root)
    }
}

/// Reads a file of at most 1 MiB.
package func readFile(_ path: String) throws -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw TemporaryFolder.Failure() }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    let count = Glibc.read(descriptor, &bytes, bytes.count)
    guard count >= 0 else { throw TemporaryFolder.Failure() }
    return Array(bytes[..<count])
}
