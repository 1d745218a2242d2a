"""Rows for LiveKit rooms: a stay that loses its signalling connection, its server or its address is resumed."""

import os
import subprocess
import time

from session import Skipped, long, row

ROOM = ("transport=livekit",)
STANDIN = ("--transport", "livekit")


def count(client):
    """Returns threads and descriptors of the client's process."""
    folder = f"/proc/{client.process.pid}"
    return len(os.listdir(f"{folder}/task")), len(os.listdir(f"{folder}/fd"))


class Stay:
    """The figures of a stay before a fault, and the checks that it continues."""

    def __init__(self, run):
        self.run, self.client = run, run.client
        self.session = self.client.session()
        self.sid = self.client.stats()["track-sid"]
        self.first = self.client.stats()
        self.start()

    def start(self):
        self.before, self.since = self.client.stats(), time.monotonic()
        self.record = self.run.standin.sessions[-1]

    def resumed(self, count, seconds=10):
        """Waits until the stand-in has served at least this many resumes in all."""
        return self.client.wait(seconds, f"resume {count}", lambda: (
            True if self.client.stats()["resumes"] >= count else None))

    def resumes_at_rest(self):
        """The number of resumes once it has not changed for three seconds, which is longer than between two cuts."""
        count, since = self.client.stats()["resumes"], time.monotonic()
        until = since + 90
        while time.monotonic() < min(since + 3, until):
            time.sleep(0.2)
            if (now := self.client.stats()["resumes"]) != count:
                count, since = now, time.monotonic()
        return count

    def continues(self, what, offers):
        """Checks the time since `start`: frames come back, and the session is the same."""
        run, client = self.run, self.client
        client.frame(time.monotonic())
        time.sleep(long(2, 1))
        after, record = client.stats(), run.standin.sessions[-1]
        # Counted since the first fault, so that lost frames add up. As many as the latency holds may be in flight.
        sent, received = (after[name] - self.first[name] for name in ("frames-sent", "frames-received"))
        run.measure(f"{what}: frames lost", abs(sent - received), 3, "frames")
        run.measure(f"{what}: frames of the fallback", after["frames-fallback"] - self.before["frames-fallback"], 0, "frames")
        gap = run.measure_gap(what, self.since, 500)
        made = record["room_offers"] - self.record["room_offers"]
        run.expect(made == offers, f"{what}: {made} offers, not {offers}")
        run.expect(record["room_joins"] == 1 and record["prompts"] == self.record["prompts"], f"{what}: {record}")
        run.expect(after["track-sid"] == self.sid and client.session() == self.session, f"{what}: another track or session")
        run.expect(not client.all("warning"), f"{what}: {client.all('warning')}")
        run.note(f"{what}: {received} of {sent} frames so far, now at most {gap:.0f} ms apart")
        self.start()


@row("room resumed", 40, "a room's signalling is cut, refused for 3 s, told to resume and to move, cut 20 times",
     older="gate")
def resumed(run):
    run.start(*ROOM, standin=STANDIN)
    stay = Stay(run)
    for number, (spec, offers) in enumerate((
            ("room_cut", 0), ("room_cut:for=3", 0), ("room_leave_resume", 1), ("room_leave_migrate", 1),
            ("room_cut:n=20,interval=0.2", 0))):
        if number == 4:
            figures = count(run.client)
        run.standin.inject(spec)
        stay.resumed(number + 1)
        if number == 4:
            # A cut during a resume does not add one, so their number depends on the machine.
            run.measure("resumes after 20 cuts", stay.resumes_at_rest() - 4, 20, "resumes", at_most=False)
        stay.continues(spec, offers)
    # The agent of a restart that has replaced another one receives for two more seconds, and pools keep idle threads.
    most, until = [value + 1 for value in figures], time.monotonic() + 60
    while any(now > bound for now, bound in zip(count(run.client), most)) and time.monotonic() < until:
        time.sleep(0.5)
    run.expect(all(now <= bound for now, bound in zip(count(run.client), most)),
               f"threads and descriptors {figures}, a minute after 20 resumes {count(run.client)}")
    run.finish(dials=(7, 60))


@row("room, next session", 15, "the process begins another session, and one more when the connection made ahead leads nowhere",
     older="verify")
def next_session(run):
    client = run.start(*ROOM, standin=STANDIN)

    def made_ahead(dials):
        """Waits until the session has its two connections, and the process one for the next session."""
        until = time.monotonic() + 10
        while (run.lab.dials() < dials or run.lab.established() != 3) and time.monotonic() < until:
            time.sleep(0.05)
        found = run.lab.dials(), run.lab.established()
        run.expect(found == (dials, 3), f"{found[1]} connections of {found[0]}, not 3 of {dials}")

    made_ahead(3 + run.more_dials)
    for what, bound, leads in (("the next session", 1, True), ("a session whose connection leads nowhere", 4, False)):
        session, before = client.session(), run.lab.dials()
        if not leads:
            run.lab.drop_dialled()
        at = client.request("restart", "restart")["t"]
        client.frames.clear()
        run.measure(f"{what}: transformed frame", client.frame(at, seconds=30).time - at, bound)
        run.expect(client.session() not in (None, session), f"{what} is the same")
        run.expect(not client.all("warning"), f"{what}: {client.all('warning')}")
        # To the room, and for the session after it; the control channel dials only in the second case.
        made_ahead(before + (2 if leads else 3))
    run.finish(gaps=False)


@row("room, another address", 30, "the client's address is replaced while it is in a room", older="verify")
def address(run):
    client = run.start(*ROOM, standin=STANDIN)
    session, sid = client.session(), client.stats()["track-sid"]
    at = time.monotonic()
    run.lab.move_client()
    client.wait(5, "resume", lambda: True if client.stats()["resumes"] >= 1 else None)
    # The control channel's TCP connection has died with the address.
    state = client.wait(40, "the next session", lambda: next(
        (message for message in client.all("decart-state", at)
         if message.get("session-id") not in (None, session) and message["connected"]), None))
    client.frame(state["t"], seconds=5)
    times = [frame.time for frame in client.frames if frame.is_new and frame.time >= at - 0.1]
    gaps = [(later - earlier, later) for earlier, later in zip(times, times[1:])]
    run.measure("without a new frame", max((gap for gap, end in gaps if end < at + 4), default=4), 2)
    run.measure("without a new frame, at the change to the next session", max(
        (gap for gap, end in gaps if end >= at + 4), default=99), 2)
    run.note(f"next session connected {state['t'] - at:.1f} s after the change")
    run.expect(client.stats()["track-sid"] not in (None, "", sid), "the next session has the same track")
    run.finish()


@row("room, stopped for 5 s", 50, "the process is stopped (SIGSTOP) for 5.3 s in a room, four times", older="verify")
def stopped(run):
    """The remote streams time out at the moment when their packets arrive again."""
    client = run.start(*ROOM, standin=STANDIN)
    for number in range(long(4, 1)):
        woke = run.stop_client(5.3)
        run.measure("frames after a stop", client.frame(woke).time - woke, 1)
        time.sleep(2)
    # The frames that waited while the process was stopped come in a burst: their timestamps lead the clock for a moment.
    run.finish(gaps=False)


@row("room, nothing passes for 8 s", 30, "all packets are dropped for 8 s while the client is in a room", older="verify")
def outage(run):
    client = run.start(*ROOM, standin=STANDIN)
    session, sid = client.session(), client.stats()["track-sid"]
    run.lab.drop()
    time.sleep(8)
    run.lab.heal()
    healed = time.monotonic()
    run.measure("transformed frame", client.frame(healed, seconds=20).time - healed, 2)
    time.sleep(long(10, 4))
    run.expect(client.session() == session and client.stats()["track-sid"] == sid, "another session or track")
    # An attempt at another session may have begun while nothing passed; it is given up when frames come again.
    joins = [record["room_joins"] for record in run.standin.sessions if record["id"] == session]
    run.expect(joins == [1], "the room was joined again")
    run.note(f"{client.stats()['resumes']} resumes")
    run.finish()


@row("room migrates", 20, "the room's server closes media and signalling without a reason, as in a migration",
     older="verify")
def migrates(run):
    """The session is the same, and the room is joined again."""
    client = run.start(*ROOM, standin=STANDIN)
    session = client.session()
    run.standin.inject("room_migrate")
    at = time.monotonic()
    client.wait(15, "another join", lambda: True if run.standin.sessions[-1]["room_joins"] == 2 else None)
    client.frame(time.monotonic(), seconds=15)
    run.measure_gap("migration", at, 3000)
    run.expect(client.session() == session and len(run.standin.sessions) == 1, f"{run.standin.sessions}")
    run.expect(not client.all("warning"), f"{client.all('warning')}")
    run.finish(gaps=False)


@row("room closes media first", 20, "the room's server closes DTLS 0.1 s before it says that the client was removed", older="verify")
def closes_first(run):
    """The reason of the room is known, not that of the connection."""
    client = run.start(*ROOM, standin=STANDIN)
    since = time.monotonic()
    run.standin.inject("room_alert_first")
    run.recovered(since, client.session(), 20)
    run.measure_gap("DTLS closed", since, 5000)
    said = [warning["text"] for warning in client.all("warning", since)]
    run.expect(len(said) == 1 and "participantRemoved" in said[0], f"{said}")
    run.expect(len(run.standin.sessions) == 2, f"{len(run.standin.sessions)} sessions")
    run.finish(gaps=False)


def sends(codec):
    """Adds a row for a room whose service sends `codec`, while its offer lists fourteen payload types."""
    @row(f"room sends {codec}", 15, f"the element sends its default codec, the service {codec}",
         older="gate" if codec == "h264" else "verify", measures=codec == "h265")
    def sent(run):
        if codec == "h265" and subprocess.run(["gst-inspect-1.0", "--exists", "x265enc"], check=False).returncode:
            raise Skipped("x265enc is not installed (gstreamer1.0-plugins-bad)")
        client = run.start(*ROOM, standin=(*STANDIN, "--server-codec", codec))
        run.measure("first frame", run.connected_in * 1000, 2000, "ms")
        time.sleep(long(5, 0))
        first = client.frame()
        client.frame(time.monotonic())
        run.measure_gap(codec, first.time, 500)
        decoder = client.stats()["decoder"]
        run.expect(codec.split("-")[0][-3:] in decoder, f"decoder {decoder}")
        record = run.standin.sessions[-1]
        run.expect(record["room_joins"] == 1 and len(run.standin.sessions) == 1, f"{record}")
        run.expect(not client.all("warning"), f"{client.all('warning')}")
        run.finish()


for codec in ("h264", "h264-mode0", "vp8", "vp9", "h265"):
    sends(codec)


@row("room, states and tracks", 55, "a room pauses, mutes, publishes more tracks or the same one again, and changes the codec in "
     "mid-session",
     older="verify")
def states(run):
    """None of it is a stall: the stay, its session and its track are the same afterwards. The other track, of one colour, has no
    new frames."""
    client = run.start(*ROOM, standin=STANDIN)
    session, began = client.session(), time.monotonic()
    for spec, seconds, silence in (
            ("room_pause:for=3", 3, 3), ("room_mute_output:for=3", 3, 3), ("room_second_track:for=2", 2, 2),
            ("room_second_server:for=2", 2, 2), ("room_codec_change:codec=vp8", 0, 0),
            ("room_codec_change:codec=h264", 0, 0), ("generation_restart:at=0,delay=1,output=new_sid", 1, 1)):
        at = time.monotonic()
        run.standin.inject(spec)
        time.sleep(seconds + long(1.5, 0.5))
        if codec := spec.partition("codec=")[2]:
            client.wait(15, f"decoder of {codec}", lambda codec=codec: True if codec in client.stats()["decoder"] else None)
        client.frame(time.monotonic(), seconds=15)
        run.measure_gap(spec, at, 500, silence)
        record = run.standin.sessions[-1]
        run.expect(record["room_joins"] == 1 and client.session() == session, f"{spec}: {record}")
        run.expect(client.stats()["resumes"] == 0, f"{spec}: the room was resumed")
        run.expect(not client.all("warning"), f"{spec}: {client.all('warning')}")
    # The server ends a track with black frames.
    run.expect(not any(frame.kind == "b" for frame in client.frames if frame.time > began), "a black frame")
    run.finish(gaps=False)


@row("room, 300 kbit/s down", 45, "3.5 Mbit/s of a room meet a downlink of 300 kbit/s for 20 s, which carries everything again then",
     measures=True, older="verify")
def narrow_downlink(run):
    """Another session would meet the same network: the stay goes on, says so, and asks for no more than the path carries."""
    run.network(link=dict(delay=.02), seed=7)
    client = run.start(*ROOM, "pattern=snow", standin=(*STANDIN, "--bitrate", "3500000", "--fixed-bitrate"), look=None)
    session, before = client.session(), client.stats()
    begun = time.monotonic()
    run.lab.link.set(down={"rate": 300_000, "queue": 30_000})
    lasts = 20
    time.sleep(lasts)
    after, record = client.stats(), run.standin.sessions[-1]
    # A busy machine encodes less; it is too much for the downlink all the same.
    offered = sum(one["down_bytes"] for one in run.lab.link.seen if begun - 1 <= one["t"] < begun) * 8
    run.measure("the service's bitrate before", offered / 1000, 2000, "kbit/s", at_most=False)
    run.expect(client.session() == session and record["room_joins"] == 1, f"{record}")
    run.expect(after["resumes"] == before["resumes"], "the room was resumed")
    said = [warning["text"] for warning in client.all("warning", begun)]
    run.expect(len(said) == 1 and "carries too little" in said[0], f"{said}")
    requested = {name: after[name] - before[name] for name in ("nacks-sent", "plis-sent")}
    run.measure("packets requested again", requested["nacks-sent"] / lasts, 50, "a second")
    run.measure("keyframes requested", requested["plis-sent"] / lasts, 1.5, "a second")
    run.lab.link.set(down={})
    at = time.monotonic()
    run.measure("transformed frame after the release", client.frame(at, seconds=15).time - at, 3)
    run.expect(client.session() == session, "another session after the release")
    run.note(f"{offered / 1000:.0f} kbit/s before; {requested}; {said}")
    run.finish(gaps=False)


@row("room that adapts, 300 kbit/s down", 45, "the same with a room that lowers the bitrate to what the element's REMB says",
     measures=True, older="verify")
def adapted_downlink(run):
    run.network(link=dict(delay=.02), seed=7)
    client = run.start(*ROOM, "pattern=smpte", standin=(*STANDIN, "--bitrate", "3500000"), look=None)
    session = client.session()
    run.lab.link.set(down={"rate": 300_000, "queue": 60_000})
    begun = time.monotonic()
    time.sleep(10)
    before, since = client.stats(), time.monotonic()
    time.sleep(10)
    received = client.stats()["frames-received"] - before["frames-received"]
    waits = sorted(one["down_wait"] for one in run.lab.link.seen if one["t"] >= since)
    run.measure("frames, 10 s after the throttling and later", received / 10, 5, "a second", at_most=False)
    run.measure("queueing of half of the packets", waits[len(waits) // 2], 0.8)
    run.expect(received > 0 and client.session() == session, f"{received} frames, {client.session()}")
    run.expect(client.stats()["resumes"] == 0, "the room was resumed")
    run.note(f"{received} frames in 10 s; warnings {[warning['text'] for warning in client.all('warning', begun)]}")
    run.finish(gaps=False)
