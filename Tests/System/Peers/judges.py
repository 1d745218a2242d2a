"""What check_judges.py and its rows share: a network of one machine, the servers in it, our own programs, and the rows."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "Host"))
from certificates import Certificates  # noqa: E402
from checks import RELEASE, STANDIN, Problem, clean_environment, write  # noqa: E402

CHECK = os.path.join(RELEASE, "decart-check")
HOST = "service.test"
# No loopback addresses: connections to this machine by those use no proxy.
ADDRESS, ADDRESS6 = "10.9.8.7", "fd00:9::7"
KEY, TOKEN = "permanent-key-4f1d9c", "ek_client-token-4f1d9c"
LIMIT = 60  # s, for every wait


@dataclasses.dataclass
class Row:
    name: str
    function: object
    # Part of scripts/test; scripts/verify runs all.
    is_sample: bool
    programs: tuple


ROWS = []


def row(name, sample=False, needs=()):
    def add(function):
        ROWS.append(Row(name, function, sample, needs))
        return function
    return add


def expect(condition, why):
    if not condition:
        raise Problem(why)


def sentences(text):
    """What decart-check says of each probe."""
    return "; ".join(f"{probe['probe']}: {probe['message']}" for probe in json.loads(text)["probes"])


def program(name):
    """The path of a server, which may be in a folder that is only on root's PATH."""
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin:/usr/lib/squid")


class Lab:
    """Servers in a network namespace of their own, so that every port is free."""

    def __init__(self, folder):
        self.folder = folder
        os.chmod(folder, 0o755)
        subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
        subprocess.run(["ip", "address", "add", f"{ADDRESS6}/128", "dev", "lo", "nodad"], check=True)
        write(f"{folder}/hosts", f"127.0.0.1 localhost\n{ADDRESS} {HOST}\n{ADDRESS6} six.test\n")
        subprocess.run(["mount", "--bind", f"{folder}/hosts", "/etc/hosts"], check=True)
        self.certificates = Certificates(folder, HOST, ADDRESS, ADDRESS6)
        # Below the ports that the system gives to clients.
        self.ports = itertools.count(20000)
        self.processes = []
        self.lock = threading.Lock()
        self.environment = clean_environment(folder)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.plain = self.standin("--control", str(self.port()))
        self.secure = self.standin("--host", ADDRESS, *self.server_files())
        self.secure6 = self.standin("--host", ADDRESS6, *self.server_files())

    def server_files(self, name="good"):
        return "--tls-cert", self.certificates.path(name), "--tls-key", self.certificates.path(name, "key")

    def close(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def port(self):
        with self.lock:
            return next(self.ports)

    def file(self, name, text):
        path = f"{self.folder}/{name}"
        write(path, text)
        return path

    def start(self, *command, port, address=ADDRESS, **options):
        """Starts a server, and waits for its port."""
        log = open(f"{self.folder}/{os.path.basename(command[0])}-{port}.log", "wb")
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=self.environment, **options)
        with self.lock:
            self.processes.append(process)
        end = time.monotonic() + LIMIT
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection((address, port), timeout=LIMIT).close()
                return process
            expect(process.poll() is None and time.monotonic() < end,
                   f"{command[0]} did not start: {open(log.name, errors='replace').read()[-400:]}")
            time.sleep(0.02)

    def standin(self, *options):
        """Returns the port of a stand-in. With --control, its first port is that of the control endpoint plus one."""
        port = self.port()
        address = options[options.index("--host") + 1] if "--host" in options else "127.0.0.1"
        self.start(STANDIN, "--port", str(port), "--quiet", *options, port=port, address=address)
        return port

    @property
    def control(self):
        return self.plain - 1

    def run(self, coroutine):
        """Runs a coroutine on the loop of this process's own servers and clients."""
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(coroutine, LIMIT), self.loop).result(2 * LIMIT)

    # --- Our client --------------------------------------------------------------------------------------------------

    def check(self, url, *options, key=TOKEN, authority="ca"):
        """Runs decart-check. Returns the outcome of each probe, "ok" or the cause, and all of its output."""
        environment = {**self.environment, "DECART_API_KEY": key}
        run = subprocess.run(
            [CHECK, "--json", "--base-url", url, "--stun-server", "", "--timeout", "30", "--model", "lucy-2.6",
             *(["--ca-file", self.certificates.path(authority)] if authority else []), *options],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * LIMIT, env=environment, check=False)
        try:
            probes = json.loads(run.stdout)["probes"]
        except ValueError:
            raise Problem(f"decart-check ended with {run.returncode}: {run.stdout[-200:]}{run.stderr[-200:]}") from None
        return {probe["probe"]: probe.get("cause") or probe["outcome"] for probe in probes}, run.stdout

    def accepts(self, url, *options, key=TOKEN, **more):
        """A session, or with a permanent key two requests, must succeed. Returns the output."""
        found, text = self.check(url, *options, key=key, **more)
        bad = {name: outcome for name, outcome in found.items() if outcome not in ("ok", "not-tried")}
        expect(not bad and found["key"] == "ok", sentences(text))
        return text

    def refuses(self, url, probe, words, *options, **more):
        """A probe must fail, with these words in its sentence."""
        found, text = self.check(url, *options, **more)
        expect(found.get(probe) not in ("ok", "not-tried"), f"{probe} is {found.get(probe)}: {sentences(text)}")
        expect(words in text, f'"{words}" is missing: {sentences(text)}')

    @contextlib.contextmanager
    def relay(self, url):
        """decart-check --record, which is a server of ours and a client of ours. Returns the URL for a foreign client."""
        port = self.port()
        process = subprocess.Popen(
            [CHECK, "--record", f"{self.folder}/relay-{port}.jsonl", "--base-url", url, "--insecure", "--model", "lucy-2.6",
             "--ca-file", self.certificates.path("ca")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL, env={**self.environment, "DECART_API_KEY": KEY})
        try:
            line = process.stdout.readline()
            while line and "base-url=" not in line:
                line = process.stdout.readline()
            words = dict(word.split("=", 1) for word in line.split() if "=" in word)
            expect("base-url" in words, "decart-check --record does not start")
            yield f"{words['base-url']}/v1/stream?api_key={words['api-key']}&model=lucy-2.6"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(LIMIT)

    # --- Our server --------------------------------------------------------------------------------------------------

    def stream(self, base):
        return f"{base}/v1/stream?api_key={KEY}&model=lucy-2.6"

    def curl(self, *words, status="200", code=0):
        """Runs curl on a URL, which must answer with the status. Returns the body."""
        run = subprocess.run(
            ["curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", str(LIMIT), "--write-out", "\n%{http_code}",
             *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * LIMIT, env=self.environment, check=False)
        body, _, found = run.stdout.rpartition("\n")
        expect((run.returncode, found) == (code, status), f"curl ended with {run.returncode}, HTTP {found}: {run.stderr} {body[:200]}")
        return body
