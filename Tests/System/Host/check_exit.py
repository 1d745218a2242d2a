#!/usr/bin/python3
"""Ends Python programs whose session still plays, in standby after EOS, and checks that each of them exits cleanly.

The interpreter ends by pthread_exit each thread that calls into it while it finalises. Prints "ok NAME" or "not ok NAME:
why". Uses loopback only.
"""

import os
import subprocess
import sys
import tempfile

from plugin_path import registry, system_path
from standin import start_standin

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
RELEASE = os.environ.get("DECART_RELEASE", os.path.join(REPO, ".build", "release"))
EXITS = 12
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
    with tempfile.TemporaryDirectory() as folder:
        standin, url = start_standin(RELEASE)
        environment = dict(os.environ, URL=url, DECART_API_KEY="canary-key-4711", GST_REGISTRY_1_0=registry(folder),
                           GST_PLUGIN_SYSTEM_PATH_1_0=system_path(os.path.join(RELEASE, "libgstdecart.so"), folder))
        ends = []
        try:
            for _ in range(EXITS):
                ended = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True,
                                       timeout=60)
                if ended.returncode or "ends" not in ended.stdout:
                    ends.append(f"{ended.returncode} {ended.stdout[-100:]}{ended.stderr[-200:]}".strip())
        finally:
            standin.terminate()
            standin.wait(20)
    why = f"{len(ends)} of {EXITS} exits: {ends[0]}" if ends else ""
    print(f"not ok exit: a Python program may end while its session plays: {why}" if why else
          "ok exit: a Python program may end while its session plays")
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
