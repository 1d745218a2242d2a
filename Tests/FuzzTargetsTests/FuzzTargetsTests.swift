import FuzzTargets
import Glibc
import TestSupport
import Testing

/// The fuzz targets build, and take their seeds and the same mutations of them in every run. libFuzzer goes further.
@Suite("Fuzz targets", .timeLimit(.minutes(5))) struct FuzzTargetsTests {
    @Test(arguments: FuzzTarget.allCases) func seedsAndMutations(target: FuzzTarget) throws {
        let seeds = try Self.seeds(of: target)
        try #require(!seeds.isEmpty)
        var generator = SeededGenerator(seed: 27)
        for seed in seeds {
            target.run(seed)
            for _ in 0..<200 { target.run(Self.mutation(of: seed, &generator)) }
        }
    }

    private static func mutation(of seed: [UInt8], _ generator: inout SeededGenerator) -> [UInt8] {
        var bytes = seed
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            let at = Int.random(in: 0...bytes.count, using: &generator)
            switch Int.random(in: 0..<4, using: &generator) {
            case 0 where at < bytes.count: bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            case 1: bytes.insert(.random(in: 0...255, using: &generator), at: at)
            case 2: bytes.removeSubrange(at..<min(bytes.count, at + 5))
            default: bytes.removeLast(min(bytes.count, Int.random(in: 0...8, using: &generator)))
            }
        }
        return bytes
    }

    private static func seeds(of target: FuzzTarget) throws -> [[UInt8]] {
        var template = Array("/tmp/decart-seeds-XXXXXX".utf8CString)
        let folder = String(cString: try #require(mkdtemp(&template)))
        defer { _ = shell("rm -r '\(folder)'") }
        let script = #filePath.replacing("FuzzTargetsTests/FuzzTargetsTests.swift", with: "Tools/Fuzz/seeds.py")
        try #require(shell("/usr/bin/python3 '\(script)' '\(folder)'") == 0)
        var seeds: [[UInt8]] = []
        while let file = fopen("\(folder)/\(target.rawValue)/seed\(seeds.count)", "r") {
            defer { fclose(file) }
            var bytes = [UInt8](repeating: 0, count: 1 << 20)
            let count = fread(&bytes, 1, bytes.count, file)
            seeds.append(Array(bytes.prefix(count)))
        }
        return seeds
    }

    private static func shell(_ command: String) -> CInt { system(command) }
}
