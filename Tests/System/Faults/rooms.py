"""Rows for LiveKit rooms: a stay that loses its signalling connection, its server or its address is resumed."""

import contextlib
import os
import queue
import socket
import threading
import time

import netlab
from session import Client, StandIn, long, row

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
        self.record = self.run.standin.sessions()[-1]

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
        after, record = client.stats(), run.standin.sessions()[-1]
        # Counted since the first fault, so that lost frames add up. As many as the latency holds may be in flight.
        sent, received = (after[name] - self.first[name] for name in ("frames-sent", "frames-received"))
        run.measure(f"{what}: frames lost", abs(sent - received), 3, "frames")
        run.measure(f"{what}: frames of the fallback", after["frames-fallback"] - self.before["frames-fallback"], 0, "frames")
        times = [frame.time for frame in client.frames if frame.is_new and frame.time >= self.since]
        gap = max((later - earlier for earlier, later in zip(times, times[1:])), default=99)
        made = record["room_offers"] - self.record["room_offers"]
        run.expect(made == offers, f"{what}: {made} offers, not {offers}")
        run.expect(record["room_joins"] == 1 and record["prompts"] == self.record["prompts"], f"{what}: {record}")
        run.expect(after["track-sid"] == self.sid and client.session() == self.session, f"{what}: another track or session")
        run.expect(not client.all("warning"), f"{what}: {client.all('warning')}")
        run.expect(times, f"{what}: no frame came back")
        run.note(f"{what}: {received} of {sent} frames so far, now at most {gap * 1000:.0f} ms apart")
        self.start()


@row("room resumed", 40, "a room's signalling is cut, refused for 3 s, told to resume and to move, cut 20 times")
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


@row("room resume refused", 25, "a room's signalling is cut, and the room refuses to resume")
def refused(run):
    client = run.start(*ROOM, standin=STANDIN)
    session = client.session()
    run.standin.inject("room_resume_refused")
    since = time.monotonic()
    run.standin.inject("room_cut")
    run.measure("new session", run.recovered(since, session, 20) - since, 3)
    session, since = client.session(), time.monotonic()
    run.standin.inject("room_restart")
    run.measure("new session after a restart of the media server", run.recovered(since, session, 20) - since, 3)
    run.expect(client.stats()["resumes"] == 0, "a resume was counted")
    run.finish()


class Proxy:
    """Forwards TCP connections in the client's namespace, what the service sends `delay` seconds late. It can stop those
    to a room without closing them."""

    def __init__(self, run, port=9100, delay=0):
        self.run, self.delay = run, delay
        self.stalled = []
        self.connections = []
        with netlab.inside(run.lab.client):
            self.listener = socket.create_server(("127.0.0.1", port))
        self.url = f"ws://127.0.0.1:{port}"
        threading.Thread(target=self.accept, daemon=True).start()
        run.open_labs.callback(self.close)

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        with contextlib.suppress(OSError):
            first = near.recv(65536)
            far = self.run.lab.connect(self.run.lab.client, netlab.SERVER, netlab.PORT)
            far.settimeout(None)
            far.sendall(first)
            pair = {"near": near, "far": far, "room": b"/rtc" in first.split(b"\r\n")[0], "stalled": False}
            self.connections.append(pair)
            threading.Thread(target=self.forward, args=(pair, far, near, self.delay), daemon=True).start()
            self.forward(pair, near, far)

    def forward(self, pair, source, target, delay=0):
        chunks = queue.SimpleQueue()
        threading.Thread(target=self.deliver, args=(pair, chunks, target), daemon=True).start()
        try:
            while chunk := source.recv(65536):
                chunks.put((time.monotonic() + delay, chunk))
        except OSError:
            pass  # a reset, which ends the other connection like an orderly end
        chunks.put((time.monotonic() + delay, b""))

    def deliver(self, pair, chunks, target):
        with contextlib.suppress(OSError):
            while True:
                due, chunk = chunks.get()
                time.sleep(max(0, due - time.monotonic()))
                if not pair["stalled"]:
                    target.sendall(chunk) if chunk else target.shutdown(socket.SHUT_RDWR)
                if not chunk:
                    return

    def stall(self):
        """Nothing passes on the connections to rooms any more; they stay open."""
        for pair in self.connections:
            pair["stalled"] = pair["room"]

    def close(self):
        self.listener.close()
        for pair in self.connections:
            pair["near"].close()
            pair["far"].close()


@row("room signalling stalled", 40, "a proxy stops forwarding a room's signalling without closing it")
def stalled(run):
    run.network()
    proxy = Proxy(run)
    run.start(*ROOM, standin=STANDIN, base_url=proxy.url)
    stay = Stay(run)
    proxy.stall()
    stay.resumed(1, 30)
    # A connection is lost if nothing arrives for 5 s after a ping.
    run.measure("resumed", time.monotonic() - stay.since, 10)
    stay.continues("stalled", 0)
    run.finish(gaps=False)


def open_sessions(run):
    return [each["number"] for each in run.standin.sessions() if each["state"] != "closed"]


@row("slow service", 90, "each message of the service comes 7 s late: the first connection and retries")
def slow(run):
    run.network()
    proxy = Proxy(run, delay=long(7, 1))
    run.standin = StandIn(run)
    run.client = client = Client(run, base_url=proxy.url)
    client.frame(seconds=40)
    run.expect(client.prompt("noir street")["accepted"], "the prompt was not accepted")
    for _ in range(2):
        session, since = client.session(), time.monotonic()
        run.standin.control("POST", "close?code=1012")
        run.recovered(since, session, 60)
    run.dialled(3)
    run.expect(len(open_sessions(run)) == 1, f"open sessions: {open_sessions(run)}")
    run.finish()


@row("slow service, given up", 12, "no answer of the service comes in time: no session is left there")
def given_up(run):
    run.network()
    proxy = Proxy(run, delay=600)
    run.standin = StandIn(run)
    run.client = client = Client(run, "connection-timeout=1", "max-retries=2", base_url=proxy.url)
    client.message("error", seconds=20)
    run.dialled(1, 3)
    until = time.monotonic() + 60
    while (open_sessions(run) or not run.standin.sessions()) and time.monotonic() < until:
        time.sleep(0.2)
    run.expect(run.standin.sessions(), "no dial reached the service: this proves nothing")
    run.expect(not open_sessions(run), f"open sessions: {open_sessions(run)}")
    run.finish(errors=1)


@row("room, another address", 30, "the client's address is replaced while it is in a room")
def address(run):
    client = run.start(*ROOM, standin=STANDIN)
    session, sid = client.session(), client.stats()["track-sid"]
    at = time.monotonic()
    run.lab.move_client()
    client.wait(5, "resume", lambda: True if client.stats()["resumes"] >= 1 else None)
    # The control channel's TCP connection has died with the address.
    state = client.wait(25, "the next session", lambda: next(
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


@row("room, stopped for 5 s", 50, "the process is stopped (SIGSTOP) for 5.3 s in a room, four times")
def stopped(run):
    """The remote streams time out at the moment when their packets arrive again."""
    client = run.start(*ROOM, standin=STANDIN)
    for number in range(long(4, 1)):
        woke = run.stop_client(5.3)
        run.measure("frames after a stop", client.frame(woke).time - woke, 1)
        time.sleep(2)
    # The frames that waited while the process was stopped come in a burst: their timestamps lead the clock for a moment.
    run.finish(gaps=False)


@row("room, nothing passes for 8 s", 30, "all packets are dropped for 8 s while the client is in a room")
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
    joins = [record["room_joins"] for record in run.standin.sessions() if record["id"] == session]
    run.expect(joins == [1], "the room was joined again")
    run.note(f"{client.stats()['resumes']} resumes")
    run.finish()
