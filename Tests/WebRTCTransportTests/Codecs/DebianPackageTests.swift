import GStreamerKit
import Testing
import WebRTCTransport

@Suite struct DebianPackageTests {
    init() {
        GStreamerRuntime.initialise()
        DebianPackage.nameInErrors()
    }

    @Test(arguments: [
        ("opusenc", "plugins-base"), ("vp8dec", "plugins-good"), ("rtph264pay", "plugins-good"),
        ("v4l2h264enc", "plugins-good"), ("x264enc", "plugins-ugly"), ("openh264enc", "plugins-bad"),
        ("nvh264enc", "plugins-bad"), ("vah264enc", "plugins-bad"), ("vaapih264enc", "vaapi"),
        ("avdec_h264", "libav"), ("gldownload", "gl"),
    ])
    func anElementHasAPackage(factory: String, name: String) {
        #expect(DebianPackage.name(of: factory) == "gstreamer1.0-\(name)")
    }

    @Test func anUnknownElementHasNone() {
        #expect(DebianPackage.name(of: "nvv4l2h264enc") == nil && DebianPackage.name(of: "nosuchelement") == nil)
        #expect(DebianPackage.list(["nosuchelement"]) == "nosuchelement")
    }

    @Test func aPackageIsNamedOnce() {
        #expect(
            DebianPackage.list(["vp8dec", "vp9dec", "avdec_h264"])
                == "vp8dec or vp9dec (package gstreamer1.0-plugins-good) or avdec_h264 (package gstreamer1.0-libav)")
    }

    @Test func theErrorOfAMissingElementNamesIt() {
        #expect {
            try Element(factory: "nvnosuchelement")
        } throws: { error in
            guard let error = error as? GStreamerError else { return false }
            return error.code == .missingElement("nvnosuchelement")
                && error.message.contains("nvnosuchelement (package gstreamer1.0-plugins-bad)")
        }
    }
}
