#!/usr/bin/python3
"""Measures a session on emulated networks beside libwebrtc (LiveKit's SDK) and webrtcbin, and prints Markdown.

    bench_network.py [--codec h264|vp8|vp9] [--runs N] [--seconds N] [--who NAME,...] [--only NETWORK,...]
                     [--set PROPERTY=VALUE]... [--keep FOLDER]

A session is what a room has by default: H.264 at 1280x704, 22 frames a second, at most 3.5 Mbit/s. --codec asks for another
codec, of which webrtcbin sends VP8 only.

The stand-in returns encoded frames as they came; the link of Faults/netlab.py lies between it and the client. Frames
have numbers (contestants.py): the latency of a frame is from handing it over to its display. NAME is one of
    ours          decarttransform with its defaults, `appsink sync=true processing-deadline=0`
    default-sink  the same with a sink's default deadline, 20 ms
    changed       the same as ours with the properties of --set
    libwebrtc     LiveKit's SDK for Python
    webrtcbin     webrtcbin on a direct connection
--keep writes two files for each session, NETWORK-NAME-RUN.csv (number, taken, displayed; seconds of the run) and .json:
the client's statistics, and the link's reports of each 0.2 s.

The contestants of a cell take turns; each turn has a seed of its own. Needs root, and the Python of scripts/lib.sh's
test_python. DECART_RELEASE names another folder with the built plugin and stand-in.
"""

import argparse
import collections
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

# The processes of the lab get priority over other load, as under scripts/verify.
VERIFYING = os.environ.setdefault("DECART_VERIFY", "bench") != "bench"
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "Faults"))
import netlab  # noqa: E402
import session  # noqa: E402
from networks import PRESETS  # noqa: E402

CLEAN = dict(delay=0, jitter=0, loss=0, burst=1, rate=0, queue=0)
NOTHING = 3  # s
SIZE, FRAMERATE, BITRATE = (1280, 704), 22, 3_500_000
FREE = dict(delay=.02, jitter=.002, rate=20e6, queue=100_000)
SQUEEZE = 8, 28  # s, from when to when the row of that name is narrow
# What a reader sees, and the link's settings by the second of a run from which they hold, for a run of so many seconds.
NETWORKS = {
    "clean": ("no delay, no loss", lambda _: {0: {}}),
    "wifi": ("5±2 ms, 1 % loss", lambda _: {0: PRESETS["wifi"][0]}),
    "wifi lossy": ("15±10 ms, 5 %", lambda _: {0: PRESETS["wifi lossy"][0]}),
    "cellular": ("50±15 ms, 2 %", lambda _: {0: PRESETS["cellular"][0]}),
    "wifi congested": ("10±20 ms, 9 %, 5 Mbit/s, 30 kB queue", lambda _: {0: PRESETS["wifi congested"][0]}),
    "1 Mbit/s": ("20 ms, 50 kB queue", lambda _: {0: dict(delay=.02, rate=1e6, queue=50_000)}),
    "500 kbit/s": ("20 ms, 40 kB queue", lambda _: {0: dict(delay=.02, rate=500e3, queue=40_000)}),
    "far": ("120±5 ms, 0.5 %", lambda _: {0: dict(delay=.12, jitter=.005, loss=.005, rate=100e6, queue=200_000)}),
    "satellite": ("300±10 ms, 1 %", lambda _: {0: dict(delay=.3, jitter=.01, loss=.01, rate=100e6, queue=500_000)}),
    "dip": ("2.5 Mbit/s, a third at 0.5, then 2.5; 20 ms, 60 kB queue",
            lambda seconds: {at: dict(delay=.02, rate=rate, queue=60_000) for at, rate in (
                (0, 2.5e6), (seconds / 3, 500e3), (seconds * 2 / 3, 2.5e6))}),
    "changing": ("a third clean, a third cellular, a third clean",
                 lambda seconds: {0: {}, seconds / 3: PRESETS["cellular"][0], seconds * 2 / 3: {}}),
    "interrupted": (f"clean, {NOTHING} s of nothing in the middle",
                    lambda seconds: {0: {}, (seconds - NOTHING) / 2: dict(loss=1), (seconds + NOTHING) / 2: {}}),
    "dim": ("no delay, no loss; 10 frames a second, at most 2 Mbit/s", lambda _: {0: {}}),
    "noise": ("no delay, no loss; a dark camera", lambda _: {0: {}}),
    "squeeze": ("20±2 ms, 20 Mbit/s, from second 8 to 28 300 kbit/s with a queue of 40 kB",
                lambda _: {0: FREE, SQUEEZE[0]: {**FREE, "rate": 300e3, "queue": 40_000}, SQUEEZE[1]: FREE}),
}
# What a row has of its own.
OWN = {"dim": dict(rate=10, bitrate=2_000_000), "noise": dict(noise=True), "squeeze": dict(seconds=68)}
# Name: the client that runs.
CONTESTANTS = {**dict.fromkeys(("ours", "default-sink", "changed"), "ours"), "libwebrtc": "libwebrtc",
               "webrtcbin": "webrtcbin"}
# Column, name of the figure, format.
COLUMNS = [("frames back, %", "back", ".1f"), ("while up", "while_up", ".1f"), ("at the service", "arrived", ".1f"),
           ("p50", "p50", ".0f"), ("p95", "p95", ".0f"), ("p99, ms", "p99", ".0f"), ("longest gap, ms", "gap", ".0f"),
           ("freezes > 200 ms", "freezes", ".0f"), ("PSNR p50", "psnr50", ".1f"), ("p10, dB", "psnr10", ".1f"),
           ("sharp after, s", "sharp", ".1f"), ("kbit/s up", "up", ".0f"), ("down", "down", ".0f"),
           ("CPU, %", "cpu", ".0f")]


# --- A run of a cell --------------------------------------------------------------------------------------------------

def seconds_of(network, options):
    return OWN.get(network, {}).get("seconds", options.seconds)


def start_client(run, network, who, options):
    words = {"who": CONTESTANTS[who], "url": f"ws://{netlab.SERVER}:{netlab.PORT}", "seconds": options.seconds,
             "deadline": 20_000_000 * (who == "default-sink"), "properties": options.set if who == "changed" else [],
             "size": SIZE, "rate": FRAMERATE, "framerate": FRAMERATE, "bitrate": BITRATE, "codec": options.codec,
             "noise": False, **OWN.get(network, {})}
    with open(os.path.join(run.folder, "client.log"), "ab") as log:
        return run.lab.start(run.lab.client, [sys.executable, f"{HERE}/contestants.py", json.dumps(words)],
                             stdout=subprocess.PIPE, stderr=log, env=run.environment)


def answer(run, client, seconds):
    """Returns the client's next line."""
    ready, _, _ = select.select([client.stdout], [], [], seconds)
    line = client.stdout.readline() if ready else b""
    found = json.loads(line) if line else {"error": f"no answer in {seconds} s; {run.log('client.log')[-1:]}"}
    if "error" in found:
        raise session.Failed(found["error"])
    return found


def perform(network, who, number, options, folder):
    """Runs one session. Returns its figures."""
    seconds = seconds_of(network, options)
    settings = {at: {**CLEAN, **link} for at, link in NETWORKS[network][1](seconds).items()}
    run = session.Row(f"{network} {who} {number}", folder, folder)
    try:
        run.network(link=settings[0], seed=number)
        standin = session.StandIn(run, "--transport", "both", "--echo-encoded")
        client = start_client(run, network, who, options)
        began = answer(run, client, 60)["began"]
        before = standin.sessions[-1]["frames_in"]
        for at in sorted(settings)[1:]:
            time.sleep(max(0, began + at - time.monotonic()))
            run.lab.link.set(**settings[at])
        time.sleep(max(0, began + seconds - time.monotonic()))
        arrived = standin.sessions[-1]["frames_in"] - before
        result = answer(run, client, 30)
        seen = [one for one in run.lab.link.seen if began <= one["t"] <= began + seconds]
    finally:
        run.close()
    taken, shown = ({int(one): at - began for one, at in result[name].items()} for name in ("taken", "shown"))
    psnr = {shown[int(one)]: value for one, value in result["psnr"].items()}
    if options.keep:
        keep(os.path.join(options.keep, f"{network} {who} {number}".replace(" ", "-").replace("/", "-")), taken, shown,
             {"began": began, "stats": result["stats"], "link": seen, "psnr": psnr})
    figures = {**judge(taken, shown, settings, seconds), **judge_picture(psnr, min(shown.values()), seconds)}
    if network == "squeeze":
        figures |= judge_squeeze(taken, shown, psnr)
    up, down = (sum(one[name] for one in seen) * 8 / 1000 / seconds for name in ("up_bytes", "down_bytes"))
    return {**figures, "arrived": min(100, 100 * arrived / figures["count"]), "up": up, "down": down,
            "cpu": 100 * result["cpu"] / seconds}


def judge(taken, shown, settings, seconds):
    """Figures of the frames that were taken in the time of the run, and of the display in it."""
    def is_up(at):
        return settings[max(begin for begin in settings if begin <= at)]["loss"] < 1

    counted = [number for number, at in taken.items() if 0 <= at < seconds]
    up = [number for number in counted if is_up(taken[number])]
    delays = sorted(shown[number] - taken[number] for number in counted if number in shown) or [float("nan")]
    times = [0, *sorted(at for at in shown.values() if 0 < at < seconds), seconds]
    gaps = [later - earlier for earlier, later in zip(times, times[1:])]
    return {"count": len(counted), "back": 100 * sum(number in shown for number in counted) / len(counted),
            "while_up": 100 * sum(number in shown for number in up) / len(up),
            **{f"p{share}": 1000 * delays[len(delays) * share // 100] for share in (50, 95, 99)},
            "gap": 1000 * max(gaps), "freezes": sum(gap > 0.2 for gap in gaps)}


def share(values, percent):
    return sorted(values)[len(values) * percent // 100] if values else float("nan")


def steady(psnr, begin, least):
    """Seconds from `begin` until five measured frames in a row have this PSNR."""
    row = 0
    for at in sorted(at for at in psnr if at >= begin):
        row = row + 1 if psnr[at] >= least else 0
        if row == 5:
            return at - begin
    return float("nan")


def judge_picture(psnr, first, seconds):
    """`psnr` has the PSNR of a frame at the time of its display; the session showed its first frame at `first`."""
    counted = [value for at, value in psnr.items() if 0 <= at < seconds]
    return {"psnr50": share(counted, 50), "psnr10": share(counted, 10),
            # The best single frame is no measure: libwebrtc's encoder spends its whole buffer on one frame now and then.
            "sharp": steady(psnr, first, share(list(psnr.values()), 90) - 2)}


def judge_squeeze(taken, shown, psnr):
    """Frames and picture while the link is narrow, and the time to the picture of before once it is free again."""
    begin, end = SQUEEZE
    counted = [number for number, at in taken.items() if begin <= at < end]
    before = [value for at, value in psnr.items() if begin - 4 <= at < begin]
    times = sorted(at for at in shown.values() if at > begin)
    delays = [shown[number] - taken[number] for number in counted if number in shown]
    return {"squeezed back, %": 100 * sum(number in shown for number in counted) / max(1, len(counted)),
            "squeezed p95, ms": 1000 * share(delays, 95),
            "squeezed PSNR p50": share([value for at, value in psnr.items() if begin + 2 <= at < end], 50),
            "squeezed longest gap, s": max((b - a for a, b in zip(times, times[1:]) if a < end), default=float("nan")),
            "full quality after, s": steady(psnr, end, share(before, 50) - 1)}


def keep(path, taken, shown, details):
    with open(f"{path}.csv", "w", encoding="ascii") as file:
        print("number,taken,displayed", file=file)
        for number, at in taken.items():
            print(number, f"{at:.4f}", f"{shown[number]:.4f}" if number in shown else "", sep=",", file=file)
    with open(f"{path}.json", "w", encoding="ascii") as file:
        json.dump(details, file, indent=1)


# --- The report -------------------------------------------------------------------------------------------------------

def bounds(network, ours, theirs):
    """Compares our medians with libwebrtc's: (what, value, unit, maximum or None, minimum or None)."""
    loss = max(link.get("loss", 0) for link in NETWORKS[network][1](60).values() if link.get("loss", 0) < 1)
    yield "p50, beyond libwebrtc's", ours["p50"] - theirs["p50"], "ms", 5, None
    yield "p95, beyond libwebrtc's", ours["p95"] - theirs["p95"], "ms", 10, None
    yield "frames back, beyond libwebrtc's", ours["back"] - theirs["back"], "points", None, -0.5
    yield "freezes, beyond libwebrtc's", ours["freezes"] - theirs["freezes"], "freezes", 1, None
    yield "PSNR p50, beyond libwebrtc's", ours["psnr50"] - theirs["psnr50"], "dB", None, -0.3
    yield "PSNR p10, beyond libwebrtc's", ours["psnr10"] - theirs["psnr10"], "dB", None, -0.5
    yield "sharp, beyond libwebrtc's", ours["sharp"] - theirs["sharp"], "s", 0.3, None
    if network == "squeeze":
        yield "full quality after the squeeze", ours["full quality after, s"], "s", 10, None
    if loss <= 0.05:
        yield "frames back while the link is up", ours["while_up"], "%", None, 99 if loss <= 0.02 else 98


def compare(network, who, ours, theirs):
    if not ours or not theirs:
        return f"| {network} | | | | not measured |"
    missed = []
    for what, value, unit, most, least in bounds(network, ours, theirs):
        if VERIFYING:
            session.measured(f"{network}: {who}: {what}", value, unit, at_most=most, at_least=least)
        if not (value <= most if least is None else value >= least):
            missed.append(f"{what}: {value:.3g} {unit}")
    ratios = " | ".join(f"{ours[key] / theirs[key]:.2f}" for key in ("p50", "p95", "up"))
    return f"| {network} | {ratios} | {'; '.join(missed) or 'none'} |"


def report(cells, options):
    print(f"Each cell has {' / '.join(options.who)}.\n")
    print(f"| network (each way) | {' | '.join(column for column, *_ in COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
    for network in options.only:
        figures = [cells[network, who] for who in options.who]
        texts = ["/".join(format(one[key], form) if one else "failed" for one in figures) for _, key, form in COLUMNS]
        print(f"| {network}: {NETWORKS[network][0]} | {' | '.join(texts)} |")
    for name, one in zip(options.who, (cells.get(("squeeze", who)) for who in options.who)):
        if one:
            print(f"\nsqueeze, {name}: " + ", ".join(f"{key} {one[key]:.1f}" for key in one if key.startswith(("squeezed", "full"))))
    for who in (name for name in options.who if CONTESTANTS[name] == "ours" and "libwebrtc" in options.who):
        rows = [compare(network, who, cells[network, who], cells[network, "libwebrtc"]) for network in options.only]
        print(f"\n{who}, divided by libwebrtc, and what is outside of its bound:\n\n| network | p50 | p95 | kbit/s up |"
              " outside |\n|---|---|---|---|---|", *rows, sep="\n")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codec", choices=("h264", "vp8", "vp9"), default="h264")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=19)
    parser.add_argument("--who", type=lambda text: text.split(","), metavar="NAME,...")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(NETWORKS), metavar="NETWORK,...")
    parser.add_argument("--set", action="append", default=[], metavar="PROPERTY=VALUE")
    parser.add_argument("--keep", metavar="FOLDER")
    options = parser.parse_args()
    options.who = options.who or ["ours", *(["changed"] if options.set else []), "libwebrtc",
                                  *(["webrtcbin"] if options.codec == "vp8" else [])]
    for given, known in ((options.who, CONTESTANTS), (options.only, NETWORKS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    if options.seconds <= NOTHING or options.runs < 1:
        parser.error(f"--seconds must be more than {NOTHING}, --runs at least 1")
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
    return options


def main():
    options, runs, load = parse_arguments(), collections.defaultdict(list), os.getloadavg()
    if why := netlab.available():
        sys.exit(f"not possible here: {why}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    netlab.sweep()
    turns = [(network, run, who) for network in options.only for run in range(options.runs) for who in options.who]
    with tempfile.TemporaryDirectory(prefix="decart-network-") as folder:
        if why := session.warm(folder):
            sys.exit(f"the plugin: {why}")
        for network, number, who in turns:
            try:
                figures = perform(network, who, number + 1, options, folder)
                runs[network, who].append(figures)
                said = ", ".join(f"{column} {figures[key]:{form}}" for column, key, form in COLUMNS)
            except Exception as error:  # The other cells are worth their time.
                said = f"failed: {type(error).__name__}: {error}"
            print(f"{network}, {who}, run {number + 1}: {said}", file=sys.stderr, flush=True)
    print(f"{options.codec.upper()} {SIZE[0]}x{SIZE[1]} at {FRAMERATE} frames a second, at most {BITRATE / 1e6:g} Mbit/s,"
          f" returned as it came; {options.seconds:g} s, medians"
          f" of {options.runs} runs{', changed: ' * bool(options.set)}{' '.join(options.set)}."
          ' "While up": of the frames taken while the link is up. A sink\'s default `processing-deadline` adds 20 ms.'
          " webrtcbin leaves congestion control to the application; here it has none."
          f" Load average at the start: {' '.join(f'{one:.2f}' for one in load)}.\n")
    cells = {(network, who): {key: statistics.median(one[key] for one in runs[network, who]) for key in runs[network, who][0]}
             if runs[network, who] else None for network, _, who in turns}
    report(cells, options)
    sys.exit(any(len(each) < options.runs for each in runs.values()))


if __name__ == "__main__":
    main()
