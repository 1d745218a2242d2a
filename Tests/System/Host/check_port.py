#!/usr/bin/python3
"""Checks that the stand-in with --port 0 listens on a port that is free at 127.0.0.1 and at ::1.

In namespaces of its own, where the kernel selects one of three ports. Others have two of them at ::1. Prints "ok NAME", "not
ok NAME: why" or "skip NAME: why".
"""

import contextlib
import socket
import subprocess
import sys

from checks import NAMESPACES_UP, Results, lacking, write
from standin import running_standin

LIMIT = 60  # s


def listen_beside_others():
    write("/proc/sys/net/ipv4/ip_local_port_range", "50000 50002")
    with contextlib.ExitStack() as others:
        for port in (50001, 50002):
            others.enter_context(socket.socket(socket.AF_INET6)).bind(("::1", port))
        print(others.enter_context(running_standin(stderr=None)))


def main():
    if sys.argv[1:] == ["--listen"]:
        return listen_beside_others()
    report = Results("port")
    if missing := lacking():
        return report.skip(f"no {missing}")
    run = subprocess.run([*NAMESPACES_UP, sys.executable, __file__, "--listen"], capture_output=True, text=True, timeout=LIMIT,
                         stdin=subprocess.DEVNULL, check=False)
    report("--port 0 selects a port that is free at 127.0.0.1 and ::1",
           "" if run.stdout.strip() == "ws://127.0.0.1:50000" else run.stdout + run.stderr)
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
