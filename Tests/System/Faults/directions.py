"""Rows for paths that work in one direction only: packets towards the service vanish, and what it sends arrives."""

import time

import netlab  # noqa: F401 the rows need its networks
from session import long, row

# Packets that come from the client, and those for it; of the first, SRTP and SRTCP (RFC 7983), and those that are longer
# than a tunnel takes.
UP = 'iifname "r0" meta l4proto udp'
DOWN = 'oifname "r0" meta l4proto udp'
MEDIA = f"{UP} @th,64,2 2"
LONG = f"{UP} meta length > 1200"
ROOM = ("transport=livekit", ("--transport", "livekit"))


def one_way(match, seconds, bound, *options, standin=()):
    def body(run):
        client, session, since = run.begin(*options, standin=standin)
        run.lab.drop(match)
        time.sleep(max(0, seconds - (time.monotonic() - since)))
        run.lab.heal()
        run.expect(run.lab.counter("dropped") > 0, "nothing was dropped")
        healed = time.monotonic()
        run.measure("frames after the return", client.frame(healed).time - healed, bound)
        time.sleep(long(6, 2))
        # A room's process dials one more for its next session.
        run.finish(dials=(1, 9))
    return body


def tunnel(*options, standin=()):
    """Packets of the usual size vanish for good: the next attempt sends shorter ones."""
    def body(run):
        # Noise, because frames of bars fit into shorter packets.
        client, session, since = run.begin("pattern=snow", *options, standin=standin)
        run.lab.drop(LONG)
        run.measure("frames of shorter packets", client.frame(since + 3, 40).time - since, 25)
        run.expect(run.lab.counter("dropped") > 0, "nothing was dropped")
        time.sleep(long(6, 2))
        run.finish(dials=(1, 9))
    return body


for _name, _options, _standin, _older in (("", (), (), ""), (" in a room", ROOM[:1], ROOM[1], "verify")):
    row(f"F30 uplink dead for 6 s{_name}", 30, "UDP towards the service is dropped for 6 s, and the other direction works",
        older=_older)(one_way(UP, 6, 3, *_options, standin=_standin))
    row(f"F30 uplink dead for 20 s{_name}", 60, "the same for 20 s", measures=True, older=_older)(
        one_way(UP, 20, 17, *_options, standin=_standin))
    row(f"F30 media up dropped for 6 s{_name}", 30, "SRTP towards the service is dropped for 6 s, and checks pass",
        older=_older)(one_way(MEDIA, 6, 4, *_options, standin=_standin))
    row(f"F30 long packets vanish{_name}", 60, "packets over 1200 bytes towards the service vanish in mid-session",
        older=_older)(tunnel(*_options, standin=_standin))
