import Glibc

/// A temporary folder, removed with its files when the body returns.
struct TemporaryFolder {
    let root: String

    struct Failure: Error {}

    static func with(_ body: (TemporaryFolder) throws -> Void) throws {
        var template = Array("/tmp/decart-elements-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure() }
        let folder = TemporaryFolder(
            root: String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self))
        defer { folder.remove() }
        try body(folder)
    }

    func path(_ name: String) -> String { root + "/" + name }

    func write(_ name: String, _ bytes: [UInt8]) throws -> String {
        let descriptor = open(path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failure() }
        defer { close(descriptor) }
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else { throw Failure() }
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
func readFile(_ path: String) throws -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw TemporaryFolder.Failure() }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    let count = Glibc.read(descriptor, &bytes, bytes.count)
    guard count >= 0 else { throw TemporaryFolder.Failure() }
    return Array(bytes[..<count])
}
