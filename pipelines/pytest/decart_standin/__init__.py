"""Runs decart-standin for tests: starts the program, controls it over its control port, and ends it.

    with StandIn() as standin:
        ...                                         # a client of standin.url
        record = standin.wait(state="generating", look="lego", frames=20)
        assert record["transport"] == "webrtc"
        run = standin.run("videotestsrc is-live=true ! decarttransform prompt=noir", frames=200)
        assert run.looks["grey"] >= 100
        assert max(run.colour) - min(run.colour) < 16

The wheel holds the program and the GStreamer plugin; GStreamer itself is the system's. `docs/STANDIN.md` of gst-decart describes
records, conditions and faults. As a pytest plugin, the package has the fixture `standin`.
"""

import collections
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

__all__ = ["Run", "StandIn", "StandInError", "add_plugin", "program"]

_FOLDER = os.path.dirname(os.path.abspath(__file__))
BUNDLED = os.path.join(_FOLDER, "bin", "decart-standin")
# The folder of the plugin, for GST_PLUGIN_PATH.
PLUGINS = os.path.join(_FOLDER, "gstreamer-1.0")
# Size of the frames that `run` counts; small, because their pixels do not matter.
_WIDTH, _HEIGHT = 64, 36


# Names of the looks in `frames_by_look`, and the words of prompts that select them.
LOOKS = {"mosaic": "lego", "posterised": "anime", "neon": "cyberpunk", "grey": "noir", "hue": "any other", "untouched": "none"}


class Count(int):
    """A number of frames; pytest shows its run beside it."""

    run = None

    def __repr__(self):
        return f"{int(self)} ({self.run!r})" if self.run else str(int(self))


class Looks(collections.Counter):
    """Number of frames by look; KeyError for a name that is none."""

    run = None

    def __getitem__(self, name):
        __tracebackhide__ = True
        count = Count(super().__getitem__(name))
        count.run = self.run
        return count

    def __missing__(self, name):
        __tracebackhide__ = True
        if name in LOOKS:
            return 0
        known = ", ".join(f"{look} (prompt {word})" for look, word in LOOKS.items())
        raise KeyError(f"there is no look {name!r}: {known}")


class StandInError(AssertionError):
    """An answer of the control port that is an error: `status` and, if there is one, the record `session`."""

    def __init__(self, message, status, session=None):
        super().__init__(message)
        self.status, self.session = status, session


def program():
    """Path of the program: $DECART_STANDIN, the one in this package, or the one in PATH."""
    for path in (os.environ.get("DECART_STANDIN"), BUNDLED, shutil.which("decart-standin")):
        if path and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError("decart-standin is neither in this package nor in PATH; DECART_STANDIN may name it")


def add_plugin(environment):
    """Adds the wheel's plugin to GST_PLUGIN_PATH, unless the path or the system has one. Call it before Gst.init."""
    name = "GST_PLUGIN_PATH_1_0" if environment.get("GST_PLUGIN_PATH_1_0") else "GST_PLUGIN_PATH"
    folders = [folder for folder in environment.get(name, "").split(":") if folder]
    if any(glob.glob(f"{folder}/libgstdecart.so") for folder in [*folders, "/usr/lib/*/gstreamer-1.0"]):
        return
    if os.path.isdir(PLUGINS):
        environment[name] = ":".join([*folders, PLUGINS])


class Run:
    """The result of a pipeline: `frames` that have left it, those of `fallback` among them, the `seconds` until the last
    one, its mean `colour` (red, green, blue from 0 to 255), the records of its `sessions`, and the `messages`, ERROR and
    WARNING, that it has printed."""

    def __init__(self, frames, seconds, colour, sessions, messages=()):
        self.frames, self.seconds, self.colour, self.sessions = frames, seconds, colour, sessions
        self.messages = list(messages)

    @property
    def looks(self):
        """Number of frames that the service sent, by the name of their look; KeyError for a name that is none."""
        counts = Looks()
        counts.run = self
        for session in self.sessions:
            counts.update(session["frames_by_look"])
        return counts

    @property
    def transformed(self):
        """Number of transformed frames that the service sent."""
        return sum(count for look, count in self.looks.items() if look != "untouched")

    def __repr__(self):
        states = [session["state"] for session in self.sessions]
        last = f", last message {self.messages[-1]!r}" if self.messages else ""
        return (f"<Run: {self.frames} frames in {self.seconds:.1f} s, {self.transformed} transformed, looks {dict(self.looks.items())},"
                f" sessions {states}{last}>")


class StandIn:
    """A running stand-in on free ports of the loopback interface. `options` are those of the program."""

    def __init__(self, *options, timeout=30):
        self.process = subprocess.Popen([program(), "--port", "0", "--control", "0", "--quiet", *options],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.timeout = timeout
        watchdog = threading.Timer(timeout, self.process.kill)
        watchdog.start()
        try:
            lines = [self.process.stdout.readline() for _ in range(2)]
        finally:
            watchdog.cancel()
        if not all(lines):
            self.close()
            raise RuntimeError(f"decart-standin has ended with status {self.process.returncode}")
        self.url, self.control = (line.split()[-1] for line in lines)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def request(self, method, path, body=None, limit=None, **query):
        """The answer of the control port: a value for JSON, else text. Raises StandInError. `limit`: seconds."""
        __tracebackhide__ = True  # pytest shows the line of the test
        query = {key: value for key, value in query.items() if value is not None}
        url = f"{self.control}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        request = urllib.request.Request(url, data=body.encode() if body is not None else None, method=method)
        # The control port is on this machine: no proxy of the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=limit or self.timeout) as answer:
                text, is_json = answer.read().decode(), answer.headers["Content-Type"] == "application/json"
                return json.loads(text) if is_json else text
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            value = json.loads(text) if error.headers["Content-Type"] == "application/json" else {"error": text.strip()}
            session = value.get("session")
            facts = {name: fact for name, fact in (session or {}).items() if fact not in (None, 0, False, [], {})}
            message = f"{value['error']}: {facts or 'no session'}" if "session" in value else value["error"]
            raise StandInError(message, error.code, session) from None

    @property
    def health(self):
        return self.request("GET", "/health")

    @property
    def sessions(self):
        return self.request("GET", "/control/sessions")["sessions"]

    def journal(self, session=None, after=0):
        return self.request("GET", "/control/journal", session=session, after=after)["entries"]

    def wait(self, *, timeout=10, **conditions):
        """The record of a session that meets state, frames, prompt, look and session; StandInError after `timeout` s."""
        __tracebackhide__ = True
        try:
            return self.request("GET", "/control/wait", limit=timeout + self.timeout, timeout=timeout, **conditions)["session"]
        except StandInError as error:
            wanted = ", ".join(f"{name}={value!r}" for name, value in conditions.items())
            raise StandInError(f"waited {timeout} s for {wanted or 'a session'}: {error}", error.status, error.session) from None

    def faults(self, *specs):
        """Replaces the faults of new connections; without any, removes them."""
        __tracebackhide__ = True
        self.request("POST", "/control/faults", "\n".join(specs))

    def inject(self, *specs, session=None):
        __tracebackhide__ = True
        self.request("POST", "/control/inject", "\n".join(specs), session=session)

    @property
    def environment(self):
        """The environment of a process whose elements find the plugin and this service by themselves."""
        variables = dict(os.environ, DECART_BASE_URL=self.url, DECART_API_KEY="any")
        add_plugin(variables)
        return variables

    def run(self, pipeline, frames=100, timeout=60, transformed=0):
        """Runs a pipeline until `frames` frames have left it and the service has sent `transformed` ones; returns a Run.
        Frames of `fallback` leave before and between those of the service.

        `pipeline` is a description for gst-launch-1.0 that ends with an open source pad of raw video. Leave out `base-url`
        and `api-key`. Raises RuntimeError with the pipeline's message if it fails, or after `timeout` seconds.
        """
        __tracebackhide__ = True
        before = {session["id"] for session in self.sessions}

        def own():
            return [session for session in self.sessions if session["id"] not in before]

        reading, writing = os.pipe()
        description = (f"{pipeline} ! videoconvert ! videoscale ! video/x-raw,format=RGB,width={_WIDTH},height={_HEIGHT}"
                       f" ! fdsink fd={writing} sync=false")
        size, count, latest, begun = _WIDTH * _HEIGHT * 3, 0, b"", time.monotonic()
        process = subprocess.Popen(["gst-launch-1.0", "-q", *shlex.split(description)], pass_fds=[writing],
                                   env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace")
        os.close(writing)
        output = []
        reader = threading.Thread(target=lambda: output.append(process.stdout.read()))
        reader.start()
        alarm = threading.Timer(timeout, process.kill)
        alarm.start()
        try:
            with os.fdopen(reading, "rb") as video:
                is_enough = False
                while not is_enough and len(frame := video.read(size)) == size:
                    count, latest = count + 1, frame
                    is_enough = count >= frames and (not transformed or Run(count, 0, (), own()).transformed >= transformed)
                seconds = time.monotonic() - begun
                sessions = own()
        finally:
            alarm.cancel()
            process.kill()
            process.wait()
            reader.join()
            process.stdout.close()
        text = "".join(output).strip()
        messages = re.findall(r"^(?:ERROR|WARNING): (?:from element \S+: )?(.*)$", text, re.M)
        colour = tuple(sum(latest[part::3]) * 3 / size for part in range(3))
        run = Run(count, seconds, colour, sessions, messages)
        if not is_enough:
            wanted = f"{count} of {frames} frames" + (f" and {run.transformed} of {transformed} transformed ones" if transformed else "")
            raise RuntimeError(f"{wanted} within {seconds:.1f} s: {messages[-1] if messages else text or pipeline}; {run}")
        return run

    def reset(self):
        """Removes faults, closes the sessions and forgets them."""
        self.request("DELETE", "/control/faults")
        for session in self.sessions:
            if session["state"] != "closed":
                self.request("POST", "/control/close", session=session["id"])
                self.wait(session=session["id"], state="closed")
        self.request("DELETE", "/control/sessions")


def main():
    """The command `decart-standin`."""
    path = program()
    os.execv(path, [path, *sys.argv[1:]])
