#!/usr/bin/python3
"""Runs pipelines/examples/manager.c against a stand-in and checks that what the process holds stays flat.

The program adds, prompts and removes sessions at random and prints a line whenever all of them show frames, and two
lines without a session, one early and one at the end. Between the two lines without a session, objects may not differ and
descriptors by two. That is what scripts/test checks, in a short run. The rest are figures for scripts/verify
(DECART_VERIFY=1): between the first and the last line with all sessions, what descriptors, threads (the workers
come and go) and objects differ by; the growth of allocations and RSS from the second one on, as buffers of older sessions
are fuller; and the growth of allocations without a session. Prints "ok NAME" or "not ok NAME: why", and the program's
lines with "# ". Uses loopback only.
"""

import os
import re
import subprocess
import sys
import tempfile

from checks import REPO, VERIFYING, Results, compile_c, gstreamer, measured
from standin import running_standin

# A line of the program: "1.5 s: sessions 2, fds 30, …".
ROW = re.compile(r" *[\d.]+ s: sessions ")
FIGURE = re.compile(r"(\w+) (-?[\d.]+)")
GROWTH = {"allocated": 12, "rss": 24}  # MiB, with all sessions
SECONDS, SESSIONS, ROUND = (30, 16, 8) if VERIFYING else (30, 6, 4)
EMPTY_GROWTH = 4  # MiB allocated, without sessions
report = Results("manager")


def judge(rows):
    full = [row for row in rows if row["sessions"] == SESSIONS]
    report("all sessions show frames in each round",
           "" if len(full) >= 2 and all(row["frames"] > 0 for row in full) else f"{len(full)} rounds")
    if len(full) < 2:
        return
    first, last = full[0], full[-1]
    report("sessions were added, prompted and removed",
           "" if last["added"] > SESSIONS and last["accepted"] > 0 and last["removed"] > 0 else last)
    # A source may keep the buffer pool of its first negotiation beside the present one: two descriptors.
    for name, bound in (("fds", 2 * SESSIONS), ("threads", 16), ("objects", first["objects"] / 100)):
        measured(f"manager: difference of {name}, all sessions", abs(last[name] - first[name]), name, at_most=bound)
    if len(full) >= 3:
        for name, bound in GROWTH.items():
            measured(f"manager: growth of {name} memory, all sessions", last[name] - full[1][name], "MiB", at_most=bound)
    empty = [row for row in rows if row["sessions"] == 0]
    early, late = empty[0], empty[-1]
    report("nothing is left at the end",
           "" if len(empty) == 2 and late["objects"] == early["objects"] and abs(late["fds"] - early["fds"]) <= 2
           else f"{early} -> {late}")
    measured("manager: growth of allocated memory, no session", late["allocated"] - early["allocated"], "MiB", at_most=EMPTY_GROWTH)


def main():
    rows = []
    with tempfile.TemporaryDirectory(prefix="decart-manager-") as folder, running_standin() as url:
        # How the threads of 16 sessions fill their arenas is random.
        environment = {**gstreamer(folder, os.environ), "MALLOC_ARENA_MAX": "2"}
        program = compile_c(f"{REPO}/pipelines/examples/manager.c", f"{folder}/manager", "-Wall", "-Werror", "-O2")
        result = subprocess.run(
            [program, "--sessions", str(SESSIONS), "--seconds", str(SECONDS), "--round", str(ROUND), "--seed", "1",
             f"base-url={url}", "api-key=x"], env=environment, capture_output=True, text=True, timeout=SECONDS + 200)
        for line in result.stdout.splitlines():
            print(f"# {line}", flush=True)
            if ROW.match(line):
                rows.append({name: float(value) for name, value in FIGURE.findall(line)})
        report("the program ends well", f"status {result.returncode}: {result.stderr[-300:]}" if result.returncode else "")
        if rows:
            judge(rows)


if __name__ == "__main__":
    main()
    sys.exit(report.failed)
