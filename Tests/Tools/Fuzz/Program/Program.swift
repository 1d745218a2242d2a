import FuzzTargets
import Glibc

/// In libFuzzer, which `--sanitize=fuzzer` links.
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
    _ body: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// libFuzzer's program for the target that FUZZ_TARGET names.
@main enum Program {
    fileprivate static let target = getenv("FUZZ_TARGET").flatMap { FuzzTarget(rawValue: String(cString: $0)) }

    static func main() {
        guard target != nil else {
            print("FUZZ_TARGET names none of \(FuzzTarget.allCases.map(\.rawValue))")
            exit(2)
        }
        var count = CommandLine.argc
        // A copy: libFuzzer may set another array.
        var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv
        exit(
            runDriver(&count, &arguments) { data, count in
                Program.target?.run([UInt8](UnsafeBufferPointer(start: data, count: count)))
                return 0
            })
    }
}
