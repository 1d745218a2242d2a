#!/usr/bin/python3
"""Builds the source package of `scripts/package --source` in a fresh Debian 13 by its own Swift, without a network.

For scripts/verify, after the other checks of packages, whose results it replaces. As README has it: `apt-get build-dep`, then
dpkg-buildpackage; then the packages' own test, and the Swift tests; in a second system demo.sh. Prints "ok NAME", "not ok NAME: why" or "skip NAME: why". Needs root for
the namespace, and a commit without changes.
"""

import glob
import os
import shutil
import subprocess
import sys

from check_packages import OURS, REPO, RESULTS, System, in_fresh_system, report

LIMIT = 3600  # s, for a build from nothing
NAME = "the source package in Debian 13"


def unpacked(folder):
    """A new system with the source package in /src/tree."""
    os.makedirs(f"{folder}/src")
    system = System("trixie", folder)
    for file in glob.glob(f"{RESULTS}/*.dsc") + glob.glob(f"{RESULTS}/*.tar.gz"):
        shutil.copy(file, f"{folder}/src")
    system.must("apt-get update && apt-get install dpkg-dev && dpkg-source --no-check -x *.dsc tree", network=True,
                limit=900, where="/src")
    return system


def build(folder):
    packed = subprocess.run([f"{REPO}/scripts/package", "--source"], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=600)
    report("scripts/package --source", packed.returncode and packed.stdout + packed.stderr)
    if packed.returncode:
        return
    demonstrate(unpacked(f"{folder}/demo"), f"{folder}/demo/src/tree/demo")
    system = unpacked(f"{folder}/packages")
    system.must("apt-get build-dep -P nocheck ./", network=True, limit=1800, where="/src/tree")
    # A home that does not exist, as Debian's build machines have it.
    status, output = system.run("HOME=/nonexistent dpkg-buildpackage -b -us -uc -Pnocheck",
                                limit=LIMIT, where="/src/tree")
    report("the source package builds without a network", status and output[-400:])
    if status:
        return
    system.must(f"apt-get install {' '.join(f'./{name}_*.deb' for name in OURS)} gstreamer1.0-tools gstreamer1.0-plugins-bad "
                "gstreamer1.0-plugins-ugly gstreamer1.0-libav gstreamer1.0-nice coturn",
                network=True, limit=900, where="/src")
    status, output = system.run("tree/debian/tests/session", limit=120, where="/src")
    report("its packages have a session", status and output[-400:])
    status, output = system.run("swift build -c release --build-tests", limit=LIMIT, where="/src/tree")
    report("the Swift tests build with Debian's Swift", status and output[-400:])
    if status:
        return
    # Not `swift test`: suites that count threads or set signals need processes of their own. Not the element suites, which
    # the gate runs for minutes.
    status, output = system.run("ulimit -c 0; mkdir .build/test; scripts/run_tests.py --swift --folder .build/test",
                                limit=LIMIT, where="/src/tree")
    report("the Swift tests pass with Debian's Swift", status and output.rpartition("Failed (")[2][:1000])


def demonstrate(system, results):
    status, output = system.run("pipelines/demo.sh --install", network=True, limit=LIMIT, where="/src/tree")
    left = glob.glob(f"{results}/before-after-*.png") + glob.glob(f"{results}/*.webm")
    report("demo.sh --install in Debian 13", status and output[-400:] or len(left) != 3 and f"it left {left}")


def main():
    clean = subprocess.run(["git", "-C", REPO, "diff", "--quiet", "HEAD"], check=False).returncode == 0
    if not clean:
        report.skip(f"{NAME}: files differ from the commit")
        return
    in_fresh_system(NAME, build)


if __name__ == "__main__":
    main()
