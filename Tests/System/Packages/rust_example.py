#!/usr/bin/python3
"""Builds pipelines/examples/minimal.rs in a fresh Debian 13, from Debian's packages alone, and checks its pixels.

For scripts/verify. Prints "ok NAME", "not ok NAME: why" or "skip NAME: why". Needs root, debootstrap and Debian's mirror.
"""

import os
import shutil
import sys

import check_packages

sys.path.append(f"{check_packages.REPO}/Tests/System/Host")
import check_examples  # noqa: E402
from standin import running_standin  # noqa: E402

BUILD = r"""
apt-get update -qq
apt-get install -qq cargo librust-gstreamer-dev gstreamer1.0-plugins-base gstreamer1.0-plugins-good libnice10 libsrtp2-1 \
    libssl3t64 >/dev/null
printf '[source.crates-io]\nreplace-with = "debian"\n[source.debian]\ndirectory = "/usr/share/cargo/registry"\n' >config.toml
printf '[package]\nname = "minimal"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\ngstreamer = "0.23"\n' >Cargo.toml
CARGO_HOME=$PWD cargo build --offline
"""


class Displayed(check_examples.Displayed):
    """The program sees the system's folder as the root."""

    def sink(self):
        return super().sink().replace(self.root, "")


def build_and_run(folder):
    system = check_packages.System("trixie", folder)
    home = folder + check_packages.HOME
    os.makedirs(f"{home}/src")
    shutil.copy(f"{check_packages.REPO}/pipelines/examples/minimal.rs", f"{home}/src/main.rs")
    shutil.copy(f"{check_examples.RELEASE}/libgstdecart.so", home)
    system.must(f"set -e\n{BUILD}", network=True, limit=1500)
    print("ok examples: minimal.rs: it compiles on Debian 13", flush=True)
    Displayed.root = folder
    check_examples.Displayed = Displayed
    with running_standin() as url:
        check_examples.check_minimal(
            "minimal.rs: prompts are applied, and a refusal is printed",
            ["chroot", folder, f"{check_packages.HOME}/target/debug/minimal"], url, home,
            {"PATH": "/usr/sbin:/usr/bin", "HOME": check_packages.HOME, "GST_PLUGIN_PATH": check_packages.HOME})


if __name__ == "__main__":
    check_examples.Gst.init(None)
    check_packages.in_fresh_system("minimal.rs", build_and_run, check_examples.report)
