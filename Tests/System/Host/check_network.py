#!/usr/bin/python3
"""decart-check in emulated networks: the verdict, the exit code and the time limit of each probe.

Prints "ok NAME", "not ok NAME: why" or "skip NAME: why", and the times as figures for scripts/verify. The networks are
namespaces (see Tests/System/Faults/netlab.py) with a stand-in over TLS, a name in /etc/hosts, coturn for STUN and TURN,
and nftables. Needs root.
"""

import concurrent.futures
import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "Faults")]

import coturn  # noqa: E402
import firewalls  # noqa: E402
import netlab  # noqa: E402
from certificates import Certificates  # noqa: E402
from checks import PLUGIN, RELEASE, STANDIN, VERIFYING, Results, clean_environment, measured, read, write  # noqa: E402

CHECK = os.path.join(RELEASE, "decart-check")
HOST = "service.test"
KEY = "permanent-key-4f1d9c"
PASSWORD = "turn-password-77aa"
OK, SKIPPED = "ok", "not-tried"
LIMIT = 3.0  # s, for each probe: decart-check's default
# s: start of the process and of its threads
SLACK = 2.0

times = []  # (s, ms): each run of decart-check, and its longest probe
say = Results("check")


class Network:
    """A client and a server with a stand-in and a TURN server, and a router that can filter."""

    def __init__(self, name, folder, certificates):
        self.name, self.folder, self.certificates = name, f"{folder}/{name.replace(' ', '-')}", certificates
        os.makedirs(self.folder)
        self.lab = netlab.Lab()

    def __enter__(self):
        self.lab.__enter__()
        return self

    def __exit__(self, *_):
        self.lab.close()

    def names(self, host=HOST):
        self.lab.name(self.lab.client, netlab.SERVER, host)
        # A dead name server: a name that is not in the file takes until the limit.
        self.lab.resolve_with(netlab.SERVER)

    def start(self, *options, certificate="good", turn=True):
        with open(f"{self.folder}/standin.log", "wb") as log:
            self.standin = self.lab.start(
                self.lab.server,
                [STANDIN, "--host", netlab.SERVER, "--port", str(netlab.PORT), "--api-key", KEY, "--tls-cert",
                 self.certificates.path(certificate), "--tls-key", self.certificates.path(certificate, "key"), *options],
                stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL)
        line = self.standin.stdout.readline()
        if not line.startswith(b"listening on"):
            raise RuntimeError(f"the stand-in did not start: {line}")
        if turn:
            self.start_turn()

    def stop(self):
        self.standin.kill()
        self.standin.wait()

    def start_turn(self):
        self.lab.start_turn(
            self.folder, f"test:{PASSWORD}", "--tls-listening-port", "5349", "--cert", self.certificates.path("good"), "--pkey",
            self.certificates.path("good", "key"))

    def check(self, *options, key=KEY, password=PASSWORD, url=f"wss://{HOST}:{netlab.PORT}", json_output=True,
              turns=netlab.SERVER, stderr=subprocess.STDOUT):
        """Runs decart-check; returns the exit code, the output, and the seconds that it took."""
        turn_file = f"{self.folder}/turn.txt"
        with open(turn_file, "w", encoding="ascii") as file:
            file.write(f"# three ways\nturn://test:{password}@{netlab.SERVER}:3478\n"
                       f"turn://test:{password}@{netlab.SERVER}:3478?transport=tcp\n\n"
                       f"turns://test:{password}@{turns}:5349\n")
        command = [CHECK, "--base-url", url, "--stun-server", f"stun://{netlab.SERVER}:3478", "--turn-servers-file", turn_file,
                   "--ca-file", self.certificates.path("ca"), *(["--json"] if json_output else []), *options]
        environment = {**clean_environment(self.folder), **({"DECART_API_KEY": key} if key else {})}
        begun = time.monotonic()
        process = self.lab.start(self.lab.client, command, stdout=subprocess.PIPE, stderr=stderr,
                                 stdin=subprocess.DEVNULL, env=environment)
        output = process.communicate(timeout=200)[0].decode()
        return process.returncode, output, time.monotonic() - begun


# The expected outcome of each probe; TURN over UDP, TCP and TLS.
ALL = {"dns": OK, "tcp": OK, "tls": OK, "key": OK, "stun": OK, "turn": [OK, OK, OK]}
BEFORE_TLS = {"tls": SKIPPED, "key": SKIPPED}


def verdict(network, code, cause, expected, words, options=(), **settings):
    """Compares one run of decart-check with the expected outcomes, exit code and words."""
    # The default is measured; a busy machine may need longer.
    limit = [] if VERIFYING else ["--timeout", "8"]
    status, output, took = network.check(*limit, *options, **settings)
    try:
        answer = json.loads(output)
    except ValueError:
        return f"no JSON: {output[:300]}"
    found = {}
    for probe in answer["probes"]:
        outcome = probe["outcome"] if probe["outcome"] != "failed" else probe["cause"]
        if probe["probe"] == "turn":
            found.setdefault("turn", []).append(outcome)
        else:
            found[probe["probe"]] = outcome
    trouble = []
    wanted = {**ALL, **expected}
    trouble += [f"{name} is {found.get(name)}, not {outcome}" for name, outcome in wanted.items() if found.get(name) != outcome]
    if (status, answer["exit-code"], answer["cause"]) != (code, code, cause):
        trouble.append(f"exit code {status}, {answer['exit-code']}, cause {answer['cause']}, expected {code} {cause}")
    if words not in output:
        trouble.append(f'"{words}" is missing')
    longest = max([probe.get("duration-ms", 0) for probe in answer["probes"] if probe["probe"] != "session"])
    times.append((took, longest))
    trouble += [f"the output has {secret}" for secret in (KEY, PASSWORD) if secret in output]
    return "; ".join(trouble) + (f" in {output}" if trouble else "")


NETWORKS = []


def network(name):
    def add(function):
        NETWORKS.append((name, function))
        return function
    return add


@network("all fine")
def fine(network):
    network.names()
    network.start()
    say("all fine", verdict(network, 0, None, {}, "issued a client token"))
    status, table, _ = network.check(json_output=False)
    rows = [line.split()[:2] for line in table.splitlines() if line.startswith("  ok ")]
    say("all fine: the table", "" if status == 0 and [row[1] for row in rows] == [
        "DNS", "TCP", "TLS", "key", "STUN", "TURN", "TURN", "TURN"] and "Everything that was tried works." in table else table)
    say("no key: nothing is sent", verdict(network, 0, None, {"key": SKIPPED}, "there is no key", key=None))
    say("--deep without a key fails", verdict(network, 6, "key", {"key": SKIPPED, "session": "key"}, "Not run: there is no key",
                                            ("--deep",), key=None))


@network("the name is not resolved")
def no_name(network):
    network.names("another.test")
    network.start()
    dead = {"dns": "dns", "tcp": SKIPPED, **BEFORE_TLS}
    say("the name is unknown", verdict(network, 2, "dns", dead, "Check"))
    network.lab.drop("udp dport 53")
    say("the name server is silent", verdict(network, 2, "dns", dead, "did not answer"))


@network("the port is filtered")
def filtered(network):
    network.names()
    network.start()
    network.lab.drop(f"tcp dport {netlab.PORT}")
    say("the port is filtered", verdict(network, 3, "tcp", {"tcp": "tcp", **BEFORE_TLS}, "did not accept the connection"))
    network.lab.heal()
    network.stop()
    say("the port is closed", verdict(network, 3, "tcp", {"tcp": "tcp", **BEFORE_TLS}, "connection refused"))


@network("TLS is wrong")
def tls(network):
    network.names()
    network.start_turn()
    for certificate, words in (("authority", "authority is unknown"), ("host", "for another host name"),
                               ("expired", "has expired")):
        network.start(certificate=certificate, turn=False)
        say(f"TLS: {certificate}", verdict(network, 4, "tls", {"tls": "tls", "key": SKIPPED}, words))
        network.stop()
    with network.lab.start(network.lab.server, [STANDIN, "--quiet", "--host", netlab.SERVER, "--port", str(netlab.PORT)],
                           stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as plain:
        plain.stdout.readline()
        say("TLS: a port without it", verdict(network, 4, "tls", {"tls": "tls", "key": SKIPPED}, "does not use TLS"))
        plain.kill()


@network("UDP is blocked")
def udp(network):
    network.names()
    network.start()
    network.lab.drop("meta l4proto udp")
    say("UDP is blocked, TURN over TCP and TLS is fine",
        verdict(network, 8, "udp", {"stun": "udp", "turn": ["turn", OK, OK]}, "need a TURN server over TCP or TLS"))


@network("the TURN password is wrong")
def turn(network):
    network.names()
    network.start()
    say("the TURN password is wrong", verdict(network, 9, "turn", {"turn": ["turn"] * 3}, "rejected the user name or the password",
                                              password="wrong-password"))


@network("the key is rejected")
def key(network):
    network.names()
    network.start()
    say("the key is rejected", verdict(network, 6, "key", {"key": "key"}, "HTTP 401", key="wrong-key-5511"))
    say("a client token is rejected", verdict(network, 6, "key", {"key": "key"}, "HTTP 401", key="ek_wrong-key-5511"))
    for fault, code, cause in (("http_503", 7, "limit"), ("http_429", 7, "limit"), ("http_200html", 5, "service")):
        url = f"wss://{HOST}:{netlab.PORT}/?fault={fault}"
        say(f"the service answers with {fault}", verdict(network, code, cause, {"key": cause}, "HTTP", url=url))


@network("a proxy")
def proxy(network):
    """No way out but an HTTP proxy, which wants a password. Only the proxy knows the name of the service."""
    if not os.path.exists(firewalls.PROXY):
        return say.skip("a proxy: tinyproxy is not installed")
    network.names("another.test")
    network.start()
    lab = network.lab
    lab.drop(f"ip saddr {netlab.CLIENT}")
    lab.name(lab.router, netlab.SERVER, HOST)
    start = os.path.join(network.folder, "proxy")
    os.makedirs(start, exist_ok=True)
    server = firewalls.start_proxy(lab, start, lab.router, netlab.ROUTER_NEAR, f"BasicAuth user {PASSWORD}")
    place = f"{netlab.ROUTER_NEAR}:{firewalls.PROXY_PORT}"
    file = f"{network.folder}/proxy.txt"

    def check(name, url, *expected):
        write(file, url + "\n")
        say(f"a proxy: {name}", verdict(network, *expected, options=["--http-proxy-file", file], turns=HOST))

    blocked = {"dns": SKIPPED, "stun": "udp"}
    check("the password is right", f"http://user:{PASSWORD}@{place}", 8, "udp", {**blocked, "turn": ["turn", OK, OK]},
          "opened a tunnel")
    refused = {**blocked, "tcp": "tcp", **BEFORE_TLS, "turn": ["turn"] * 3}
    check("the password is wrong", f"http://user:{KEY}@{place}", 3, "tcp", refused, "rejected the user name or the password")
    check("no password", f"http://{place}", 3, "tcp", refused, "requires a user name and a password")
    server.kill()
    server.wait()
    check("no proxy there", f"http://{place}", 3, "tcp", refused, "The HTTP proxy cannot be reached")
    firewalls.start_proxy(lab, start, lab.router, netlab.ROUTER_NEAR, "ConnectPort 5349")
    check("a port is refused", f"http://{place}", 3, "tcp", {**refused, "turn": ["turn", "turn", OK]}, "Permit CONNECT")


@network("a report")
def report(network):
    network.names()
    network.start_turn()
    for transport in ("livekit", "webrtc"):
        network.start("--transport", transport, turn=False)
        say(f"--report, {transport}", recorded(network, transport))
        network.stop()


@network("a session")
def session(network):
    network.names()
    network.start()
    say("--deep", deep(network))
    url = f"wss://{HOST}:{netlab.PORT}/?fault=close_1013_at_join"
    status, output, _ = network.check("--deep", "--timeout", "1", url=url)
    answer = json.loads(output)
    found = next((probe for probe in answer["probes"] if probe["probe"] == "session"), {})
    say("--deep: all sessions of the account are in use", "" if status == 7 and found.get("cause") == "limit" and any(
        "1013" in message["text"] for message in answer["session"]["messages"]) else f"{found} {answer['session']}")
    url = f"wss://{HOST}:{netlab.PORT}/?fault=room_ice_none"
    status, output, _ = network.check("--deep", "--timeout", "1", url=url)
    say("--deep: no media", "" if status == 10 and "No transformed frame arrived" in output else output)


def deep(network):
    """With standard error on a terminal, which shows the progress."""
    terminal, end = pty.openpty()
    status, output, _ = network.check("--deep", stderr=end)
    progress = os.read(terminal, 65536).decode() if select.select([terminal], [], [], 0)[0] else ""
    os.close(end)
    os.close(terminal)
    if not re.search(r"session, \d+ s: \w+, \d+ frames", progress):
        return f"the progress is: {progress}"
    session = json.loads(output).get("session", {})
    good = (status == 0 and session.get("frames-received", 0) > 0 and session.get("frames-per-second", 0) > 0
            and session.get("connect-ms", 0) > 0 and not [m for m in session.get("messages", []) if m["kind"] == "error"])
    if good:
        measured("decart-check: --deep: frames", session["frames-received"], "frames", at_least=31)
        measured("decart-check: --deep: frame rate", session["frames-per-second"], "frames/s", at_least=5)
    return "" if good else output


def recorded(network, transport):
    file = f"{network.folder}/report-{transport}.json"
    write(file, "x" * 1_000_000)
    os.chmod(file, 0o644)
    status, output, _ = network.check("--report", file)
    if status:
        return output
    text = read(file)
    report = json.loads(text)
    trouble = []
    # The stand-in sends nothing that DecartProtocol does not know.
    trouble += [f"unknown: {event}" for event in report["events"] if "known" in event or "unknown-fields" in event]
    events = [event["event"] for event in report["events"]]
    for event in ("requested", "opened", "sent", "received", "closed-by-client", *(["room-received"] if transport == "livekit" else [])):
        if event not in events:
            trouble.append(f"no event {event}")
    descriptions = [event["description"] for event in report["events"] if "description" in event]
    codecs = [codec for each in descriptions for media in each["media"] for codec in media["codecs"]]
    if ("H264/90000" if transport == "livekit" else "VP8/90000") not in codecs:
        trouble.append(f"codecs {codecs}")
    candidates = [kind for each in descriptions for kind in each["candidates"]]
    if not any("host" in kind for kind in candidates + [event.get("candidate", "") for event in report["events"]]):
        trouble.append("no candidates")
    if os.stat(file).st_mode & 0o077:
        trouble.append("other users can read the file")
    secrets = [KEY, PASSWORD, "Lego World", netlab.CLIENT, "candidate:", "a=ice-", "eyJ"]
    trouble += [f"the report has {secret}" for secret in secrets if secret in text]
    return "; ".join(trouble)


def wrong_arguments():
    for words, why in ((["--base-url", "ftp://x"], "base-url must begin"), (["--timeout", "x"], "is invalid"),
                       (["--timeout", "nan"], "--timeout"), (["--turn-servers", "turn:host"], "--turn-servers"),
                       (["--stun-server", "turn:u:p@host"], "--stun-server"), (["--model", ""], "model"),
                       (["--model", "lucy-2.55"], "use one of lucy-2.1, "),
                       (["--api-key-file", "/nowhere"], "--api-key-file"), (["--unknown"], "--unknown"),
                       (["--base-url", "ws://192.0.2.1"], "unencrypted"), (["--base-url", "wss://host/?api_key=x"], "api_key"),
                       (["--http-proxy", "https://x"], "http-proxy must begin"), (["--local-address", "a/b"], "--local-address"),
                       (["--base-url", "ws://127.0.0.1:9", "--report", "/nowhere/report"], "--report"),
                       (["--base-url", "ws://127.0.0.1:9", "--report", "/dev/stdout"], "--report"),
                       (["--json=no"], "takes no value"), (["--report", "--json"], "Missing value for '--report"),
                       (["--model", b"\xff"], "not UTF-8"), (["--base-url", "ws://127.0.0.1:9", "--deep", "--gst-x"], "--gst-x")):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DECART_")}
        done = subprocess.run([CHECK, *words], capture_output=True, text=True, timeout=120, check=False, env=environment)
        say(f"wrong arguments: {' '.join(map(str, words))}", "" if done.returncode == 1 and why in done.stderr else
            f"status {done.returncode}: {done.stdout}{done.stderr}")
    done = subprocess.run([CHECK], capture_output=True, text=True, timeout=120, check=False,
                          env={**environment, "DECART_BASE_URL": "ftp://x"})
    say("wrong arguments: DECART_BASE_URL", "" if done.returncode == 1 and "must begin" in done.stderr else done.stderr)
    done = subprocess.run([CHECK, "--help"], capture_output=True, text=True, timeout=120, check=False)
    say("--help", "" if done.returncode == 0 and "EXIT CODE" in done.stdout else f"status {done.returncode}")


def gstreamer_options():
    """GStreamer's options are known; without a session, its registry is not read."""
    with tempfile.TemporaryDirectory() as folder:
        registry = os.path.join(folder, "registry")
        environment = {**os.environ, "GST_REGISTRY": registry}
        words = [CHECK, "--base-url", "ws://127.0.0.1:9", "--gst-debug", "GST_INIT:4"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=environment)
        say("--gst-debug without a session does not initialise GStreamer",
            "" if done.returncode == 3 and not done.stderr and not os.path.exists(registry) else f"{done}")
        # The TCP probe fails, so that no session begins.
        done = subprocess.run([*words, "--deep"], capture_output=True, text=True, timeout=120, check=False,
                              env={**environment, "DECART_API_KEY": KEY})
        say("--gst-debug with a session", "" if done.returncode == 3 and "GST_INIT" in done.stderr else f"{done}")
    help_text = subprocess.run([CHECK, "--help-gst"], capture_output=True, text=True, timeout=120, check=False)
    say("--help-gst", "" if help_text.returncode == 0 and "--gst-plugin-path" in help_text.stdout else f"{help_text}")


def perform(name, body, folder, certificates):
    with Network(name, folder, certificates) as network:
        body(network)


def main():
    say.require(CHECK, STANDIN, PLUGIN)
    wrong_arguments()
    gstreamer_options()
    why = netlab.available() or ("" if coturn.INSTALLED else "coturn is not installed")
    if why:
        say.skip(f"networks: {why}")
        sys.exit(say.failed)
    netlab.sweep()
    words = sys.argv[1:]
    # The long one first.
    chosen = [each for each in reversed(NETWORKS) if not words or any(word in each[0] for word in words)]
    # They mostly wait for the limits of the probes.
    with (tempfile.TemporaryDirectory(prefix="decart-check-") as folder,
          concurrent.futures.ThreadPoolExecutor(max_workers=3 if VERIFYING else 6) as pool):
        # TURN over TLS names the server by its address.
        certificates = Certificates(folder, HOST, netlab.SERVER)
        list(pool.map(lambda each: say.perform(each[0], perform, *each, folder, certificates), chosen))
    if times:
        measured("decart-check: longest run", max(took for took, _ in times), "s", at_most=LIMIT + SLACK)
        measured("decart-check: longest probe", max(longest for _, longest in times), "ms", at_most=(LIMIT + 0.5) * 1000)
    sys.exit(say.failed)


if __name__ == "__main__":
    main()
