#!/usr/bin/python3
"""Ends programs whose session still plays and checks that each of them exits cleanly: in Python, in standby after EOS; in C, with
what OpenSSL does at the end.

The interpreter ends by pthread_exit each thread that calls into it while it finalises. Prints "ok NAME" or "not ok NAME:
why". Uses loopback only.
"""

import os
import subprocess
import sys
import tempfile

from checks import Results, compile_c, gstreamer
from standin import running_standin

EXITS = 12
# PyGObject calls handlers although the interpreter has ended, as it does with `level` in place of the element: nothing that
# follows is the element's. It takes a machine so busy that a message comes between that end and the process's.
AFTER_THE_END = "invalid return from bus sync handler"
PROGRAM = """
import os, random, sys, threading
import gi
gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst
Gst.init(None)
pipeline = Gst.parse_launch(
    f"videotestsrc num-buffers=60 ! decarttransform name=t base-url={os.environ['URL']} ! fakesink")
element = pipeline.get_by_name("t")
loop = GLib.MainLoop()
for name in ("connection-state", "generation-seconds", "connection-quality"):
    element.connect(f"notify::{name}", lambda *_: sum(range(20_000)))
bus = pipeline.get_bus()
bus.set_sync_handler(lambda *_: Gst.BusSyncReply.PASS)
bus.add_signal_watch()
bus.connect("message::eos", lambda *_: (element.set_property("standby", True), GLib.timeout_add(random.randint(0, 60), loop.quit)))
bus.connect("message::error", lambda _, message: (print(message.parse_error()), os._exit(3)))
pipeline.set_state(Gst.State.PLAYING)
loop.run()
print("ends")
sys.exit()
"""


def main():
    report, ends = Results("exit"), []
    with tempfile.TemporaryDirectory() as folder, running_standin() as url:
        environment = {**gstreamer(folder, os.environ), "URL": url, "DECART_API_KEY": "canary-key-4711"}
        for _ in range(EXITS):
            ended = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60)
            if "ends" not in ended.stdout or ended.returncode and AFTER_THE_END not in ended.stderr:
                ends.append(f"{ended.returncode} {ended.stdout[-100:]}{ended.stderr[-200:]}".strip())
        probe = compile_c(os.path.join(os.path.dirname(os.path.abspath(__file__)), "exit_probe.c"), os.path.join(folder, "probe"),
                          "-Wall", "-Wextra", "-Werror", packages=("gstreamer-1.0", "libcrypto"))
        for when in ("before", "after"):
            ended = subprocess.run([probe, when], env={**environment, "DECART_BASE_URL": url}, capture_output=True, text=True,
                                   timeout=120, check=False)
            report(f"a program that uses OpenSSL {when} the element may end while its session plays",
                   f"status {ended.returncode} {ended.stdout}{ended.stderr[-200:]}" if ended.returncode else "")
    report("a Python program may end while its session plays", f"{len(ends)} of {EXITS} exits: {ends[0]}" if ends else "")
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
