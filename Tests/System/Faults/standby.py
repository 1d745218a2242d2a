"""Rows for `standby`: what it costs, and how soon the transformed frames come back."""

import statistics
import time

import netlab
from session import VERIFYING, row

# bit/s that leave the client: RTCP, STUN, pings, acknowledgements and the headers of Ethernet and IP.
QUIET = 2000


def sent_bytes(run):
    """Bytes that the client's interfaces have sent, without loopback."""
    with netlab.inside(run.lab.client), open("/proc/thread-self/net/dev", encoding="ascii") as table:
        lines = [line.split(":") for line in table if ":" in line]
    return sum(int(numbers.split()[8]) for name, numbers in lines if name.strip() != "lo")


def ticks(run):
    return run.standin.sessions[-1]["ticks"]


def standby(rounds, quiet, bound, *standin, properties=(), dials=1):
    """`rounds` times standby and back, after a standby of `quiet` seconds; `bound` for the median in seconds."""
    def body(run):
        run.network()
        client = run.start(*properties, standin=standin)
        session = client.session()
        delays = []
        for number in range(rounds):
            client.request("set", "set", name="standby", value=True)
            # Frames in flight, and the packets that end the generation.
            time.sleep(4 if number == 0 else 0.5)
            if number == 0:
                before, bytes_before, since = ticks(run), sent_bytes(run), time.monotonic()
                time.sleep(quiet)
                rate = (sent_bytes(run) - bytes_before) * 8 / (time.monotonic() - since)
                # A few packets more or less count in a short time: pings come every 5 s, consent checks every 10 s.
                run.measure("up in standby", rate, QUIET if quiet >= 30 else 2 * QUIET, "bit/s")
                # Video alone would be more than ten times as much.
                run.expect(rate < 10 * QUIET, f"{rate:.0f} bit/s up in standby")
                run.expect(ticks(run) == before, f"{ticks(run) - before} ticks in standby")
                run.expect(not any(f.is_new for f in client.frames if f.time > since), "a new frame in standby")
            back = client.request("set", "set", name="standby", value=False)["t"]
            delays.append(client.frame(back).time - back)
        run.measure("transformed frames after", statistics.median(delays), bound)
        until = time.monotonic() + 30
        while ticks(run) == before and time.monotonic() < until:
            time.sleep(0.2)
        run.expect(ticks(run) > before, "no ticks after the standby")
        run.expect(client.session() == session, "another session")
        run.expect(not client.all("warning"), f"warnings: {[w['text'] for w in client.all('warning')]}")
        run.finish(dials=dials)
    return body


def in_room(rounds, quiet, bound, *standin):
    # The second connection is the signalling of the room, and the third one waits for the next session.
    return standby(rounds, quiet, bound, "--transport", "livekit", *standin, properties=("transport=livekit",), dials=3)


@row("standby, dead path", 60, "UDP is dropped in standby; TCP continues")
def dead_path(run):
    run.network()
    client = run.start()
    session = client.session()
    client.request("set", "set", name="standby", value=True)
    time.sleep(4)
    since = time.monotonic()
    run.lab.drop("meta l4proto udp")
    run.measure("noticed", client.message("warning", since, 45)["t"] - since, 30)
    run.lab.heal()
    back = time.monotonic()
    client.request("set", "set", name="standby", value=False)
    run.measure("frames after the return", client.frame(back).time - back, 8)
    run.expect(client.session() != session, "the same session")
    run.finish()


LENGTHS = (50, 60) if VERIFYING else (2, 4)
row("standby", 120, "standby for a minute, and 50 times back: same session, nothing billed")(standby(*LENGTHS, 0.15))
row("standby, room", 120, "the same in a room", older="verify")(in_room(*LENGTHS, 0.15))
row("standby, withdrawn output", 30, "the same in a room that withdraws its output meanwhile", older="verify")(
    in_room(2, 4, 1, "--idle-output", "new_mid"))
