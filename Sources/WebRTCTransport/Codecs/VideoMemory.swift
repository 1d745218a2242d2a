// Memory other than the system's, in which frames may lie, and the elements that fetch them from there or put them
// there. Values only: this file knows no element. docs/GUIDE.md has the same table, which scripts/check_docs
// compares.

package struct VideoMemory: Sendable, Equatable {
    package let feature: String
    /// Chains of factories that bring frames into the system's memory, in order of preference.
    package let fetchers: [[String]]
    /// Chains of factories that bring frames from the system's memory there.
    package let senders: [[String]]
    /// The package or product that contains the elements, for an error's text.
    package let origin: String

    package static let all = [
        VideoMemory(
            feature: "memory:GLMemory", fetchers: [["gldownload"]], senders: [["glupload"]],
            origin: "the package gstreamer1.0-gl"),
        VideoMemory(
            feature: "memory:CUDAMemory", fetchers: [["cudadownload"]], senders: [["cudaupload"]],
            origin: "the package gstreamer1.0-plugins-bad and NVIDIA's driver"),
        VideoMemory(
            feature: "memory:VAMemory", fetchers: [["vapostproc"]], senders: [["vapostproc"]],
            origin: "the package gstreamer1.0-plugins-bad and a VA driver"),
        VideoMemory(
            feature: "memory:VASurface", fetchers: [["vaapipostproc"]], senders: [["vaapipostproc"]],
            origin: "the package gstreamer1.0-vaapi and a VA driver"),
        VideoMemory(
            feature: "memory:DMABuf", fetchers: [["vapostproc"], ["vaapipostproc"], ["glupload", "gldownload"]],
            senders: [["vapostproc"]],
            origin: "the package gstreamer1.0-plugins-bad and a VA driver, or the package gstreamer1.0-gl"),
        VideoMemory(
            feature: "memory:NVMM", fetchers: [["nvvidconv"], ["nvvideoconvert"]],
            senders: [["nvvidconv"], ["nvvideoconvert"]], origin: "NVIDIA's Jetson Linux or DeepStream"),
    ]

    /// The row of a caps feature; nil for the system's memory and for a feature that is not in the table.
    package static func named(_ feature: String?) -> VideoMemory? { all.first { $0.feature == feature } }

    /// The first chain of which every factory is installed.
    package static func installed(_ chains: [[String]], _ isInstalled: (String) -> Bool) -> [String]? {
        chains.first { $0.allSatisfy(isInstalled) }
    }

    package var caps: String { "video/x-raw(\(feature))" }

    /// The factories of all chains, for an error's text.
    package static func names(of chains: [[String]]) -> String {
        chains.map { $0.joined(separator: " ! ") }.joined(separator: " or ")
    }
}
