"""A copy of what pipelines/*.sh need: they write to .build and demo of their repository, so each check has one of its own.

The copy uses the finished build. Its `swift build` does nothing, because several would wait for each other. A script runs in
namespaces: its port is free, and nothing that it starts outlives it.
"""

import os
import shutil
import subprocess

from checks import NAMESPACES_UP, RELEASE, REPO, lacking, write

# debian/control lists the packages; the drivers in Swift import GStreamerKit, and one has the tests' cameras.
PARTS = ("pipelines", "scripts", "debian", "Sources/CGStreamer", "Sources/CRelease",
         "Tests/DecartElementsTests/Support/VirtualCameras.swift")
SWIFT = """#!/bin/sh
[ "$1" = build ] && exit 0
exec {swift} "$@"
"""


def checkout(folder):
    """Returns the path of a copy in the new folder `folder`, and an environment for its scripts."""
    for part in PARTS:
        source, target = os.path.join(REPO, part), os.path.join(folder, part)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.isdir(source):
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
    os.makedirs(os.path.join(folder, ".build"))
    os.symlink(RELEASE, os.path.join(folder, ".build", "release"))
    tools = os.path.join(folder, "tools")
    os.makedirs(tools)
    write(os.path.join(tools, "swift"), SWIFT.format(swift=shutil.which("swift") or "false"))
    os.chmod(os.path.join(tools, "swift"), 0o755)
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("GST_") and name != "DECART_API_KEY"}
    environment["PATH"] = f"{tools}:{os.environ['PATH']}"
    if os.environ.get("DECART_TEST_RUN") and os.path.exists(filled := os.environ.get("GST_REGISTRY_1_0", "")):
        # Where env.sh of the copy has its registry.
        shutil.copy(filled, os.path.join(folder, ".build", "gstreamer-1.0.registry"))
    return folder, environment


def run_script(folder, environment, name, *arguments, limit=250):
    """Returns the status (None: timeout) and the output of a script in pipelines/."""
    command = [*([] if lacking() else NAMESPACES_UP), os.path.join(folder, "pipelines", name), *arguments]
    try:
        done = subprocess.run(command, env=environment, timeout=limit,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        return None, f"not done within {limit} s: {(error.stdout or b'').decode(errors='replace')}"
