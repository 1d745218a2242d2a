#!/usr/bin/python3
"""Builds packages of other people on the Swift products, and runs what they are.

The code of the DocC articles of GStreamerKit and pipelines/examples/minimal.swift are built in packages of their own, as
README.md says; the element of the first article runs in gst-launch-1.0. With DECART_VERIFY=1 a program on DecartRealtime too,
which needs most of the project: it depends on a version tag of a clone, for which SwiftPM refuses unsafe flags, and runs
against the stand-in. Prints "ok NAME" or "not ok NAME: why".
"""

import os
import re
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Host"))
from checks import RELEASE, REPO, VERIFYING, Results, read, running_standin, write  # noqa: E402

ARTICLES = os.path.join(REPO, "Sources", "GStreamerKit", "GStreamerKit.docc")
PATH = os.path.join(os.path.dirname(RELEASE) if os.path.islink(RELEASE) else os.path.join(REPO, ".build"), "packages")
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
        # The name of a package's folder is its identity, so a link with that name stands for the checkout.
        write(target, text.replace('path: "../gst-decart"', f'name: "gst-decart", path: "{REPO}"'))
    scratch = os.path.join(PATH, os.path.basename(folder))
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
