#!/usr/bin/python3
"""The fault suite: the built plugin in a host program, and the stand-in, joined by networks of namespaces.

    check_faults.py [--at-once N] [--keep] [--list] [--without WORD...] [WORD...]

With WORDs it runs only the rows whose name contains one of them, or the others with --without. Rows that have only figures run by name, or if
scripts/verify runs this program (DECART_VERIFY); the waits of the others are longer then too.

Prints "ok NAME", "not ok NAME: why" or "skip NAME: why", and "measured NAME: FIGURE". Rows run in parallel, each in its
own namespaces.
"""

import argparse
import concurrent.futures
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import browser  # noqa: E402, F401 registers its rows
import directions  # noqa: E402, F401
import faults  # noqa: E402, F401
import firewalls  # noqa: E402, F401
import load  # noqa: E402, F401
import netlab  # noqa: E402
import networks  # noqa: E402, F401
import renewals  # noqa: E402, F401
import rooms  # noqa: E402, F401
import session  # noqa: E402
import standby  # noqa: E402, F401
from session import VERIFYING, Results, measured  # noqa: E402

report = Results("faults")


def perform(row, folder):
    run = session.Row(row.name, folder, folder)
    try:
        row.body(run)
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
    runs = {}
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for number, row in enumerate(sorted(rows, key=lambda row: -row.seconds)):
            runs[row.name] = pool.submit(perform, row, folder)
            if number < at_once:
                time.sleep(0.3)  # avoid simultaneous start-ups
    return {name: run.result() for name, run in runs.items()}


def show(rows, done):
    for row in rows:
        run = done[row.name]
        for what, value, unit, bound, at_most in run.measures:
            measured(f"faults: {row.name}: {what}", value, unit, **{"at_most" if at_most else "at_least": bound})
        for note in [f"took {run.took:.0f} s", *run.notes]:
            print(f"# {row.name}: {note}")
        if run.troubles:
            # A rare failure must explain itself: the row's folder is removed.
            for name in ("messages", "client.log", "standin.log"):
                for line in run.log(name)[-60:]:
                    print(f"# {row.name}: {name}: {line.rstrip()[:300]}")
        if run.skipped and not run.troubles:
            report.skip(f"{row.name}: {run.skipped}")
        else:
            report(row.name, run.troubles)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--at-once", type=int, default=3 if VERIFYING else 4, help="number of rows that run in parallel")
    parser.add_argument("--keep", action="store_true", help="keep the folder of logs")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--without", action="store_true", help="run the rows whose name contains none of the words")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    named = [row for row in session.ROWS if any(word in row.name for word in options.words)]
    rows = (named if options.words and not options.without else
            [row for row in session.ROWS if row not in named and (VERIFYING or not row.measures)])
    if options.list:
        for row in rows:
            print(f"{row.name:34} {row.seconds:4} s  {row.title}")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if (why := netlab.available()):
        return report.skip(why)
    netlab.sweep()
    folder = tempfile.mkdtemp(prefix="decart-faults-")
    try:
        why = session.warm(folder) if os.path.exists(session.PLUGIN) else f"{session.PLUGIN} does not exist"
        if why:
            report("the plugin", why)
        else:
            show(rows, perform_all(rows, options.at_once, folder))
    finally:
        if options.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
