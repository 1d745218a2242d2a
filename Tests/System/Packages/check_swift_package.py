#!/usr/bin/python3
"""Builds packages of other people on the Swift products, and runs what they are.

The code of the DocC articles of GStreamerKit and pipelines/examples/minimal.swift are built in packages of their own, as
README.md has it; the element of the first article runs in gst-launch-1.0. With DECART_VERIFY=1 a program on DecartRealtime too,
which needs most of the project: it depends on a version tag of a clone, for which SwiftPM refuses unsafe flags, and runs
against the stand-in. DocC has no warning on either product. Prints "ok NAME", "not ok NAME: why" or "skip NAME: why".
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Host"))
from checks import RELEASE, REPO, VERIFYING, Results, output_of, read, write  # noqa: E402
from standin import running_standin  # noqa: E402

ARTICLES = os.path.join(REPO, "Sources", "GStreamerKit", "GStreamerKit.docc")
PATH = os.path.join(REPO, ".build", "packages")
LIMIT = 800  # s; the first build compiles GStreamerKit
CODE = re.compile(r"^```swift\n(?P<code>(?:// swift-tools-version[^\n]*\n)?// (?P<file>[\w/.]+)\n.*?)^```$", re.M | re.S)
report = Results("swift package")


def code_of(article):
    """{file: text} of the code in an article."""
    return {match["file"]: match["code"] for match in CODE.finditer(read(os.path.join(ARTICLES, article)))}


def manifest(name, product, dependency):
    return f"""// swift-tools-version: 6.0
import PackageDescription
let package = Package(
    name: "{name}", dependencies: [{dependency}],
    targets: [
        .executableTarget(name: "{name}", dependencies: [.product(name: "{product}", package: "gst-decart")])
    ])
"""


def build(folder, files):
    """Writes a package and builds it; returns the folder of its products."""
    for name, text in files.items():
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        # The checkout may have another name.
        write(target, text.replace('path: "../gst-decart"', f'name: "gst-decart", path: "{REPO}"'))
    scratch = PATH
    done = subprocess.run(["swift", "build", "--package-path", folder, "--scratch-path", scratch], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise RuntimeError(" / ".join([line for line in done.stdout.splitlines() if "error:" in line][:3]) or done.stdout[-300:])
    return os.path.join(scratch, "debug")


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False, **options)
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}: {done.stdout[-300:]}")
    return done.stdout


def check_element(folder):
    files = code_of("AnElementInSixtyLines.md")
    built = build(os.path.join(folder, "colours"), files)
    length = sum(text.count("\n") for name, text in files.items() if name != "Package.swift")
    environment = dict(os.environ, GST_PLUGIN_PATH=built, GST_REGISTRY_1_0=os.path.join(folder, "registry"))
    launch = ["gst-launch-1.0", "-v", "videotestsrc", "num-buffers=3", "!", "video/x-raw,format=I420,width=64,height=48", "!"]
    shown = run(["gst-inspect-1.0", "colourcounter"], env=environment)
    report("the element of the article is inspected", [] if "colourful" in shown and "Colour counter" in shown else shown[-300:])
    raw = os.path.join(folder, "frame")
    for option, differs in (("false", True), ("true", False)):
        run([*launch, "colourcounter", f"grey={option}", "!", "filesink", f"location={raw}"], env=environment)
        with open(raw, "rb") as file:
            chroma = file.read()[64 * 48:64 * 48 * 3 // 2]
        problem = "" if (set(chroma) != {128}) == differs else f"chroma {sorted(set(chroma))[:4]}"
        report(f"the element of the article runs, grey={option}", problem, figures=f"{length} lines")


def check_programs(folder):
    frames = run([os.path.join(build(os.path.join(folder, "frames"), code_of("APipelineInAnApplication.md")), "Frames")])
    lines = frames.splitlines()
    report("the pipeline of the article turns all frames", "" if lines[-1:] == ["top 0, bottom 124"] else frames[-300:])
    local = f'.package(name: "gst-decart", path: "{REPO}")'
    for name, code, expected in (
            ("Probe", code_of("ThreadsAndOwnership.md")["Sources/Probe/main.swift"], "25"),
            ("Minimal", read(os.path.join(REPO, "pipelines", "examples", "minimal.swift")), "")):
        built = build(os.path.join(folder, name.lower()),
                      {"Package.swift": manifest(name, "GStreamerKit", local), f"Sources/{name}/main.swift": code})
        arguments = [] if expected else ["videotestsrc num-buffers=5 ! identity name=decart ! fakesink"]
        # The end of the input would send EOS while the pipeline starts.
        reader, writer = os.pipe()
        try:
            said = run([os.path.join(built, name), *arguments], stdin=reader).strip()
        finally:
            os.close(reader)
            os.close(writer)
        report(f"{name} builds in a package of its own and runs", "" if said == expected else said[-300:])


QUICK_START = """import DecartRealtime

let configuration = try DecartConfiguration(apiKey: "x", baseURL: CommandLine.arguments[1])
let model = Models.realtime(.lucyRestyle2)
let manager = try DecartClient(decartConfiguration: configuration).createRealtimeManager(
    options: RealtimeConfiguration(model: model, initialPrompt: DecartPrompt(text: "Noir")))
let source = manager.createVideoSource()
let track = manager.createVideoTrack(source: source, trackId: "video0")
let capture = RealtimeCapture(model: model, videoSource: source, mirror: .auto)
try await capture.startCapture()
let remote = try await manager.connect(localStream: RealtimeMediaStream(videoTrack: track, id: .localStream))
if let frames = remote.videoTrack?.frames {
    for await frame in frames {
        print("\\(frame.width)x\\(frame.height)")
        break
    }
}
try await manager.setPrompt(DecartPrompt(text: "Anime"))
await manager.disconnect()
await capture.stopCapture()
"""


def check_tag(folder):
    """A dependency by version: SwiftPM refuses it if a target below the product has unsafe flags."""
    clone = os.path.join(folder, "gst-decart.git")
    run(["git", "clone", "--quiet", "--bare", REPO, clone])
    run(["git", "-C", clone, "tag", "9.9.9"])
    files = {"Package.swift": manifest("quickstart", "DecartRealtime", f'.package(url: "file://{clone}", exact: "9.9.9")'),
             "Sources/quickstart/main.swift": QUICK_START}
    built = build(os.path.join(folder, "quickstart"), files)
    with running_standin() as url:
        said = run([os.path.join(built, "quickstart"), url], env=dict(os.environ, DECART_SOURCE="test")).strip()
    report("a package with a version of gst-decart runs the quick start", "" if said == "704x1280" else said[-300:])


def check_documentation(product, folder):
    """DocC over the symbol graph of the build."""
    if not shutil.which("docc") or not shutil.which("swift-symbolgraph-extract"):
        return report.skip(f"DocC of {product}: the toolchain has no docc")
    graphs = os.path.join(folder, f"{product}-symbols")
    os.makedirs(graphs)
    flags = output_of("pkg-config", "--cflags-only-I", "gstreamer-video-1.0", "nice", "libsrtp2", "openssl").split()
    maps = [f"-fmodule-map-file={path}" for path in glob.glob(f"{RELEASE}/*.build/module.modulemap")]
    modules = [word for path in glob.glob(f"{REPO}/Sources/C*/") for word in ("-I", path)]
    target = re.search(r'"triple": "([^"]+)"', output_of("swift", "-print-target-info"))[1]
    run(["swift-symbolgraph-extract", "-module-name", product, "-I", f"{RELEASE}/Modules", *modules, "-target", target,
         *(word for flag in flags + maps for word in ("-Xcc", flag)), "-minimum-access-level", "public", "-output-dir", graphs])
    said = run(["docc", "convert", f"{REPO}/Sources/{product}/{product}.docc", "--fallback-display-name", product,
                "--fallback-bundle-identifier", product, "--fallback-bundle-version", "1", "--additional-symbol-graph-dir", graphs,
                "--output-dir", os.path.join(folder, f"{product}-docs")])
    found = re.findall(r"^(?:warning|error): .*", said, re.M)
    report(f"DocC of {product} has no warning", "; ".join(found[:3]))


def main():
    with tempfile.TemporaryDirectory() as folder:
        report.perform("the element of the article", check_element, folder)
        report.perform("programs on GStreamerKit", check_programs, folder)
        for product in ("GStreamerKit", "DecartRealtime"):
            report.perform(f"DocC of {product}", check_documentation, product, folder)
        if VERIFYING:
            report.perform("a package with a version of gst-decart", check_tag, folder)
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
