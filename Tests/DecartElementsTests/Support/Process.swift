import Glibc

/// Resource use of this process, as the kernel and the C library report it.
enum Process {
    static var threadCount: Int { entries("/proc/self/task").count }
    /// Names of the threads, for the report of a test that counts them.
    static var threadNames: [String] {
        entries("/proc/self/task").map { number in
            (read("/proc/self/task/\(number)/comm") ?? "?").split(separator: "\n").first.map(String.init) ?? "?"
        }.sorted()
    }
    /// Open descriptors, except the one that reads the list.
    static var descriptorCount: Int { entries("/proc/self/fd").count - 1 }

    /// Returns free heap memory to the system. Otherwise the resident size of a process with many threads depends on
    /// how the allocator's arenas happen to fill (10 MiB from run to run), not on what is in use.
    static func trimHeap() {
        guard let symbol = dlsym(nil, "malloc_trim") else { return }
        _ = unsafeBitCast(symbol, to: (@convention(c) (Int) -> CInt).self)(0)
    }

    /// Bytes of heap in use: the totals of `malloc_info` minus its free chunks.
    static var allocatedSize: Int {
        guard let symbol = dlsym(nil, "malloc_info") else { return 0 }
        var (text, size): (UnsafeMutablePointer<CChar>?, Int) = (nil, 0)
        guard let stream = open_memstream(&text, &size) else { return 0 }
        _ = unsafeBitCast(symbol, to: (@convention(c) (CInt, UnsafeMutablePointer<FILE>) -> CInt).self)(0, stream)
        fclose(stream)
        defer { free(text) }
        guard let text else { return 0 }
        // The totals over all arenas come last.
        let lines = String(cString: text).split(separator: "\n").reversed()
        func total(_ kind: String) -> Int {
            let line = lines.first { $0.hasPrefix("<\(kind)") }
            let digits = line?.split(separator: "size=\"").last?.prefix { $0.isNumber }
            return digits.flatMap { Int($0) } ?? 0
        }
        return total("system type=\"current\"") + total("total type=\"mmap\"") - total("total type=\"fast\"")
            - total("total type=\"rest\"")
    }

    /// Resident set size, bytes.
    static var residentSize: Int {
        guard let text = read("/proc/self/statm") else { return 0 }
        let fields = text.split(separator: " ")
        return (fields.count > 1 ? Int(fields[1]) ?? 0 : 0) * sysconf(Int32(_SC_PAGESIZE))
    }

    private static func entries(_ path: String) -> [String] {
        guard let folder = opendir(path) else { return [] }
        defer { closedir(folder) }
        var names: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }

    private static func read(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        guard count > 0 else { return nil }
        return String(decoding: bytes[..<count].filter { $0 != 10 }, as: UTF8.self)
    }
}
