// The Debian packages of elements that an installation may lack, for the texts of errors.
package import GStreamerKit

package enum DebianPackage {
    /// Lets the errors of missing elements name their packages, in this process.
    package static func nameInErrors() { MissingElement.setNames { list([$0]) } }

    private static let tables: [(name: String, factories: Set<String>)] = [
        (
            "plugins-base",
            [
                "audioconvert", "audioresample", "opusdec", "opusenc", "videoconvert", "videorate", "videoscale",
                "videotestsrc",
            ]
        ),
        (
            "plugins-good",
            [
                "aacparse", "alawdec", "capssetter", "deinterlace", "jpegdec", "level", "mulawdec", "rtspsrc",
                "videocrop", "videoflip",
                "vp8dec", "vp8enc", "vp9dec",
                "vp9enc",
            ]
        ),
        ("plugins-ugly", ["x264enc"]), ("plugins-bad", ["h264parse", "h265parse", "libde265dec"]),
    ]

    /// The first prefix counts. NVIDIA's elements for Jetson, nvv…, are in no package of Debian.
    private static let families: [(prefix: String, name: String?)] = [
        ("rtp", "plugins-good"), ("v4l2", "plugins-good"), ("avdec_", "libav"), ("vaapi", "vaapi"), ("nvv", nil),
        ("va", "plugins-bad"), ("nv", "plugins-bad"), ("cuda", "plugins-bad"), ("qsv", "plugins-bad"),
        ("openh264", "plugins-bad"), ("gl", "gl"),
    ]

    /// The package that contains an element; nil: not known.
    package static func name(of factory: String) -> String? {
        let name =
            tables.first { $0.factories.contains(factory) }?.name
            ?? families.first { factory.hasPrefix($0.prefix) }?.name
        return name.map { "gstreamer1.0-\($0)" }
    }

    /// Elements with their packages: "vp8dec (package gstreamer1.0-plugins-good) or avdec_vp8 (package …)".
    package static func list(_ factories: [String]) -> String {
        var groups: [(name: String?, factories: [String])] = []
        for factory in factories {
            let own = Self.name(of: factory)
            if let last = groups.last, last.name == own {
                groups[groups.count - 1].factories.append(factory)
            } else {
                groups.append((own, [factory]))
            }
        }
        return groups.map { group in
            group.factories.joined(separator: " or ") + (group.name.map { " (package \($0))" } ?? "")
        }.joined(separator: " or ")
    }
}

extension ElementProblem {
    package static func missing(_ what: String) -> ElementProblem {
        ElementProblem(.coreMissingPlugin, "A GStreamer element is missing: \(what). Install its package.")
    }
}
