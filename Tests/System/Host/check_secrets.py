#!/usr/bin/python3
"""Checks that the API key, from the environment or a file, is in no output that a user could pass on.

Runs `gst-launch-1.0 -m -v` with the built plugin, GST_DEBUG=*:9 and dot files, against a stand-in, a closed port, a
server that responds 401, one that redirects, one with an untrusted certificate, and two that repeat the key, in several
forms, in each text that a service can send, to decart-check too. Then it searches every log, dot
file, message and command line for the key. The 401 server is the positive counterpart: it must have received the key.
scripts/test runs each of them with the key in one place; with DECART_VERIFY=1, each runs with the key in both.

Prints "ok NAME", "not ok NAME: why" or "skip NAME: why". Needs Python's standard library only; uses loopback only.
"""

import base64
import concurrent.futures
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import string
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from checks import PLUGIN, RELEASE, VERIFYING, Results, clean_environment, gstreamer, write
from standin import running_standin

LIMIT = 120  # s, for every wait: at level 9 the log slows everything down

report = Results("secrets")


class Canary:
    """A key, and a pattern of the forms in which it could leak."""

    def __init__(self):
        # Contains characters that a URL must escape, so that the escaped form differs from the key.
        letters = "".join(random.choices(string.ascii_letters + string.digits, k=36))
        self.key = f"canary+{letters}/="
        raw = letters.encode()
        forms = {self.key.encode(), urllib.parse.quote(self.key, safe="").encode(), raw.hex().encode(),
                 base64.b64encode(self.key.encode()).rstrip(b"=")}
        # A hex dump has sixteen bytes per line, so any eight consecutive letters count.
        forms.update(raw[at:at + 8] for at in range(len(raw) - 7))
        forms.update(raw[at:at + 6].hex(" ").encode() for at in range(len(raw) - 5))
        # Room tokens of the stand-in are JSON Web Tokens, which all begin like this.
        forms.update((b"eyJhbGciOi", b"eyJhbGciOi".hex(" ").encode()))
        # An SDP or a part of one would show the ICE password.
        forms.add(b"ice-pwd:")
        self.pattern = re.compile(b"|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True)))
        encoded = urllib.parse.quote(self.key, safe="")
        # Also encoded in part, in another case, and cut off.
        self.repeated = [self.key, encoded, urllib.parse.quote(self.key[:20], safe="") + self.key[20:], encoded.lower(),
                         self.key.upper(), base64.b64encode(self.key.encode()).decode()]
        self.any_case = re.compile(self.pattern.pattern, re.IGNORECASE)

    def find(self, content):
        return self.pattern.search(content)


class Server:
    """A TCP server on loopback that records all received bytes and sends one response per connection."""

    def __init__(self, answer, context=None):
        self.received = b""
        self.connections = 0
        self.answer = answer
        self.context = context
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            connection.settimeout(LIMIT)
            with (self.context.wrap_socket(connection, server_side=True) if self.context else connection) as stream:
                while b"\r\n\r\n" not in self.received:
                    chunk = stream.recv(65536)
                    if not chunk:
                        return
                    self.received += chunk
                answer = self.answer(self.received) if callable(self.answer) else self.answer.encode()
                stream.sendall(answer)
        except (OSError, ssl.SSLError):
            pass

    def close(self):
        self.listener.close()


class Run:
    """One run of gst-launch-1.0 and its output files. A session ends by an interrupt some seconds after it generates, any other
    run by its error."""

    TRANSFORM = ["videotestsrc", "is-live=true", "!", "video/x-raw,width=320,height=180,framerate=10/1", "!",
                 "decarttransform"]
    CAMERA = ["decartsrc", "source=videotestsrc is-live=true ! video/x-raw,width=320,height=180,framerate=10/1"]

    def __init__(self, folder, name, canary, source, base_url, extra=(), elements=TRANSFORM, has_session=False):
        self.folder = os.path.join(folder, f"{name}-{source}".replace(" ", "-"))
        environment = {**clean_environment(folder), **logs(self.folder)}
        options = [f"base-url={base_url}", "prompt=Lego World", "max-retries=0", *extra]
        if source == "environment":
            environment["DECART_API_KEY"] = canary.key
        else:
            # Not in the folder that is searched.
            key_file = f"{self.folder}.key"
            write(key_file, canary.key + "\n")
            options.append(f"api-key-file={key_file}")
        # Few and small frames: at level 9 every buffer writes many log lines.
        # With -e an interrupt becomes EOS, but an error would wait for EOS too, which a source may have missed.
        command = ["gst-launch-1.0", *(["-e"] if has_session else []), "-m", "-v", *elements, *options, "!", "fakesink"]
        with open(os.path.join(self.folder, "output.log"), "wb") as output:
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT,
                                            stdin=subprocess.DEVNULL)
            self.command_lines = set()
            end = time.monotonic() + LIMIT
            generates, failed, interrupted = False, None, False
            while self.process.poll() is None and time.monotonic() < end:
                self.command_lines.update(all_command_lines())
                # By then frames have come back, also with logs of everything on a busy machine.
                if has_session and not generates and re.search(r"decart-state.*\bgeneration-seconds=\(double\)[3-9]", self.output()):
                    generates = True
                    time.sleep(1)
                    self.process.send_signal(signal.SIGINT)
                # gst-launch-1.0 forgets an error that comes before its main loop runs, as on a busy machine.
                if not has_session and self.last_error():
                    failed = failed or time.monotonic()
                    # Once, because a second one would kill it.
                    if not interrupted and time.monotonic() > failed + 10:
                        interrupted = True
                        self.process.send_signal(signal.SIGINT)
                time.sleep(0.25)
        self.hung = self.process.poll() is None
        if self.hung:
            self.process.kill()
        self.status = self.process.wait()

    def leaks(self, canary):
        places = []
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(folder, name)
                if (where := search(path, canary)):
                    places.append(f"{os.path.relpath(path, self.folder)}: {where}")
        if any(canary.find(line) for line in self.command_lines):
            places.append("a command line")
        return places

    def was_in_room(self):
        with open(os.path.join(self.folder, "debug.log"), "rb") as file:
            return any(b"The service uses a LiveKit room" in line for line in file)

    def output(self):
        with open(os.path.join(self.folder, "output.log"), "rb") as file:
            return file.read().decode(errors="replace")

    def last_error(self):
        # gst-launch-1.0 prints an error on the element's thread, also within a line of the main thread.
        found = re.search("ERROR: from element .*", self.output())
        return found.group() if found else ""


def search(path, canary):
    """Returns where a file contains the key: the text before it in its line, without the key itself."""
    with open(path, "rb") as file:
        for line in file:
            found = canary.find(line)
            if found:
                return line[max(0, found.start() - 120):found.start()].decode(errors="replace") + "<the key>"
    return None


def all_command_lines():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                yield file.read()
        except OSError:
            continue


def logs(folder):
    """Environment variables for logs of everything in a new folder."""
    os.makedirs(os.path.join(folder, "dots"))
    return {"GST_DEBUG": "*:9", "GST_DEBUG_NO_COLOR": "1", "GST_DEBUG_FILE": os.path.join(folder, "debug.log"),
            "GST_DEBUG_DUMP_DOT_DIR": os.path.join(folder, "dots")}


@contextlib.contextmanager
def dead_port():
    """A port that is bound, so that no one else gets it, but does not listen."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def self_signed(folder):
    certificate, key = os.path.join(folder, "certificate.pem"), os.path.join(folder, "private.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def has_element(folder):
    # Not --exists, which requires the plugin's version to equal GStreamer's.
    return subprocess.run(["gst-inspect-1.0", "decarttransform"], env=gstreamer(folder, os.environ), timeout=60,
                          capture_output=True, check=False).returncode == 0


def judge(name, run, canary, wants_error):
    """Common checks of every scenario: no leak, enough logs to search, and the expected end."""
    leaks = run.leaks(canary)
    report(f"{name}: the key is nowhere", "; ".join(leaks))
    if run.hung:
        report(f"{name}: ends", f"still running after {LIMIT} s: {run.output()[-200:]}")
    elif run.status < 0:
        report(f"{name}: ends", f"by signal {-run.status}")
    else:
        report(f"{name}: ends", "" if bool(run.last_error()) == wants_error else
               f"status {run.status}, error: {run.last_error() or 'none'}")
    # Guards against a search in empty logs.
    log = os.path.getsize(os.path.join(run.folder, "debug.log"))
    dots = os.listdir(os.path.join(run.folder, "dots"))
    if log < 100_000 or not dots:
        report(f"{name}: there were logs to search", f"{log} bytes of log, {len(dots)} dot files")


def session(folder, canary, source, name, options):
    path = os.path.join(folder, f"standin-{name}-{source}.log".replace(" ", "-"))
    with open(path, "wb") as log, running_standin(stderr=log) as url:
        run = Run(folder, name, canary, source, url, options, has_session=True)
    judge(f"{name}, {source}", run, canary, wants_error=False)
    in_room = name == "session"
    report(f"{name}, {source}: uses {'a room' if in_room else 'a direct connection'}",
           "" if run.was_in_room() == in_room else "it does not")
    report(f"{name}, {source}: not in the stand-in's log", search(path, canary) or "")


def dead(folder, canary, source):
    with dead_port() as port:
        run = Run(folder, "dead port", canary, source, f"ws://127.0.0.1:{port}")
    judge(f"dead port, {source}", run, canary, wants_error=True)


UNAUTHORIZED = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"


def refused(folder, canary, source, name, elements):
    refusing = Server(UNAUTHORIZED)
    run = Run(folder, name, canary, source, f"ws://127.0.0.1:{refusing.port}", elements=elements)
    refusing.close()
    judge(f"{name}, {source}", run, canary, wants_error=True)
    sent = urllib.parse.unquote(refusing.received.decode(errors="replace"))
    report(f"{name}, {source}: the key did go to the service", "" if canary.key in sent else "it was not sent")


def http_refusal(canary):
    """HTTP reason and body with the key in each form; the body is longer than what an error shows."""
    body = "\n".join(canary.repeated * 3).encode()
    return lambda _received: (f"HTTP/1.1 503 {canary.repeated[1]}\r\nContent-Type: text/plain\r\n"
                              f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def websocket_refusal(canary):
    """An error, an unknown message and a close reason with the key."""
    def frame(opcode, body):
        head = bytes([0x80 | opcode]) + (bytes([len(body)]) if len(body) < 126 else b"\x7e" + len(body).to_bytes(2, "big"))
        return head + body

    def answer(received):
        key = re.search(rb"(?i)sec-websocket-key: *(\S+)", received)[1]
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
        text = " ".join(canary.repeated * 3)
        messages = [{"type": canary.key}, {"type": "status", "status": text}, {"type": "error", "error": text}]
        return (f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Accept: {accept}\r\n\r\n").encode() + b"".join(
                    frame(1, json.dumps(message).encode()) for message in messages) + frame(
                        8, (1011).to_bytes(2, "big") + " ".join(canary.repeated)[:120].encode())
    return answer


def repeated(folder, canary, source, name, refusal):
    """A service that repeats the key to an element and to decart-check."""
    refusing = Server(refusal(canary))
    url = f"ws://127.0.0.1:{refusing.port}"
    run = Run(folder, name, canary, source, url)
    judge(f"{name}, {source}", run, canary, wants_error=True)
    outputs = {}
    for mode in ([], ["--json"], ["--report", os.path.join(run.folder, "report.json")]):
        environment = {**clean_environment(folder), "DECART_API_KEY": canary.key}
        outputs[" ".join(mode[:1])] = subprocess.run(
            [os.path.join(RELEASE, "decart-check"), "--base-url", url, *mode], env=environment, timeout=LIMIT,
            stdin=subprocess.DEVNULL, capture_output=True, check=False)
    refusing.close()
    for mode, done in outputs.items():
        where = canary.any_case.search(done.stdout + done.stderr)
        report(f"{name}, decart-check {mode}: the key is nowhere",
               (done.stdout + done.stderr)[max(0, where.start() - 60):where.start()].decode() if where else "")
    where = [path for path in os.listdir(run.folder) if os.path.isfile(os.path.join(run.folder, path))
             and any(canary.any_case.search(line) for line in open(os.path.join(run.folder, path), "rb"))]
    report(f"{name}, {source}: nor in another case", ", ".join(where))
    shown = run.output() + "".join(done.stdout.decode(errors="replace") for done in outputs.values())
    report(f"{name}: there were texts to search", "" if "<redacted>" in shown else "no text of the service is shown")


def redirected(folder, canary, source):
    elsewhere = Server(UNAUTHORIZED)
    redirecting = Server(f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{elsewhere.port}/v1/stream\r\n"
                         "Content-Length: 0\r\n\r\n")
    run = Run(folder, "redirect", canary, source, f"ws://127.0.0.1:{redirecting.port}")
    redirecting.close()
    elsewhere.close()
    judge(f"redirect, {source}", run, canary, wants_error=True)
    report(f"redirect, {source}: the key does not follow it", "it did" if canary.find(elsewhere.received) else "")


def untrusted_certificate(folder, canary, source):
    place = os.path.join(folder, f"certificate-{source}")
    os.makedirs(place)
    untrusted = Server(UNAUTHORIZED, self_signed(place))
    run = Run(folder, "unknown certificate", canary, source, f"wss://127.0.0.1:{untrusted.port}")
    untrusted.close()
    judge(f"unknown certificate, {source}", run, canary, wants_error=True)
    why = "" if untrusted.connections else "no connection: this proves nothing"
    report(f"unknown certificate, {source}: nothing is sent before TLS is verified",
           "a request was sent" if untrusted.received else why)


def in_clear(folder, canary, source):
    """Unencrypted to a host other than loopback: rejected before a socket is opened (192.0.2.0/24 is for documentation)."""
    run = Run(folder, "in clear", canary, source, "ws://192.0.2.200:9")
    judge("in clear to another host", run, canary, wants_error=True)


# Where the key is in scripts/test; both places in scripts/verify. decartsrc passes the key on, so it gets a check too.
SCENARIOS = [
    ("environment", lambda *run: session(*run, "session", [])),
    ("file", lambda *run: session(*run, "direct session", ["transport=webrtc"])),
    ("environment", dead),
    ("file", lambda *run: refused(*run, "401", Run.TRANSFORM)),
    ("environment", redirected),
    ("file", untrusted_certificate),
    ("environment", lambda *run: refused(*run, "camera, 401", Run.CAMERA)),
    ("file", lambda *run: repeated(*run, "repeated by HTTP", http_refusal)),
    ("environment", lambda *run: repeated(*run, "repeated by messages", websocket_refusal)),
]


def run_probe(folder, place, *arguments, **variables):
    """Runs secrets_probe.py with logs of everything in the new folder `place`. Returns its status."""
    environment = {**gstreamer(folder, os.environ), **logs(place), **variables}
    probe = os.path.join(os.path.dirname(os.path.abspath(__file__)), "secrets_probe.py")
    with open(os.path.join(place, "output.log"), "wb") as output:
        return subprocess.run(["/usr/bin/python3", probe, *arguments], env=environment, stdout=output, stderr=subprocess.STDOUT,
                              timeout=2 * LIMIT, check=False).returncode


def watched(folder, transport):
    """The subscribe token, which admits viewers to a session, is secret too: only reading the property reveals it."""
    name = f"a watched session, {transport}"
    place, log = os.path.join(folder, f"watched-{transport}"), os.path.join(folder, f"standin-watched-{transport}.log")
    token_file = os.path.join(folder, f"token-{transport}")
    with open(log, "wb") as standin_log, running_standin(stderr=standin_log) as url:
        status = run_probe(folder, place, "watch", url, transport, token_file, DECART_API_KEY="x")
    report(f"{name}: the viewer receives frames", f"status {status}" if status else "")
    with open(token_file, "rb") as file:
        token = file.read().rstrip(b"=")
    places = [os.path.join(place, "debug.log"), os.path.join(place, "output.log"), log]
    dots = [os.path.join(place, "dots", each) for each in os.listdir(os.path.join(place, "dots"))]
    found = [path for path in places + dots if contains(path, token)]
    report(f"{name}: the token is nowhere", ", ".join(found))
    # The searched files must contain neighbouring fields, otherwise the search proves nothing.
    shown = len(dots) >= 2 and contains(dots[0], b"connection-state") and contains(places[1], b"session-id")
    report(f"{name}: there was something to search", "" if shown and len(token) > 20 else f"{len(dots)} dot files")


def behind_a_proxy(folder):
    """The password of the HTTP proxy. gst-launch-1.0 would show it, so a program sets the property."""
    canary = Canary()
    refusing = Server("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
    place = os.path.join(folder, "proxy")
    status = run_probe(folder, place, "proxy",
                       PROBE_PROXY=f"http://me:{urllib.parse.quote(canary.key, safe='')}@127.0.0.1:{refusing.port}")
    refusing.close()
    report("behind a proxy: the session fails because of it", f"status {status}" if status else "")
    sent = base64.b64encode(f"me:{canary.key}".encode())
    report("behind a proxy: the password did go to the proxy", "" if sent in refusing.received else "it was not sent")
    files = [os.path.join(at, name) for at, _, names in os.walk(place) for name in names]
    found = [f"{os.path.relpath(path, place)}: {where}" for path in files
             if (where := search(path, canary)) or contains(path, sent) and (where := "the authorization")]
    report("behind a proxy: the password is nowhere", "; ".join(found))
    shown = [path for path in files if contains(path, b"redacted@127.0.0.1")]
    report("behind a proxy: there was something to search",
           "" if any(path.endswith(".dot") for path in files) and shown else f"{len(files)} files")


def contains(path, text):
    with open(path, "rb") as file:
        return any(text in line for line in file)


def main():
    report.require(PLUGIN)
    folder = tempfile.mkdtemp(prefix="decart-secrets-")
    try:
        if not has_element(folder):
            report("decarttransform", "the plugin has no such element")
            sys.exit(1)
        canary = Canary()
        jobs = [(watched, folder, transport) for transport in ("livekit", "webrtc")]
        jobs += [(body, folder, canary, each) for source, body in SCENARIOS
                 for each in (("environment", "file") if VERIFYING else (source,))]
        jobs += [(in_clear, folder, canary, "environment"), (behind_a_proxy, folder)]
        # Three at once: the logs are large.
        with concurrent.futures.ThreadPoolExecutor(max_workers=3) as pool:
            list(pool.map(lambda job: report.perform(getattr(job[0], "__name__", "scenario"), *job), jobs))
    finally:
        # Kept on request only: it contains gigabytes of logs and a key.
        if os.environ.get("DECART_KEEP"):
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
