import Glibc

/// Runs the decart-standin next to this executable on a free port.
final class StandInProcess {
    private let child: Child
    let url: String

    init(_ arguments: [String] = []) throws {
        var path = [CChar](repeating: 0, count: 4096)
        let length = readlink("/proc/self/exe", &path, path.count - 1)
        guard length > 0 else { throw BenchError("this program has no path") }
        let own = String(decoding: path[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let folder = own[..<(own.lastIndex(of: "/") ?? own.startIndex)]
        child = try Child(["--quiet", "--port", "0"] + arguments, path: "\(folder)/decart-standin")
        // The first line of output holds the address; with --quiet it is the only one.
        var text = ""
        var byte: UInt8 = 0
        while read(child.output, &byte, 1) == 1, byte != 10 { text.unicodeScalars.append(Unicode.Scalar(byte)) }
        guard let address = text.split(separator: " ").last, address.hasPrefix("ws://") else {
            kill(child.pid, SIGTERM)
            child.wait()
            throw BenchError("the stand-in does not listen: \(folder)/decart-standin")
        }
        url = String(address)
    }

    func end() {
        kill(child.pid, SIGTERM)
        child.wait()
        close(child.output)
    }
}
