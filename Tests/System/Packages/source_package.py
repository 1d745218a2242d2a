#!/usr/bin/python3
"""Builds the source package of `scripts/package --source` in a namespace without a network and with an empty home.

For scripts/verify, after the other checks of packages, whose results it replaces. Prints "ok NAME", "not ok NAME: why" or
"skip NAME: why". Needs root for the namespace, and a commit without changes.
"""

import glob
import os
import subprocess
import sys
import tempfile

from check_packages import REPO, RESULTS, report

PRODUCTS = ("libgstdecart.so", "decart-check", "decart-standin")
LIMIT = 3600  # s, for a build from nothing


def build(folder):
    packed = subprocess.run([f"{REPO}/scripts/package", "--source"], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=600)
    report("scripts/package --source", packed.returncode and packed.stdout + packed.stderr)
    if packed.returncode:
        return
    tree = f"{folder}/sources"
    subprocess.run(["dpkg-source", "--no-check", "-x", *glob.glob(f"{RESULTS}/*.dsc"), tree],
                   capture_output=True, check=True, timeout=120)
    # Without SwiftPM's caches in the home, a missing checkout would need the network.
    built = subprocess.run(["unshare", "--net", "debian/rules", "build"], cwd=tree, capture_output=True, text=True, timeout=LIMIT,
                           stdin=subprocess.DEVNULL, env={"HOME": folder, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"})
    lacking = [name for name in PRODUCTS if not os.path.exists(f"{tree}/.build/release/{name}")]
    report("the source package builds without a network",
                         (built.returncode or lacking) and f"{lacking}: {(built.stdout + built.stderr)[-400:]}")


def main():
    clean = subprocess.run(["git", "-C", REPO, "diff", "--quiet", "HEAD"], check=False).returncode == 0
    if os.geteuid() != 0 or not clean:
        report.skip(f"the source package: {'needs root' if clean else 'files differ from the commit'}")
        return
    with tempfile.TemporaryDirectory(prefix="decart-source-") as folder:
        try:
            build(folder)
        except (OSError, subprocess.SubprocessError) as error:
            report("the source package", error)
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
