// swift-tools-version: 6.0
// Targets and the floor each stands on are drawn in docs/ARCHITECTURE.md; an arrow only ever points to a lower floor.
// Sources has what the libraries are made of, Tools the programs and what only they use: no library stands on them.
import PackageDescription

let swiftSettings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("ExistentialAny"),
]

/// Optimising the tests took longer than compiling what they test.
let testSettings = swiftSettings + [.unsafeFlags(["-Onone"])]

// The scripts set it, so that the plugin and the stand-in can name their commit (see Sources/CRelease).
let commit = (Context.environment["DECART_COMMIT"] ?? "").filter { $0.isLetter || $0.isNumber || $0 == "+" }

// scripts/sanitize and Tests/Tools/Fuzz/run.sh set them.
let isFuzzed = Context.environment["DECART_FUZZ"] != nil
let isSanitized = isFuzzed || Context.environment["DECART_WITHOUT_PLUGIN"] != nil

// Products carry their own Swift runtime, so that they run on machines without Swift. The two libraries are parts of
// Foundation that the driver does not link statically by itself. The loader resolves all symbols at once, and then makes
// their table read-only. Packed, 75,000 relative relocations need 15 kB of the file instead of 1.8 MB (glibc 2.36).
let productLinking =
    (isSanitized ? [] : ["-static-stdlib", "-l_FoundationCollections", "-l_FoundationCShims"])
    + ["-use-ld=lld"] + ["relro", "now", "pack-relative-relocs"].flatMap { ["-Xlinker", "-z", "-Xlinker", $0] }

let package = Package(
    name: "gst-decart",
    products: [
        .library(name: "gstdecart", type: .dynamic, targets: ["DecartPlugin"]),
        // For other packages. SwiftPM refuses a dependency on a target with unsafe flags, so none may stand below these.
        .library(name: "GStreamerKit", targets: ["GStreamerKit"]),
        .library(name: "DecartRealtime", targets: ["DecartRealtime"]),
        .executable(name: "decart-standin", targets: ["decart-standin"]),
        .executable(name: "decart-bench", targets: ["decart-bench"]),
        .executable(name: "decart-check", targets: ["decart-check"]),
    ],
    targets: [
        // Floor 0: system libraries, and the wire.
        .systemLibrary(name: "CGStreamer", pkgConfig: "gstreamer-video-1.0"),
        .systemLibrary(name: "CNice", pkgConfig: "nice"),
        .systemLibrary(name: "CGIO", pkgConfig: "gio-2.0"),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl"),
        .systemLibrary(name: "CSRTP", pkgConfig: "libsrtp2"),
        .systemLibrary(name: "CYUV"),
        .target(name: "CRelease", cSettings: [.define("DECART_COMMIT", to: "\"\(commit)\"")]),
        .target(name: "DecartProtocol", swiftSettings: swiftSettings),
        .target(name: "LiveKitProtocol", swiftSettings: swiftSettings),
        .target(name: "Log", swiftSettings: swiftSettings),
        .target(name: "Recovery", swiftSettings: swiftSettings),
        .target(name: "Queues", swiftSettings: swiftSettings),
        .target(name: "EventLoopThreads", dependencies: ["CGIO", "Queues"], swiftSettings: swiftSettings),
        // RTP, RTCP and congestion control as values that packets and times drive: no socket, thread, clock or GStreamer.
        .target(name: "RTP", dependencies: ["Queues"], swiftSettings: swiftSettings),

        // Floor 1: one concern each.
        .target(
            name: "GStreamerKit", dependencies: ["CGStreamer", "Log"],
            swiftSettings: swiftSettings),
        .target(name: "ICE", dependencies: ["CNice", "EventLoopThreads", "Recovery"], swiftSettings: swiftSettings),
        .target(
            name: "MediaSecurity", dependencies: ["COpenSSL", "CSRTP", "EventLoopThreads"],
            swiftSettings: swiftSettings),
        .target(
            name: "Network", dependencies: ["CGIO", "EventLoopThreads", "MediaSecurity"], swiftSettings: swiftSettings),
        .target(
            name: "DecartSession",
            dependencies: ["DecartProtocol", "EventLoopThreads", "Log", "Recovery"],
            swiftSettings: swiftSettings),

        // Floor 2: the outside that a session talks to, and command lines.
        .target(
            name: "WebRTCTransport",
            dependencies: [
                "EventLoopThreads", "GStreamerKit", "ICE", "MediaSecurity", "Log", "Recovery", "RTP",
            ],
            swiftSettings: swiftSettings),
        .target(
            name: "CommandLineOptions", dependencies: ["GStreamerKit"], path: "Tools/CommandLineOptions",
            swiftSettings: swiftSettings),
        .target(
            name: "Signalling",
            dependencies: [
                "DecartSession", "DecartProtocol", "EventLoopThreads", "MediaSecurity", "Network",
                "Log", "Recovery",
            ],
            swiftSettings: swiftSettings),

        .target(
            name: "LiveKitTransport",
            dependencies: [
                "LiveKitProtocol", "DecartProtocol", "DecartSession", "EventLoopThreads", "Signalling", "ICE",
                "Network", "RTP", "WebRTCTransport",
                "Log", "Recovery",
            ],
            swiftSettings: swiftSettings),

        // Floor 3: what stands between the pads of an element and a peer connection, and `mirror`.
        .target(
            name: "MediaPipeline",
            dependencies: [
                "CYUV", "EventLoopThreads", "GStreamerKit", "DecartProtocol", "RTP", "WebRTCTransport",
                "Log",
            ],
            swiftSettings: swiftSettings),
        .target(
            name: "MirrorElement", dependencies: ["CYUV", "GStreamerKit"], swiftSettings: swiftSettings),

        // Floor 4: what users and tests see.
        .target(
            name: "DecartElements",
            dependencies: [
                "MediaPipeline", "MirrorElement", "GStreamerKit", "DecartProtocol", "DecartSession", "ICE",
                "EventLoopThreads", "MediaSecurity", "Network", "RTP", "WebRTCTransport", "Signalling",
                "LiveKitTransport",
                "CRelease",
                "Log", "Recovery",
            ],
            swiftSettings: swiftSettings),
        .target(
            name: "DecartRealtime",
            dependencies: ["DecartElements", "DecartProtocol", "EventLoopThreads", "GStreamerKit"],
            swiftSettings: swiftSettings),
        .target(
            name: "StandInServer",
            dependencies: [
                "CGIO", "DecartProtocol", "EventLoopThreads", "GStreamerKit", "ICE", "LiveKitProtocol", "MediaSecurity",
                "Network", "RTP", "WebRTCTransport", "Log",
            ],
            path: "Tools/StandInServer",
            // The page must not depend on files of an installation.
            resources: [
                .embedInCode("Page/web/page.html"), .embedInCode("Page/web/page.js"), .embedInCode("Page/web/page.css"),
            ],
            swiftSettings: swiftSettings),

        // Not on DecartElements, for the same reason as decart-bench.
        .target(
            name: "ConnectionCheck",
            dependencies: [
                "CommandLineOptions", "DecartProtocol", "DecartSession", "EventLoopThreads", "ICE", "LiveKitProtocol",
                "Network", "Signalling", "GStreamerKit",
            ],
            path: "Tools/ConnectionCheck", swiftSettings: swiftSettings),

        // Floor 5: products.
        // A dynamic Swift runtime would install crash-signal handlers in the host process. exports.map
        // names what is exported.
        .target(
            name: "DecartPlugin", dependencies: ["DecartElements"], exclude: ["exports.map"],
            swiftSettings: swiftSettings,
            linkerSettings: [
                .unsafeFlags(
                    productLinking + [
                        "-Xlinker", "-z", "-Xlinker", "defs", "-Xlinker",
                        "--version-script=\(Context.packageDirectory)/Sources/DecartPlugin/exports.map",
                        // Without it, the file has the path of the build as the name of its version definition.
                        "-Xlinker", "-soname", "-Xlinker", "libgstdecart.so",
                    ])
            ]),
        .executableTarget(
            name: "decart-standin",
            dependencies: ["CommandLineOptions", "StandInServer", "DecartProtocol", "ICE", "CRelease"],
            path: "Tools/decart-standin", swiftSettings: swiftSettings, linkerSettings: [.unsafeFlags(productLinking)]),
        // Not on DecartElements: it loads the plugin, and a process that did both would register the GTypes twice.
        // It calls C for webrtcbin, which it is measured against.
        .executableTarget(
            name: "decart-bench",
            dependencies: [
                "CGStreamer", "CommandLineOptions", "DecartProtocol", "GStreamerKit", "MediaSecurity",
                "RTP", "WebRTCTransport",
            ],
            path: "Tools/decart-bench", swiftSettings: swiftSettings),

        .executableTarget(
            name: "decart-check",
            dependencies: [
                "CommandLineOptions", "ConnectionCheck", "DecartProtocol", "ICE", "Network", "Signalling", "CRelease",
            ],
            path: "Tools/decart-check", swiftSettings: swiftSettings, linkerSettings: [.unsafeFlags(productLinking)]),

        .testTarget(
            name: "DecartProtocolTests", dependencies: ["DecartProtocol", "TestSupport"], swiftSettings: testSettings),
        .testTarget(
            name: "LiveKitProtocolTests",
            dependencies: ["LiveKitProtocol", "DecartProtocol", "TestSupport"], swiftSettings: testSettings),
        .testTarget(
            name: "LiveKitTransportTests",
            dependencies: [
                "LiveKitTransport", "LiveKitProtocol", "RTP", "WebRTCTransport", "DecartSession", "DecartProtocol",
                "Recovery", "TestSupport",
            ],
            exclude: ["Exchanges"], swiftSettings: testSettings),
        .testTarget(
            name: "DecartSessionTests",
            dependencies: [
                "DecartSession", "DecartProtocol", "EventLoopThreads", "Log", "Queues", "Recovery", "TestSupport",
            ],
            swiftSettings: testSettings),
        .testTarget(
            name: "SignallingTests",
            dependencies: [
                "Signalling", "DecartSession", "DecartProtocol", "EventLoopThreads", "MediaSecurity", "Network",
                "TestSupport",
            ],
            swiftSettings: testSettings),
        // coturn, an HTTP proxy, random numbers and stand-in encoders for several test targets.
        .target(
            name: "TestSupport",
            dependencies: ["CGIO", "CGStreamer", "ICE", "GStreamerKit", "MediaSecurity", "RTP", "WebRTCTransport"],
            path: "Tests/TestSupport", swiftSettings: swiftSettings),
        .testTarget(
            name: "ICETests", dependencies: ["ICE", "Signalling", "DecartProtocol", "DecartSession", "TestSupport"],
            swiftSettings: testSettings),
        .testTarget(
            name: "MediaSecurityTests", dependencies: ["MediaSecurity", "TestSupport"], swiftSettings: testSettings),
        .testTarget(
            name: "CommandLineOptionsTests", dependencies: ["CommandLineOptions"], swiftSettings: testSettings),
        .testTarget(
            name: "NetworkTests", dependencies: ["Network", "EventLoopThreads", "MediaSecurity", "TestSupport"],
            swiftSettings: testSettings),
        .testTarget(
            name: "GStreamerKitTests", dependencies: ["CGStreamer", "GStreamerKit", "Log"], swiftSettings: testSettings),
        .testTarget(
            name: "WebRTCTransportTests",
            dependencies: [
                "CGIO", "RTP", "WebRTCTransport", "EventLoopThreads", "GStreamerKit", "ICE", "MediaSecurity",
                "TestSupport",
            ],
            exclude: ["Recordings"],
            swiftSettings: testSettings),
        .testTarget(
            name: "MediaPipelineTests",
            dependencies: ["CGStreamer", "MediaPipeline", "GStreamerKit", "RTP", "TestSupport"],
            exclude: ["Recordings"],
            swiftSettings: testSettings),
        .testTarget(
            name: "StandInServerTests",
            dependencies: [
                "EventLoopThreads", "StandInServer", "GStreamerKit", "DecartProtocol", "LiveKitProtocol", "TestSupport",
                "RTP", "WebRTCTransport",
            ],
            exclude: ["Exchanges"], swiftSettings: testSettings),
        .testTarget(
            name: "ConnectionCheckTests",
            dependencies: [
                "ConnectionCheck", "DecartProtocol", "DecartSession", "ICE", "Signalling", "StandInServer",
                "TestSupport",
            ],
            swiftSettings: testSettings),
        // What Tests/Tools/Fuzz/run.sh gives to libFuzzer; the test repeats its seeds.
        .target(
            name: "FuzzTargets",
            dependencies: [
                "DecartProtocol", "DecartSession", "GStreamerKit", "ICE", "LiveKitProtocol", "LiveKitTransport",
                "MediaPipeline", "MediaSecurity", "Network", "Signalling", "TestSupport", "RTP", "WebRTCTransport",
            ],
            path: "Tests/Tools/Fuzz/Targets", swiftSettings: swiftSettings),
        .testTarget(
            name: "FuzzTargetsTests", dependencies: ["FuzzTargets", "TestSupport"], swiftSettings: testSettings),
        .testTarget(
            name: "DecartRealtimeTests", dependencies: ["DecartRealtime", "GStreamerKit", "StandInServer"],
            swiftSettings: testSettings),
        .testTarget(
            name: "DecartElementsTests",
            dependencies: [
                "CGStreamer", "DecartElements", "MediaPipeline", "StandInServer", "GStreamerKit",
                "DecartProtocol", "ICE", "TestSupport", "RTP", "WebRTCTransport",
            ],
            swiftSettings: testSettings),
    ]
)

// The plugin lets no symbol go unresolved, and a sanitizer's are in the program that loads it.
if isSanitized {
    package.products.removeAll { $0.name == "gstdecart" }
    package.targets.removeAll { $0.name == "DecartPlugin" }
}
if isFuzzed {
    package.targets.append(
        .executableTarget(
            name: "fuzz", dependencies: ["FuzzTargets"], path: "Tests/Tools/Fuzz/Program",
            swiftSettings: swiftSettings + [.unsafeFlags(["-parse-as-library"])]))
}
