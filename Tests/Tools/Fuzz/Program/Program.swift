import FuzzTargets
import Glibc

private let target = getenv("FUZZ_TARGET").flatMap { FuzzTarget(rawValue: String(cString: $0)) }

/// libFuzzer, which `--sanitize=fuzzer` links with its own `main`, calls this for each input.
@_cdecl("LLVMFuzzerTestOneInput")
func fuzz(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard let target else {
        print("FUZZ_TARGET names none of \(FuzzTarget.allCases.map(\.rawValue))")
        exit(2)
    }
    target.run([UInt8](UnsafeBufferPointer(start: data, count: count)))
    return 0
}
