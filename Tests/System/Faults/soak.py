#!/usr/bin/python3
"""Runs one pipeline for half an hour with a fault every 20 to 40 s: checks recoveries, their bounds and resources.

    soak.py [--minutes N] [--seed N] [--table FILE]

Prints a line for each fault, then the tables. Exits with 1 if a recovery missed its bound, the pipeline ended or posted
an error, showed the wrong prompt or a decreasing PTS, or if since minute 2 (half of the time, in a run of less than
four minutes) RSS grew by more than 16 MiB, allocations by more than 4 MiB, or threads or descriptors by more than one.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time

import directions
import netlab
import renewals
import session

MIB = 1 << 20
WAITS = (1, 2, 4, 8, 10)  # s before a retry; the count is reset after 30 s of a stable connection
CONNECT = 2  # s from a dial to the first frame
SLACK = 1  # s, for other work of the machine
ANY = 17  # s after any outage: hanging dial, longest wait, connecting


class Fault:
    """Holds the actions of a fault, its duration (s), whether the session survives (None: either way), and the recovery
    bound (s)."""

    def __init__(self, name, begin, end=None, lasts=0.0, bound=None, same=False):
        self.name, self.begin, self.end, self.lasts, self.bound, self.same = name, begin, end, lasts, bound, same


def choose(rng, lab, service, client, in_room):
    wait = WAITS[min(client.state().get("retries", 0), len(WAITS) - 1)]
    moment = rng.uniform(0.5, 3)
    code = rng.choice((1001, 1011, 1012, 1013))
    address = f"10.77.1.{rng.randint(10, 250)}"
    resumes = ("room_cut", "room_cut:for=2", "room_cut:n=5,interval=0.3", "room_leave_resume", "room_leave_migrate")
    # Half of the faults in a room are resumes.
    if in_room and rng.random() < 0.5:
        spec = rng.choice(resumes)
        return Fault(spec, lambda: service.inject(spec), bound=1, same=True)
    return rng.choice((
        Fault(f"F1 close {code}", lambda: service.request("POST", f"/control/close?code={code}"), bound=wait + CONNECT),
        Fault("F1 reset", lambda: service.request("POST", "/control/drop"), bound=wait + CONNECT),
        Fault("F2 killed", service.kill, service.start, rng.uniform(1, 12), ANY),
        Fault("F6 nothing passes", lab.drop, lab.heal, moment, 1, same=True),
        Fault("F7 nothing passes", lab.drop, lab.heal, rng.uniform(7, 12), ANY, same=None),
        Fault("F10 TCP dropped", lambda: lab.drop("meta l4proto tcp"), lab.heal, 12, ANY, same=None),
        Fault("F9 UDP dropped", lambda: lab.drop("meta l4proto udp"), lab.heal, rng.uniform(7, 10), ANY, same=None),
        Fault("F30 uplink dead", lambda: lab.drop(directions.UP), lab.heal, rng.uniform(2, 12), ANY, same=None),
        Fault("F30 downlink dead", lambda: lab.drop(directions.DOWN), lab.heal, rng.uniform(2, 12), ANY, same=None),
        Fault("F30 media up dropped", lambda: lab.drop(directions.MEDIA), lab.heal, rng.uniform(2, 12), ANY, same=None),
        Fault("F11 another address", lambda: lab.move_client(address), bound=2 + wait + CONNECT,
              same=None),
        Fault("F13 stopped", client.pause, client.resume, rng.uniform(2, 10), wait + CONNECT + 1, same=None),
        Fault("media silent", lambda: service.inject("media_silent:at=0"), bound=15.5 + wait + CONNECT),
        Fault("media stall", lambda: service.inject("media_silent:at=0,for=8"), bound=9, same=True),
        Fault("standby", lambda: client.send("set", name="standby", value=True),
              lambda: client.send("set", name="standby", value=False), rng.uniform(3, 10), 1, same=True),
        Fault("mute", lambda: service.inject("mute:at=0"), bound=10 + wait + CONNECT),
    ))


def soak(run, minutes, rng, in_room):
    # How a dozen threads fill sixteen arenas is random: without this limit RSS grew by 20 MiB here while only 0.8 MiB
    # more were allocated.
    room = (["transport=livekit"], ["--transport", "livekit"]) if in_room else ([], [])
    # Tokens that permit 45 s let renewals meet the faults.
    client = run.start("max-retries=-1", *renewals.KEYS, *room[0],
                       standin=("--max-session-duration", "45", *room[1]), variables={"MALLOC_ARENA_MAX": "2"})
    begun, rows, samples = time.monotonic(), [], {}
    early = min(120, minutes * 30)

    def since():
        return time.monotonic() - begun

    while since() < minutes * 60 - 30:
        time.sleep(rng.uniform(20, 40))
        if not samples and since() >= early:
            samples["early"] = (since(), client.memory())
        client.prompt(f"noir {len(rows)}")
        fault = choose(rng, run.lab, run.standin, client, in_room)
        old, at = client.session(), time.monotonic()
        fault.begin()
        time.sleep(fault.lasts)
        if fault.end:
            fault.end()
        back = time.monotonic()
        if fault.name == "F13 stopped":
            run.stops.append((at, back))
        try:
            if fault.same is False:
                took = run.recovered(at, old, 40) - back
            else:
                took = client.frame(back, 40).time - back
                if fault.same is None:
                    # A service that timed out the stopped client closes after the client resumes.
                    time.sleep(fault.bound)
                    client.frame(time.monotonic(), 40)
        except session.Failed as failed:
            took = float("inf")
            run.troubles.append(f"{fault.name}: {failed}")
        kept = took <= fault.bound + SLACK
        run.expect(kept, f"{fault.name} after {at - begun:.0f} s: {took:.2f} s, bound {fault.bound:g}")
        rows.append((fault.name, fault.lasts, max(took, 0), fault.bound, kept))
        held = client.memory() if took < float("inf") else None
        print(f"{since():7.1f} s  {fault.name:20} for {fault.lasts:4.1f} s, back after {max(took, 0):5.2f} s "
              f"(bound {fault.bound:g} s)" + ("" if kept else "  MISSED")
              + (f"; {held['used'] / MIB:.1f} MiB in use, {held['rss'] / MIB:.1f} resident" if held else ""), flush=True)
        if not held:
            break
    time.sleep(10)
    samples["late"] = (since(), client.memory())
    run.finish(gaps=False)
    return rows, samples


def judge(run, samples):
    if "early" not in samples:
        run.troubles.append("too short to compare")
        return
    before, after = samples["early"][1], samples["late"][1]
    run.expect(after["rss"] <= before["rss"] + 16 * MIB, "RSS grew by more than 16 MiB")
    run.expect(after["used"] <= before["used"] + 4 * MIB, "allocations grew by more than 4 MiB")
    run.expect(after["threads"] <= before["threads"] + 1, "threads grew")
    run.expect(after["fds"] <= before["fds"] + 1, "descriptors grew")


def tables(run, rows, samples, head):
    gaps = [after.time - before.time - run.stopped(before.time, after.time)
            for before, after in zip(run.client.frames, run.client.frames[1:])]
    lines = [head, "", "| fault | times | median, s | slowest, s | bound, s | missed |", "|---|---|---|---|---|---|"]
    for name in sorted({row[0] for row in rows}):
        mine = sorted(row[2] for row in rows if row[0] == name)
        bounds = sorted({f"{row[3]:g}" for row in rows if row[0] == name}, key=float)
        missed = sum(not row[4] for row in rows if row[0] == name)
        lines.append(f"| {name} | {len(mine)} | {mine[len(mine) // 2]:.2f} | {mine[-1]:.2f} | "
                     f"{bounds[0] + ('–' + bounds[-1] if len(bounds) > 1 else '')} | {missed} |")
    lines += ["", "| | allocated, MiB | RSS, MiB | threads | fds |", "|---|---|---|---|---|"]
    for at, held in samples.values():
        lines.append(f"| {at / 60:.1f} min | {held['used'] / MIB:.1f} | {held['rss'] / MIB:.1f} | {held['threads']} "
                     f"| {held['fds']} |")
    lines += ["", f"{len(run.client.all('decart-session-renewed'))} renewals; {len(run.client.frames)} buffers; the longest "
              f"gap was {max(gaps) * 1000:.0f} ms, {sum(gap > session.GAP for gap in gaps)} were over "
              f"{session.GAP * 1000:.0f} ms."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--room", action="store_true", help="run in a LiveKit room, with faults that are resumed")
    parser.add_argument("--table", help="also write the tables to this file")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if (why := netlab.available()):
        sys.exit(f"soak: {why}")
    netlab.sweep()
    room = " --room" if options.room else ""
    head = f"`scripts/soak --minutes {options.minutes:g} --seed {options.seed}{room}`, {time.strftime('%Y-%m-%d')}."
    print(head, flush=True)
    folder = tempfile.mkdtemp(prefix="decart-soak-")
    run = None
    try:
        if (why := session.warm(folder)):
            sys.exit(f"soak: the plugin: {why}")
        run = session.Row("soak", folder, folder)
        try:
            rows, samples = soak(run, options.minutes, random.Random(options.seed), options.room)
            judge(run, samples)
            text = tables(run, rows, samples, head)
            print("\n" + text)
            if options.table:
                with open(options.table, "w", encoding="utf-8") as file:
                    file.write(text)
        except session.Failed as failed:
            run.troubles.append(str(failed))
    finally:
        if run:
            run.close()
        shutil.rmtree(folder, ignore_errors=True)
    for trouble in run.troubles:
        print(f"FAILED: {trouble}")
    sys.exit(bool(run.troubles))


if __name__ == "__main__":
    main()
