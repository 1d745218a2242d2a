#!/usr/bin/python3
"""Runs pipelines/examples/manager.c against a stand-in and checks that what the process holds stays flat.

    check_manager.py [--seconds N] [--sessions N] [--round N] [--seed N]

The program adds, prompts and removes sessions at random and prints a line whenever all of them show frames, and two
lines without a session, one early and one at the end. Between the first and the last line with all sessions, descriptors
may differ by two, threads by 16 (dispatch's workers come and go), objects by 1 %. From the second one on, allocations may
grow by 12 MiB and RSS by 24 MiB. Between the two lines without a session, objects may not differ, descriptors by two,
and allocations may grow by 4 MiB. Prints "ok NAME" or "not ok NAME: why", and the
program's lines with "# ". Uses loopback only.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

from plugin_path import system_path
from standin import start_standin

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
RELEASE = os.environ.get("DECART_RELEASE", os.path.join(REPO, ".build", "release"))
ROW = re.compile(r" *([\d.]+) s: sessions (\d+), fds (\d+), threads (\d+), objects (-?\d+), allocated ([\d.]+) MiB, rss ([\d.]+) MiB, "
                 r"frames (\d+), added (\d+), prompted (\d+), accepted (\d+), removed (\d+)")
NAMES = ("time", "sessions", "fds", "threads", "objects", "allocated", "rss", "frames", "added", "prompted", "accepted", "removed")
GROWTH = {"allocated": 12, "rss": 24}  # MiB, with all sessions: buffers of older sessions are fuller
EMPTY_GROWTH = 4  # MiB allocated, without sessions
failed = False


def report(name, why=""):
    global failed
    failed = failed or bool(why)
    print(f"not ok manager: {name}: {str(why)[:400]}" if why else f"ok manager: {name}", flush=True)


def build(folder):
    program = os.path.join(folder, "manager")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "gstreamer-1.0"], capture_output=True, text=True,
                           check=True).stdout.split()
    subprocess.run(["cc", "-std=gnu11", "-Wall", "-Werror", "-O2", "-o", program,
                    os.path.join(REPO, "pipelines", "examples", "manager.c"), *flags], check=True)
    return program


def judge(rows, options):
    full = [row for row in rows if row["sessions"] == options.sessions]
    report("all sessions show frames in each round",
           "" if len(full) >= 3 and all(row["frames"] > 0 for row in full) else f"{len(full)} rounds")
    if len(full) < 3:
        return
    first, last = full[0], full[-1]
    report("sessions were added, prompted and removed",
           "" if last["added"] > options.sessions and last["accepted"] > 0 and last["removed"] > 0 else last)
    # A source may keep the buffer pool of its first negotiation beside the present one: two descriptors.
    for name, bound in (("fds", 2 * options.sessions), ("threads", 16), ("objects", first["objects"] / 100)):
        report(f"{name} are flat", "" if abs(last[name] - first[name]) <= bound else f"{first[name]} -> {last[name]}")
    for name, bound in GROWTH.items():
        report(f"{name} memory is flat",
               "" if last[name] - full[1][name] <= bound else f"{full[1][name]} -> {last[name]} MiB")
    empty = [row for row in rows if row["sessions"] == 0]
    early, late = empty[0], empty[-1]
    report("nothing is left at the end",
           "" if len(empty) == 2 and late["objects"] == early["objects"] and abs(late["fds"] - early["fds"]) <= 2
           and late["allocated"] - early["allocated"] <= EMPTY_GROWTH else f"{early} -> {late}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--round", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="decart-manager-")
    environment = {**os.environ, "GST_REGISTRY_1_0": os.path.join(folder, "registry"),
                   "GST_PLUGIN_SYSTEM_PATH_1_0": system_path(os.path.join(RELEASE, "libgstdecart.so"), folder),
                   # How the threads of 16 sessions fill their arenas is random.
                   "MALLOC_ARENA_MAX": "2"}
    standin, rows = None, []
    try:
        program = build(folder)
        standin, url = start_standin(RELEASE)
        result = subprocess.run(
            [program, "--sessions", str(options.sessions), "--seconds", str(options.seconds), "--round",
             str(options.round), "--seed", str(options.seed), f"base-url={url}", "api-key=x"],
            env=environment, capture_output=True, text=True, timeout=options.seconds + 200)
        for line in result.stdout.splitlines():
            print(f"# {line}", flush=True)
            if match := ROW.match(line):
                rows.append({name: float(value) for name, value in zip(NAMES, match.groups())})
        report("the program ends well", f"status {result.returncode}: {result.stderr[-300:]}" if result.returncode else "")
        if rows:
            judge(rows, options)
    finally:
        if standin:
            standin.terminate()
            standin.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
    sys.exit(failed)
