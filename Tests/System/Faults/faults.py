"""Rows for the faults F1 to F28: each runs in its own network and compares the measured times with bounds.

A row is a function with a `Row` as its argument. Bounds are those of the fault table, in seconds from the start of the
fault unless noted.
"""

import contextlib
import glob
import os
import socket
import struct
import subprocess
import threading
import time

import coturn
import netlab
from session import GAP, Client, Skipped, StandIn, long, row


# --- The service goes away --------------------------------------------------------------------------------------


def closes(code):
    def body(run):
        client, session, since = run.begin()
        run.standin.request("POST", "/control/drop" if code == 1006 else f"/control/close?code={code}")
        run.measure("new session", run.recovered(since, session, 10) - since, 3)
        run.expect(len(client.all("warning", since)) == 1, "not exactly one warning")
        run.finish(dials=2)
    return body


for _code in (1001, 1011, 1012, 1006):
    row(f"F1 close {_code}", 8, f"the service closes the WebSocket ({_code})")(closes(_code))


def earliest(retry):
    """The back-off's waits are 1, 2, 4, 8 and 10 s, of which jitter takes a fifth at most."""
    return 0.8 * sum((1, 2, 4, 8, 10)[:retry])


def killed(away, bound, dials):
    """The number of dials follows from the back-off's table, so it is a figure: a slow machine dials once less."""
    def body(run):
        client, session, since = run.begin()
        run.standin.kill()
        time.sleep(max(0, away - (time.monotonic() - since)))
        run.standin.start()
        recovered = run.recovered(since, session, bound + 10) - since
        run.measure("new session", recovered, bound)
        # One for the first session.
        most = 1 + sum(earliest(retry) <= recovered for retry in range(1, 6))
        run.measure("dials", run.dialled(2, most), dials, "dials", at_most=False)
        run.finish()
    return body


row("F2 killed, back after 2 s", 12, "the service is killed and back after 2 s")(killed(2, 5, 3))
for _away, _bound, _dials in ((5, 9, 4), (10, 17, 5), (18, 27, 6)):
    row(f"F3 killed, back after {_away} s", _bound + 6, f"the service is killed and back after {_away} s",
        measures=_away > 5)(killed(_away, _bound, _dials))


def stall(*options, standin=(), dials=1):
    def body(run):
        client, session, since = run.begin(*options, standin=standin)
        run.standin.inject("media_silent:for=8")
        warning = client.message("warning", since, 10)
        run.measure("warning", warning["t"] - since, 6)
        run.expect("media-timeout" in warning["text"], f"the warning: {warning['text']}")
        run.measure("frames after the stall", client.frame(since + 7).time - since, 9)
        time.sleep(long(10, 3))
        run.expect(client.session() == session, "another session")
        run.expect(len(client.all("warning")) == 1, f"warnings: {[w['text'] for w in client.all('warning')]}")
        run.expect(client.stats()["ice-restarts"] > 0, "ICE was not restarted")
        run.expect(len(run.standin.sessions) == 1, f"{len(run.standin.sessions)} sessions, not 1")
        run.finish(dials=dials)
    return body


row("F28 media stall", 32, "the service sends no frame for 8 s, the network is healthy: same session")(stall())
# A room has two connections to the same port, and is resumed once; a third waits for the next session.
row("F28 media stall in a room", 32, "the same in a room", older="verify")(
    stall("transport=livekit", standin=("--transport", "livekit"), dials=4))


# --- The network goes away --------------------------------------------------------------------------------------


def silence(seconds):
    def body(run):
        client = run.start()
        session = client.session()
        run.lab.drop()
        time.sleep(seconds)
        run.lab.heal()
        healed = time.monotonic()
        # Frames in flight at the cut have left the jitter buffer long ago.
        run.measure("frames after the return", client.frame(healed).time - healed, 1)
        time.sleep(long(8, 3))
        run.expect(client.session() == session, "another session")
        run.expect(not client.all("warning"), f"warnings: {[w['text'] for w in client.all('warning')]}")
        run.expect(all(frame.kind in "nr" for frame in client.frames if frame.time > healed),
                   "a frame shows another prompt")
        run.finish(dials=1)
    return body


for _seconds in (1, 2, 3):
    # The watchdog acts after three seconds without media: three seconds are a race on a slow machine.
    row(f"F6 nothing for {_seconds} s", 16, f"all packets dropped for {_seconds} s, same session",
        measures=_seconds != 2)(silence(_seconds))


def lost(seconds, break_it, mend):
    """The path is lost, and comes back with the same addresses: the same session goes on."""
    def body(run):
        client, session, since = run.begin()
        break_it(run.lab)
        if seconds > 5:
            run.measure("noticed", client.message("warning", since, 10)["t"] - since, 5.5)
        time.sleep(max(0, seconds - (time.monotonic() - since)))
        mend(run.lab)
        back = time.monotonic()
        run.measure("frames after the return", client.frame(back).time - back, 2)
        time.sleep(long(8, 3))
        run.expect(client.session() == session, "another session")
        run.expect(client.prompt("noir again")["accepted"], "the control channel does not work any more")
        run.expect(all(frame.kind in "nr" for frame in client.frames if frame.time > back),
                   "a frame shows another prompt")
        run.finish(dials=(1, 3))
    return body


def link_down(lab):
    lab.ip(lab.client, "link set c0 down")


def link_up(lab):
    lab.ip(lab.client, "link set c0 up")
    lab.ip(lab.client, f"route replace default via {netlab.ROUTER_NEAR}")


row("F7 nothing for 8 s", 32, "all packets dropped for 8 s, same session")(
    lost(8, netlab.Lab.drop, netlab.Lab.heal))
for _seconds in (3, 8):
    row(f"F7 interface down for {_seconds} s", 32, f"the client's interface is down for {_seconds} s, same session",
        measures=_seconds != 3)(lost(_seconds, link_down, link_up))


@row("F7 NAT rebinding", 24, "a NAT forgets its mappings and gives UDP other ports; TCP continues")
def rebinding(run):
    client, session, since = run.begin()
    run.lab.rebind([(port, 20_000 + number) for number, port in enumerate(run.lab.udp_ports())])
    # The stand-in sends to the port that is gone, until ICE restarts.
    run.measure("frames after the rebinding", client.frame(since + 0.5).time - since, 2)
    time.sleep(long(6, 2))
    run.expect(client.session() == session, "another session")
    run.expect(not client.all("warning"), f"warnings: {[w['text'] for w in client.all('warning')]}")
    run.finish(dials=1)


def outage(seconds, bound, dials):
    def body(run):
        client, session, since = run.begin()
        run.lab.drop()
        noticed = client.message("warning", since, 10)["t"]
        run.measure("noticed", noticed - since, 5.5)
        time.sleep(max(0, seconds - (time.monotonic() - since)))
        run.lab.heal()
        healed = time.monotonic()
        run.measure("new session after the return", run.recovered(since, session, 30) - healed, bound)
        run.finish(dials=dials)
    return body


# Dials at 6 and 23 s, each for 15 s.
row("F8 nothing for 30 s", 48, "all packets dropped for 30 s")(outage(30, 8, (3, 4)))


def turn(run, tls=False):
    """Starts coturn in the stand-in's namespace, where it relays locally. Returns the element's properties."""
    if not coturn.INSTALLED:
        raise Skipped("coturn is not installed")
    certificate, key = (os.path.join(run.folder, name) for name in ("turn.pem", "turn.key"))
    if tls:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3",
             "-keyout", key, "-out", certificate, "-subj", "/CN=turn", "-addext", f"subjectAltName=IP:{netlab.SERVER},DNS:turn.test"],
            check=True, capture_output=True)
    encryption = ["--tls-listening-port", "5349", "--cert", certificate, "--pkey", key] if tls else ["--no-tls"]
    run.lab.start_turn(run.folder, "test:pass", "--allow-loopback-peers", *encryption)
    if tls:
        return f'turn-servers=<"turns://test:pass@{netlab.SERVER}:5349">', f"ca-file={certificate}"
    return f'turn-servers=<"turn://test:pass@{netlab.SERVER}:3478?transport=tcp">'


@row("F9 UDP dropped for good", 20, "UDP is dropped for good while media flow; TURN over TCP is available")
def f9(run):
    run.network()
    client = run.start(turn(run))
    run.expect(not client.stats()["relayed"], "relayed before there was a reason")
    session, since = client.session(), time.monotonic()
    run.lab.drop("meta l4proto udp")
    # Frames in flight arrive for a moment. The control channel answers, so ICE restarts, over the relay.
    run.measure("frames over the relay", client.frame(since + 1).time - since, 5)
    run.expect(client.stats()["relayed"], "not relayed")
    run.expect(client.session() == session, "another session")
    run.finish()


def f10(seconds):
    def body(run):
        client, session, since = run.begin()
        run.lab.drop("meta l4proto tcp")
        run.measure("noticed", client.message("warning", since, 15)["t"] - since, 10)
        time.sleep(max(0, seconds - (time.monotonic() - since)))
        run.lab.heal()
        healed = time.monotonic()
        back = run.recovered(since, session, 20)
        run.measure("new session after the return", back - healed, 6)
        time.sleep(1)
        times = [frame.time for frame in client.frames if frame.is_new and since <= frame.time]
        run.measure("longest time without a new frame", max(
            after - before for before, after in zip(times, times[1:])), GAP)
        run.expect(any(since + 10 < at < healed for at in times), "media stopped with the control channel")
        run.finish()
    return body


# After 14 s TCP retransmits what the client sent on the lost channel before its dials get through.
for _seconds in (14, 15):
    row(f"F10 TCP dropped for {_seconds} s", 32, f"TCP is dropped for {_seconds} s, media continue",
        measures=_seconds != 14)(f10(_seconds))


@row("F11 another address", 20, "the client's address is replaced")
def f11(run):
    client, session, since = run.begin()
    run.lab.move_client()
    run.measure("noticed", client.message("warning", since, 12)["t"] - since, 1)
    run.measure("new session", run.recovered(since, session, 20) - since, 2)
    run.finish()


@row("F11 another interface", 14, "another interface and its address come and go: nothing changes")
def f11_other(run):
    client = run.start()
    session = client.session()
    run.lab.ip(run.lab.client, "link add d0 type veth peer name d1")
    for _ in range(5):
        run.lab.ip(run.lab.client, "addr add 172.17.0.1/16 dev d0")
        run.lab.ip(run.lab.client, "link set d0 up")
        time.sleep(0.3)
        run.lab.ip(run.lab.client, "addr flush dev d0")
        time.sleep(0.3)
    run.expect(client.session() == session and not client.all("warning"), "a reconnect or a warning")
    run.finish(dials=1)


# --- The process stops, the clock jumps -------------------------------------------------------------------------


@row("F13 stopped for 30 s", 48, "the process is stopped (SIGSTOP) for 30 s")
def f13(run):
    client = run.start()
    woke = run.stop_client(30)
    # The service may have dropped the session: only new, continuing frames count.
    client.frame(woke + 4, kinds="n", what="frame of the acknowledged prompt 4 s after waking")
    frames = [frame for frame in client.frames if frame.time > woke and frame.is_new]
    steady = next((late for early, late in zip(frames, frames[1:]) if late.time - early.time > GAP), frames[0]) \
        if frames else None
    if steady:
        run.measure("steady after waking", steady.time - woke, 4)
    run.expect(client.state().get("retries", 0) <= 1, f"{client.state().get('retries')} retries")
    run.finish(dials=(1, 2))


@row("F14 wall clock", 60, "the wall clock jumps +1 h, -1 h, +1 day, each time before a prompt's acknowledgement")
def f14(run):
    library = next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), None)
    if library is None:
        raise Skipped("libfaketime is not installed (package faketime)")
    setting = os.path.join(run.folder, "clock")

    def shift(seconds):
        # Written by rename, so that the client never reads a partial file.
        with open(setting + ".new", "w", encoding="ascii") as file:
            file.write(f"{seconds:+d}")
        os.rename(setting + ".new", setting)

    shift(0)
    client = run.start(variables={
        "LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": setting, "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DISABLE_SHM": "1"})
    session = client.session()
    run.standin.inject("ack_late:delay=3")
    for number, seconds in enumerate((3600, -3600, 86400)):
        request = client.request("prompt", "request", text=f"noir {number}")
        time.sleep(0.5)
        shift(seconds)
        wall = client.request("clock", "clock")["wall"]
        run.expect(abs(wall - time.time() - seconds) < 5, "the client's clock did not jump: this proves nothing")
        result = client.message("decart-prompt-result", seconds=10, id=request["id"])
        run.expect(result["accepted"] and result["milliseconds"] >= 2500, f"prompt during the jump: {result}")
        run.measure(f"prompt during the jump of {seconds} s", result["milliseconds"] / 1000, 4)
        # Longer than the timeouts of ping, watchdog and consent; one that took the jump for time would be due at once.
        time.sleep(long(11, 2))
    run.expect(client.session() == session and not client.all("warning"), "a reconnect or a warning")
    times = [frame.time for frame in client.frames if frame.is_new]
    run.measure("longest time without a new frame", max(after - before for before, after in zip(times, times[1:])), 0.5)
    run.finish(dials=1)


# --- Names, addresses ---------------------------------------------------------------------------------------------


class NameServer:
    """A name server with the same A and AAAA answers for every name, or none while silent."""

    def __init__(self, run, address, v4=None, v6=None):
        self.answers = {1: v4 and socket.inet_aton(v4), 28: v6 and socket.inet_pton(socket.AF_INET6, v6)}
        self.silent = False
        self.queried = []
        with netlab.inside(run.lab.server):
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 53))
        self.socket.settimeout(0.2)
        self.ended = False
        run.lab.resolve_with(address)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        run.open_labs.callback(self.close)

    def serve(self):
        while not self.ended:
            try:
                query, sender = self.socket.recvfrom(4096)
            except TimeoutError:
                continue
            at, labels = 12, []
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode())
                at += 1 + query[at]
            self.queried.append(".".join(labels))
            question = query[12:at + 5]
            data = self.answers.get(int.from_bytes(question[-4:-2], "big"))
            if self.silent:
                continue
            answer = b"\xc0\x0c" + question[-4:] + struct.pack(">IH", 1, len(data)) + data if data else b""
            with contextlib.suppress(OSError):
                self.socket.sendto(query[:2] + b"\x81\x80\x00\x01" + struct.pack(">H", bool(data)) + b"\0\0\0\0"
                                   + question + answer, sender)

    def close(self):
        self.ended = True
        self.thread.join()
        self.socket.close()


@row("F15 DNS down", 45, "the name server is silent, and the service closes the WebSocket")
def f15(run):
    run.network()
    names = NameServer(run, netlab.SERVER, v4=netlab.SERVER)
    client, session, since = run.begin(base_url=f"ws://service.test:{netlab.PORT}")
    names.silent = True
    run.standin.request("POST", "/control/close?code=1012")
    # The first retry begins after a second at most, and its name lookup times out 5 s later.
    client.message("warning", since + 0.5, 10)
    run.measure("noticed", client.all("warning", since + 0.5)[0]["t"] - since, 1 + 5)
    time.sleep(max(0, long(20, 8) - (time.monotonic() - since)))
    names.silent = False
    back = time.monotonic()
    # Lookups hang at 1-6, 8-13 and 17-22 s; the next one is at 30 s.
    run.measure("new session after the return", run.recovered(since, session, 30) - back, 12)
    run.expect(len(names.queried) > 1, "no query while the name server was silent")
    run.finish()


@row("F15 AAAA dead", 12, "the name's IPv6 address does not respond, its IPv4 address works")
def f15_dual(run):
    run.network(family="both")
    run.lab.drop("ip6 daddr fd77:2::dead")
    names = NameServer(run, netlab.SERVER, v4=netlab.SERVER, v6="fd77:2::dead")
    client = run.start(base_url=f"ws://service.test:{netlab.PORT}")
    run.measure("dial", client.stats()["connect-open-time"] / 1e9, 1)
    run.expect(names.queried, "no query reached the name server")
    run.finish(dials=2)


@row("F16 IPv6 only", 12, "a network without IPv4")
def f16(run):
    run.network(family="6")
    run.start(base_url=f"ws://[{netlab.SERVER6}]:{netlab.PORT}", host=netlab.SERVER6)
    run.measure("connected", run.connected_in, 2)
    run.finish(dials=1)


@row("F22 wrong fingerprint", 10, "the answer has the fingerprint of another certificate")
def f22(run):
    run.network()
    run.standin = StandIn(run, "--fault", "sdp_bad_fingerprint")
    run.client = client = Client(run)
    started = client.message("started")["t"]
    error = client.message("error", seconds=10)
    run.measure("error", error["t"] - started, 1)
    run.expect(error["details"].get("permanent") is True, f"not permanent: {error['details']}")
    # The first retry would come after a second at most.
    time.sleep(long(4, 2))
    run.dialled(1)
    run.expect(not any(frame.is_new for frame in client.frames), "a transformed frame arrived")
    run.expect(run.lab.counter("media") == 0, f"{run.lab.counter('media')} media packets")
    run.finish(errors=1)


def small(name, **network):
    def body(run):
        run.network(**network)
        if "mtu" not in network:
            # UDP only: TCP segments of that size must still pass.
            run.lab.drop("meta l4proto udp meta length > 1228")
        run.start()
        run.measure("connected", run.connected_in, 2)
        until = time.monotonic() + 60
        while run.lab.counter("media") <= 100 and time.monotonic() < until:
            time.sleep(0.2)
        run.expect(run.lab.counter("media") > 100, "hardly any media packets: this proves nothing")
        run.expect(run.lab.counter("large") == 0, f"{run.lab.counter('large')} datagrams over 1200 bytes")
        run.finish(dials=1)
    return row(name, 14, "no datagram has more than 1200 bytes")(body)


small("F24 MTU 1280", mtu=1280)
small("F24 black hole above 1228")
