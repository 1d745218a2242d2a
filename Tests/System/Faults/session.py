"""Provides the tools of a fault suite row: a lab, a stand-in in it, a client, and the row's results.

Every wait has a limit. Times are on CLOCK_MONOTONIC, which all processes share.
"""

import bisect
import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time

import netlab

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "Host"))
from checks import PLUGIN, REPO, STANDIN, VERIFYING, Results, measured, system_path  # noqa: E402, F401
import standin  # noqa: E402

CLIENT = os.path.join(HERE, "client.py")

GAP = 0.2  # s without a buffer
# scripts/test may run on a machine that is five times slower: a wait ends with its event, and only a fault waits longer.
PATIENCE = 1 if VERIFYING else 5


@dataclasses.dataclass
class Fault:
    """A row of the fault table. `seconds`: its duration under scripts/verify, so that the longest rows start first.
    `measures`: only scripts/verify runs it, because it compares nothing but figures, or repeats another row at greater
    length."""
    name: str
    seconds: float
    title: str
    body: object
    measures: bool


ROWS = []


def row(name, seconds, title, measures=False, older=""):
    """Registers a function with a `Row` as its argument. `older`: registers it again for a room whose server takes two
    connections only: in the "gate", or for "verify" only."""
    def add(function):
        def with_older_server(run):
            run.more, run.more_dials = ("--no-single-connection",), 1
            function(run)

        ROWS.append(Fault(name, seconds, title, function, measures))
        if older:
            ROWS.append(Fault(f"{name}, two connections", seconds, f"{title}; the server takes two connections only",
                              with_older_server, measures or older == "verify"))
        return function
    return add


def long(seconds, short):
    """`seconds` under scripts/verify. The gate takes `short`: long enough for what happens, not for what grows."""
    return seconds if VERIFYING else short


class Failed(Exception):
    """The row cannot go on."""


class Skipped(Exception):
    """The row cannot be run on this machine."""


def environment(folder):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("GST_", "DECART_API"))}
    return {**kept, "GST_PLUGIN_SYSTEM_PATH_1_0": system_path(folder),
            "GST_REGISTRY_1_0": os.path.join(folder, "registry")}


class StandIn(standin.StandIn):
    """decart-standin in a namespace; it may be killed and restarted on the same address."""

    def __init__(self, run, *options, host=netlab.SERVER):
        self.run = run
        self.options = options
        self.host = host
        self.control, self.timeout = f"http://127.0.0.1:{netlab.CONTROL}", 20
        self.start()

    def start(self):
        log = open(os.path.join(self.run.folder, "standin.log"), "ab")
        self.process = self.run.lab.start(
            self.run.lab.server,
            # The rows and their bounds assume direct connections.
            [STANDIN, "--port", str(netlab.PORT), "--control", str(netlab.CONTROL), "--transport", "webrtc",
             "--host", self.host, *self.options],
            stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, env=self.run.environment)
        log.close()
        lines = [self.process.stdout.readline() for _ in range(2)]
        if not lines[1].startswith(b"control on"):
            raise Failed(f"the stand-in did not start: {lines}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def request(self, *words, **options):
        """Sends a request to the control endpoint from inside its namespace."""
        with netlab.inside(self.run.lab.server):
            return super().request(*words, **options)


class Frame:
    __slots__ = ("time", "pts", "discont", "kind")

    def __init__(self, words):
        self.time, self.pts, self.discont, self.kind = float(words[1]), int(words[2]), words[3] == "1", words[4]

    @property
    def is_new(self):
        return self.kind in "nc"


class Client:
    def __init__(self, run, *properties, base_url=None, variables=None):
        self.run = run
        self.frames = []
        self.messages = []
        self.changed = threading.Condition()
        url = base_url or f"ws://{netlab.SERVER}:{netlab.PORT}"
        words = [f"base-url={url}", "insecure=true", 'prompt="Lego World"', *properties]
        if not any(word.startswith(("api-key=", "api-key-url=")) for word in words):
            words.append("api-key=x")
        with open(os.path.join(run.folder, "client.log"), "ab") as log:
            self.process = run.lab.start(
                run.lab.client, ["/usr/bin/python3", CLIENT, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, env={**run.environment, **(variables or {})})
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        with open(os.path.join(self.run.folder, "messages"), "ab") as kept:
            for line in self.process.stdout:
                with self.changed:
                    if line.startswith(b"f "):
                        self.frames.append(Frame(line.decode().split()))
                    else:
                        self.messages.append(json.loads(line))
                        kept.write(line)
                        kept.flush()
                    self.changed.notify_all()
        with self.changed:
            self.messages.append({"t": time.monotonic(), "m": "end"})
            self.changed.notify_all()

    def send(self, action, **fields):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write((json.dumps({"do": action, **fields}) + "\n").encode())
            self.process.stdin.flush()

    def wait(self, seconds, what, find):
        """Calls `find` after each line of the client until it returns a value."""
        end = time.monotonic() + seconds * PATIENCE
        with self.changed:
            while True:
                if (found := find()) is not None:
                    return found
                if self.messages and self.messages[-1]["m"] == "end":
                    raise Failed(f"the client ended while waiting for {what} (status {self.process.wait()})")
                left = end - time.monotonic()
                if left <= 0:
                    raise Failed(f"no {what} within {seconds * PATIENCE:.0f} s{self.trouble()}")
                self.changed.wait(min(left, 0.5))

    def trouble(self):
        texts = [message["text"] for message in self.messages if message["m"] in ("error", "warning")]
        return f" (last message: {texts[-1][:120]})" if texts else ""

    def all(self, name, since=0.0, **fields):
        return [message for message in list(self.messages) if message["m"] == name and message["t"] >= since
                and all(message.get(key.replace("_", "-")) == value for key, value in fields.items())]

    def message(self, name, since=0.0, seconds=20, **fields):
        return self.wait(seconds, f"{name} {fields or ''}",
                         lambda: next(iter(self.all(name, since, **fields)), None))

    def frame(self, since=0.0, seconds=20, kinds="nc", what="transformed frame"):
        """The first frame since then."""
        def find():
            start = bisect.bisect_left(self.frames, since, key=lambda frame: frame.time)
            return next((frame for frame in itertools.islice(self.frames, start, None) if frame.kind in kinds), None)
        return self.wait(seconds, what, find)

    def request(self, action, answer, seconds=5, **fields):
        since = time.monotonic()
        self.send(action, **fields)
        return self.message(answer, since, seconds)

    def stats(self):
        return self.request("stats", "stats")

    def memory(self):
        return self.request("memory", "memory")

    def prompt(self, text, seconds=20):
        """Sets a prompt and waits for its only result."""
        request = self.request("prompt", "request", text=text)
        return self.message("decart-prompt-result", request["t"] - 1, seconds, id=request["id"])

    def state(self):
        states = self.all("decart-state")
        return states[-1] if states else {}

    def session(self):
        return self.state().get("session-id")

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


class Row:
    """One run of one row."""

    def __init__(self, name, folder, shared):
        self.name = name
        self.folder = os.path.join(folder, name.replace("/", "-").replace(" ", "-"))
        os.makedirs(self.folder, exist_ok=True)
        self.environment = environment(shared)
        self.measures = []  # (description, value, unit, bound, whether the bound is a maximum)
        self.notes = []
        self.troubles = []
        self.skipped = ""
        self.lab = self.standin = self.client = None
        self.more, self.more_dials = (), 0  # options of the stand-in, and dials that they cause
        self.begun = time.monotonic()
        self.stops = []  # (from, to): the client process was stopped
        self.open_labs = contextlib.ExitStack()

    # Setup

    def network(self, **options):
        self.lab = self.open_labs.enter_context(netlab.Lab(**options))
        return self.lab

    def start(self, *properties, standin=(), host=netlab.SERVER, look="noir", **options):
        """Starts stand-in and client, waits for media, and sets a second prompt, which every recovery must restore."""
        if self.lab is None:
            self.network()
        if self.standin is None:
            self.standin = StandIn(self, *standin, *self.more, host=host)
        self.client = Client(self, *properties, **options)
        first = self.client.frame(seconds=20)
        began = self.client.message("started")["t"]
        self.connected_in = first.time - began
        if look:
            since = time.monotonic()
            result = self.client.prompt(f"{look} street")
            self.expect(result["accepted"], f"the prompt was not accepted: {result}")
            self.client.frame(since, kinds="n", what="frame of the second prompt")
        time.sleep(1)
        return self.client

    def begin(self, *properties, **options):
        """Starts as above. Returns the client, its session, and the time at which a fault begins."""
        client = self.start(*properties, **options)
        return client, client.session(), time.monotonic()

    # Checks

    def expect(self, condition, trouble):
        if not condition:
            self.troubles.append(trouble)
        return condition

    def measure(self, what, value, bound, unit="s", at_most=True):
        """Keeps a figure and its bound for scripts/verify."""
        self.measures.append((what, value, unit, bound, at_most))

    def measure_gap(self, what, since, bound, without=0):
        """Keeps the longest time between two new frames since a fault, beyond the seconds for which none was due, and its bound,
        ms. Returns it."""
        times = [frame.time for frame in list(self.client.frames) if frame.is_new]
        gap = max((later - earlier for earlier, later in zip(times, times[1:]) if later >= since), default=99)
        gap = max(gap - without, 0) * 1000
        self.measure(f"{what}: gap", gap, bound, "ms")
        return gap

    def note(self, text):
        self.notes.append(text)

    def recovered(self, since, old_session, seconds):
        """Returns the time of the first new frame of a new session, which must show the last acknowledged prompt."""
        client = self.client
        state = client.wait(seconds, "new session", lambda: next(
            (message for message in client.all("decart-state", since)
             if message.get("session-id") not in (None, old_session) and message["connected"]), None))
        frame = client.frame(state["t"], seconds=10)
        if client.frame(state["t"], kinds="nrc").kind == "c" or frame.kind != "n":
            self.expect(False, "after recovery the first frame does not show the acknowledged prompt")
        return frame.time

    def dialled(self, least, most=None):
        dials = self.lab.dials()
        least, most = least + self.more_dials, (least if most is None else most) + self.more_dials
        self.expect(least <= dials <= most, f"{dials} dials, not {least}" + (f" to {most}" if most != least else ""))
        return dials

    def finish(self, dials=None, errors=0, gaps=True, stop=True):
        """Makes the checks that hold for every row: rising PTS, the expected number of errors, an end of the process. `dials`:
        the expected number of dials, or the least and the most."""
        client = self.client
        if dials is not None:
            self.dialled(*(dials if isinstance(dials, tuple) else (dials,)))
        found = client.all("error")
        self.expect(len(found) == errors, f"{len(found)} bus errors, not {errors}: {[e['text'][:80] for e in found]}")
        if stop:
            since = time.monotonic()
            client.send("stop")
            self.measure("NULL", client.message("stopped", since, 15)["seconds"], 1)
            client.wait(10, "end of the client", lambda: True if client.messages[-1]["m"] == "end" else None)
            status = client.process.wait(5 * PATIENCE)
            self.expect(status == 0, f"the client ended with status {status}")
        for name in ("client.log", "standin.log"):
            critical = [line.strip() for line in self.log(name) if "-CRITICAL **" in line]
            self.expect(not critical, f"{len(critical)} criticals in {name}: {critical[:1]}")
        ended = found[0]["t"] if found else since if stop else time.monotonic()
        frames = [frame for frame in list(client.frames) if frame.time <= ended]
        for before, after in zip(frames, frames[1:]):
            if after.pts <= before.pts:
                self.expect(False, f"pts do not rise: {before.pts} to {after.pts}")
                break
        if gaps and frames:
            self.measure("longest time without a buffer", max(
                (after.time - before.time - self.stopped(before.time, after.time)
                 for before, after in zip(frames, frames[1:])), default=0), GAP)
        first = next((at for at, frame in enumerate(frames) if frame.is_new), 0)
        self.expect(all(frame.kind == "b" for frame in frames[:first]),
                    "a frame that is not black precedes the first transformed frame")

    def log(self, name):
        with contextlib.suppress(OSError), open(os.path.join(self.folder, name), errors="replace", encoding="utf-8") as log:
            return log.readlines()
        return []

    def stop_client(self, seconds):
        """Stops the client's process (SIGSTOP) for this time, which counts as no gap. Returns when it continued."""
        begun = time.monotonic()
        self.client.pause()
        time.sleep(seconds)
        self.client.resume()
        woke = time.monotonic()
        self.stops.append((begun, woke))
        return woke

    def stopped(self, since, until):
        """Returns the seconds between those times during which the client process was stopped."""
        return sum(max(0, min(end, until) - max(begin, since)) for begin, end in self.stops)

    def close(self):
        self.open_labs.close()
        if self.client:
            self.client.reader.join(5)
            for pipe in (self.client.process.stdin, self.client.process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()


def warm(folder):
    """Writes the registry once, before rows read it in parallel. Returns why the element is missing, or ""."""
    done = subprocess.run(["gst-inspect-1.0", "decarttransform"], env=environment(folder), capture_output=True,
                          text=True, timeout=60, check=False)
    return "" if done.returncode == 0 else (done.stderr or done.stdout).strip()[-200:]
