"""Rows for hosts behind a firewall: a range of UDP ports, no UDP, or nothing but an HTTP proxy."""

import json
import os
import subprocess
import time

import netlab
from faults import turn
from session import Client, Skipped, StandIn, long, row

PROXY = "/usr/bin/tinyproxy"
PROXY_PORT = 3128


def start_proxy(lab, folder, namespace, address, *lines):
    """Starts tinyproxy, a proxy of another origin, and waits for its port."""
    if not os.path.exists(PROXY):
        raise Skipped("tinyproxy is not installed")
    path = os.path.join(folder, "tinyproxy.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join([f"Port {PROXY_PORT}", f"Listen {address}", "Timeout 600", "MaxClients 50",
                              f'LogFile "{folder}/tinyproxy.log"', "LogLevel Connect", *lines, ""]))
    process = lab.start(namespace, [PROXY, "-d", "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                        stdin=subprocess.DEVNULL)
    for _ in range(100):
        try:
            lab.connect(namespace, address, PROXY_PORT).close()
            return process
        except OSError:
            process.poll()
            time.sleep(0.1)
    raise RuntimeError("tinyproxy did not start")


@row("50 UDP ports", 30, "the firewall lets 50 UDP ports of the client pass; four sessions, half of them in rooms, and one without "
     "the range")
def ports(run):
    run.network()
    run.lab.drop(f"ip saddr {netlab.CLIENT} udp sport != 40000-40049")
    run.lab.drop(f"ip daddr {netlab.CLIENT} udp dport != 40000-40049")
    run.standin = StandIn(run, "--transport", "both", "--rtp-ports", "41000-41049")
    other = Client(run, "max-retries=0")
    clients = [Client(run, f"transport={way}", "max-retries=0", "rtp-port-range=40000-40049") for way in ("webrtc", "livekit") * 2]
    for client in clients:
        client.frame()
        run.expect(not client.all("warning"), f"warnings: {[w['text'] for w in client.all('warning')]}")
    # At least one socket for each peer connection, of which a room has two.
    used = [port for port in run.lab.udp_ports() if port]
    ranged = [port for port in used if 40000 <= port <= 40049]
    run.expect(len(ranged) >= 6, f"UDP ports {used}")
    error = other.message("error", seconds=20)
    run.expect(not any(frame.is_new for frame in other.frames), "frames without the range")
    run.note(f"ports {ranged}; without the range: {error['text']}")


@row("no UDP, only a proxy", 25, "the only way out is an HTTP proxy with a password; media over TURN with TLS")
def proxy(run):
    run.network()
    run.lab.drop(f"ip saddr {netlab.CLIENT}")
    # Only the proxy knows the name.
    run.lab.name(run.lab.router, netlab.SERVER, "turn.test")
    start_proxy(run.lab, run.folder, run.lab.router, netlab.ROUTER_NEAR, "BasicAuth user secret-5317")
    certificate = turn(run, tls=True)[1]
    client = run.start('turn-servers=<"turns://test:pass@turn.test:5349">', certificate,
                       f"http-proxy=http://user:secret-5317@{netlab.ROUTER_NEAR}:{PROXY_PORT}")
    stats = client.stats()
    run.expect(stats["relayed"], "not relayed")
    run.measure("connected", run.connected_in, 5)
    # The element dials the proxy only.
    run.dialled(0)
    said = json.dumps(client.messages)
    run.expect("secret-5317" not in said, "the password is in a message")
    run.finish()


def protocols(client):
    return [connection.get("candidate-pair", {}).get("protocol") for connection in client.stats()["connections"].values()]


def no_udp(way):
    def body(run):
        run.network()
        run.lab.drop("meta l4proto udp")
        client = run.start(f"transport={way}", standin=("--transport", way, "--ice-tcp"))
        ends = protocols(client)
        run.expect(ends and set(ends) == {"tcp"}, f"protocols {ends}")
        # libnice may open another one for the check that the remote peer triggers.
        run.expect(run.lab.dials_elsewhere() <= 2 * len(ends), f"{run.lab.dials_elsewhere()} TCP connections for {len(ends)}")
        # UDP has a head start of two seconds, on each of a room's connections.
        run.measure("connected", run.connected_in, 4 if way == "webrtc" else 7)
        since = time.monotonic()
        time.sleep(long(10, 2))
        frames = len([frame for frame in client.frames if frame.time > since and frame.is_new])
        run.measure("new frames", frames / (time.monotonic() - since), 20, "fps", at_most=False)
        # A room has a signalling connection of its own, and one waits for the next session.
        run.finish(dials=1 if way == "webrtc" else 3)
    return body


for _way in ("webrtc", "livekit"):
    row(f"no UDP, ICE-TCP, {_way}", 18, f"no UDP passes, the service accepts TCP ({_way})",
        older="verify" if _way == "livekit" else "")(no_udp(_way))


@row("ICE-TCP, room resumed", 30, "no UDP passes; a room over TCP is resumed three times, whose server closes its TCP connections first",
     measures=True, older="verify")
def resumed(run):
    run.network()
    run.lab.drop("meta l4proto udp")
    client = run.start("transport=livekit", standin=("--transport", "livekit", "--ice-tcp"))
    session, record = client.session(), run.standin.sessions[-1]
    for number, spec in enumerate(("room_cut", "room_leave_resume", "room_cut:for=2"), 1):
        at = time.monotonic()
        run.standin.inject(spec)
        client.wait(15, f"resume {number}", lambda number=number: True if client.stats()["resumes"] >= number else None)
        client.frame(time.monotonic() + 1, seconds=15)
        run.measure_gap(spec, at, 2500)
    after = run.standin.sessions[-1]
    run.expect(client.session() == session and after["room_joins"] == record["room_joins"], f"{after}")
    run.expect(set(protocols(client)) == {"tcp"}, f"protocols {protocols(client)}")
    run.expect(not client.all("warning"), f"{client.all('warning')}")
    run.finish(gaps=False)


@row("ICE-TCP after UDP", 20, "the service accepts TCP; UDP passes at first, and is then dropped while media flow")
def after_udp(run):
    client = run.start(standin=("--ice-tcp",))
    run.expect(protocols(client) == ["udp"], f"protocols {protocols(client)}")
    run.expect(run.lab.dials_elsewhere() == 0, "a TCP connection for media although UDP passes")
    session, since = client.session(), time.monotonic()
    run.lab.drop("meta l4proto udp")
    # Frames in flight arrive for a moment. The control channel answers, so ICE restarts, and UDP gets its head start.
    run.measure("frames over TCP", client.frame(since + 1).time - since, 7)
    run.expect(protocols(client) == ["tcp"], f"protocols {protocols(client)}")
    run.expect(client.session() == session, "another session")
    run.finish()


@row("ICE-TCP before TURN over TLS", 20, "no UDP passes; the service accepts TCP, and a TURN server over TLS is quicker")
def before_relay(run):
    run.network()
    run.lab.drop("meta l4proto udp")
    client = run.start(*turn(run, tls=True), standin=("--ice-tcp",))
    client.wait(10, "pair without a relay", lambda: None if client.stats()["relayed"] else True)
    run.expect(protocols(client) == ["tcp"], f"protocols {protocols(client)}")
    since = time.monotonic()
    run.measure("frames over TCP", client.frame(since).time - since, 1)
    run.finish(dials=1)
