#!/usr/bin/python3
"""The fault suite: the built plugin in a host program, and the stand-in, joined by networks of namespaces.

    check_faults.py [--table FILE] [--at-once N] [--all] [--keep] [--list] [WORD...]

With WORDs it runs only the rows whose name contains one of them.

Prints "ok NAME", "not ok NAME: why" or "skip NAME: why". Rows run in parallel, each in its own namespaces.
"""

import argparse
import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import browser  # noqa: E402, F401 registers its rows
import faults  # noqa: E402, F401
import firewalls  # noqa: E402, F401
import load  # noqa: E402, F401
import netlab  # noqa: E402
import networks  # noqa: E402, F401
import renewals  # noqa: E402, F401
import rooms  # noqa: E402, F401
import session  # noqa: E402
import standby  # noqa: E402, F401


def perform(row, folder):
    name, _, _, body, _ = row
    run = session.Row(name, folder, folder)
    try:
        body(run)
    except session.Skipped as skipped:
        run.skipped = str(skipped)
    except session.Failed as failed:
        run.troubles.append(str(failed))
    except Exception as error:  # an error in a row's code fails only that row
        run.troubles.append(f"{type(error).__name__}: {error} at {traceback.extract_tb(error.__traceback__)[-1]}")
    finally:
        try:
            run.close()
        except Exception as error:
            run.troubles.append(f"clean-up: {error}")
    run.took = time.monotonic() - run.begun
    return run


def perform_all(rows, at_once, folder):
    """Runs the longest rows first, so that no single row delays the end."""
    waiting, done, lock = queue.SimpleQueue(), {}, threading.Lock()
    for row in sorted(rows, key=lambda row: -row[1]):
        waiting.put(row)

    def worker():
        while True:
            try:
                row = waiting.get_nowait()
            except queue.Empty:
                return
            run = perform(row, folder)
            with lock:
                done[row[0]] = run

    workers = [threading.Thread(target=worker) for _ in range(at_once)]
    for thread in workers:
        thread.start()
        time.sleep(0.3)  # avoid simultaneous start-ups
    for thread in workers:
        thread.join()
    return done


def report(rows, done):
    for row in rows:
        run = done[row[0]]
        why = "; ".join(run.troubles).replace("\n", " ")[:500]
        print(f"not ok faults: {row[0]}: {why}" if why else
              f"skip faults: {row[0]}: {run.skipped}" if run.skipped else f"ok faults: {row[0]}", flush=True)


def table(rows, done):
    lines = ["| row | fault | measured | bound | longest gap | |", "|---|---|---|---|---|---|"]
    for name, _, title, _, _ in rows:
        run = done[name]
        gap = f"{run.worst_gap * 1000:.0f} ms" if hasattr(run, "worst_gap") else "–"
        measured = "<br>".join(f"{what} {value:.2f} s" for what, value, _ in run.measures)
        bounds = "<br>".join(f"{bound:g} s" for _, _, bound in run.measures)
        remarks = "; ".join(run.notes + (["**failed**: " + "; ".join(run.troubles)] if run.troubles else []))
        lines.append(f"| {name} | {title} | {measured or '–'} | {bounds or '–'} | {gap} | {remarks} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", help="write the measured recoveries to this file, in Markdown")
    parser.add_argument("--at-once", type=int, default=4, help="number of rows that run in parallel")
    parser.add_argument("--keep", action="store_true", help="keep the folder of logs")
    parser.add_argument("--all", action="store_true", help="also run the rows that are known to fail")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    rows = [row for row in session.ROWS
            if (any(word in row[0] for word in options.words) if options.words else options.all or not row[4])]
    if options.list:
        for name, seconds, title, _, known_failure in rows:
            print(f"{name:34} {seconds:4} s  {title}" + (f" [known to fail: {known_failure}]" if known_failure else ""))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if (why := netlab.available()):
        print(f"skip faults: {why}")
        return
    netlab.sweep()
    folder = tempfile.mkdtemp(prefix="decart-faults-")
    failed = True
    try:
        if not os.path.exists(session.PLUGIN):
            print(f"not ok faults: the plugin: {session.PLUGIN} does not exist")
            sys.exit(1)
        if (why := session.warm(folder)):
            print(f"not ok faults: the plugin: {why}")
            sys.exit(1)
        done = perform_all(rows, options.at_once, folder)
        report(rows, done)
        failed = any(run.troubles for run in done.values())
        if options.table:
            with open(options.table, "w", encoding="utf-8") as file:
                file.write(table(rows, done))
    finally:
        if options.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
