#!/usr/bin/python3
"""Checks what a session does to the process of its host, and what a host may do to its own process.

    check_process.py                 all checks
    check_process.py --host NAME URL the host process of one of them

A host forks, and calls exec; blocks all threads of GLib's pool for tasks; has libsoup loaded; handles SIGPIPE itself.
Prints "ok NAME", "not ok NAME: why" or "skip NAME: why". Uses loopback only.
"""

import concurrent.futures
import ctypes
import ctypes.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

from checks import Problem, Results, clean_environment, wait_until
from standin import running_standin

LIMIT = 60  # s, for every wait
FORKED = "The process was forked from one that had sessions"


# --- The host ------------------------------------------------------------------------------------------------------------

class Session:
    def __init__(self, url, *properties):
        from gst import Gst
        self.gst = Gst
        self.pipeline = Gst.parse_launch(
            "videotestsrc is-live=true ! video/x-raw,width=320,height=176,framerate=25/1 ! decarttransform name=element "
            f"""base-url={url} api-key=x stun-server="" {' '.join(properties)} ! fakesink sync=true""")
        self.element = self.pipeline.get_by_name("element")

    def start(self):
        return self.pipeline.set_state(self.gst.State.PLAYING)

    @property
    def frames(self):
        return self.element.get_property("stats").get_value("frames-received")

    def await_frames(self, more=10):
        wanted = self.frames + more
        wait_until(f"{more} more frames", lambda: self.frames >= wanted, LIMIT)

    def await_error(self):
        """The text of the first error."""
        message = self.pipeline.get_bus().timed_pop_filtered(LIMIT * self.gst.SECOND, self.gst.MessageType.ERROR)
        return message.parse_error()[0].message if message else "no error"

    def stop(self):
        self.pipeline.set_state(self.gst.State.NULL)


def in_child(function):
    """What a forked child returns from the function. The child ends without the work that Python does at its exit."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(2 * LIMIT)
        os.write(writing, function().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return text if status == 0 else f"{text} status {status}"


HOSTS = {}


def host(name):
    def add(function):
        HOSTS[name] = function
        return function
    return add


def inherited():
    """What a program that the host executes finds open, without the pairs of sockets that GStreamer wakes itself with."""
    listing = subprocess.run(["ls", "-l", "/proc/self/fd"], close_fds=False, capture_output=True, text=True, check=True).stdout
    pairs = {line.split()[6] for line in open("/proc/net/unix", encoding="utf-8").read().splitlines()[1:]}
    targets = [(int(number), target) for number, _, target in (
        line.partition(" -> ")[0].split()[-1:] + ["", line.partition(" -> ")[2]] for line in listing.splitlines() if " -> " in line)]
    return sorted(target for number, target in targets if number > 2 and not target.startswith("/proc/")
                  and target.removeprefix("socket:[").rstrip("]") not in pairs)


@host("a program that the host executes inherits no descriptor of a session")
def descriptors(url):
    before = inherited()
    for transport in ("livekit", "webrtc"):
        session = Session(url, f"transport={transport}")
        session.start()
        session.await_frames()
        found = inherited()
        if found != before:
            return f"{transport}: {found} instead of {before}"
        session.stop()
    found = inherited()
    return "" if found == before else f"afterwards: {found} instead of {before}"


@host("a session in a child of a process that has had one is an error")
def fork_after(url):
    session = Session(url)
    session.start()
    session.await_frames()
    session.stop()

    def child():
        other = Session(url)
        state = other.start()
        text = other.await_error()
        other.stop()
        return f"{state.value_nick}: {text}"

    found = in_child(child)
    return "" if found.startswith(f"failure: {FORKED}") else found


@host("a child of a process that has only made elements has a session")
def fork_before(url):
    Session(url).stop()

    def child():
        session = Session(url)
        session.start()
        session.await_frames()
        session.stop()
        return "frames"

    found = in_child(child)
    return "" if found == "frames" else found


@host("a session goes on when its host forks and calls exec")
def fork_while(url):
    session = Session(url)
    session.start()
    session.await_frames()
    found = in_child(lambda: "")
    executed = subprocess.run(["true"], close_fds=False, check=False).returncode
    if found or executed:
        return f"the children end with {found} {executed}"
    session.await_frames()
    session.stop()
    return ""


@host("all threads of GLib's pool for tasks are blocked")
def tasks(url):
    from gi.repository import Gio
    running, release = [], threading.Event()

    def block(task, *_):
        running.append(task)
        release.wait(2 * LIMIT)

    # The pool grows while tasks wait, but not to so many threads within the limit.
    blocked = [Gio.Task.new(None, None, None) for _ in range(200)]
    for task in blocked:
        task.run_in_thread(block)
    wait_until("the pool's own threads", lambda: len(running) >= 10, LIMIT)
    # A name, so that a lookup is needed.
    session = Session(url.replace("127.0.0.1", "localhost"))
    session.start()
    session.await_frames()
    session.stop()
    are_waiting = len(running) < len(blocked)
    release.set()
    return "" if are_waiting else "the pool has a thread for each task, so this shows nothing"


def with_soup(version):
    def check(url):
        library = ctypes.CDLL(f"libsoup-{version}")
        library.soup_session_new.restype = ctypes.c_void_p
        soup = library.soup_session_new()
        session = Session(url)
        session.start()
        session.await_frames()
        session.stop()
        return "" if soup else "no session of libsoup"
    return check


SOUPS = ("2.4.so.1", "3.0.so.0")
for version in SOUPS:
    host(f"libsoup-{version} is loaded")(with_soup(version))


@host("SIGPIPE stays the host's, and no session causes one")
def pipe_signal(url):
    seen = []
    signal.signal(signal.SIGPIPE, lambda *_: seen.append(1))
    # The server resets each connection while the client sends.
    for transport, fault in (("webrtc", "drop_tcp_at_T:at=0.5"), ("livekit", "drop_tcp_at_T:at=0.5"), ("livekit", "room_cut:at=0.5")):
        session = Session(f"{url}/?fault={fault}", f"transport={transport}")
        session.start()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            session.element.set_property("prompt", f"prompt {time.monotonic()}")
            time.sleep(0.02)
        session.stop()
    if seen:
        return f"{len(seen)} signals"
    os.kill(os.getpid(), signal.SIGPIPE)
    time.sleep(0.1)
    return "" if seen else "the host's handler is gone"


def run_host(name, url):
    try:
        why = HOSTS[name](url)
    except Problem as problem:
        why = str(problem)
    print(f"result: {why}", flush=True)
    # Blocked threads and a child's parent need no orderly end of Python.
    os._exit(0)


# --- The check -----------------------------------------------------------------------------------------------------------

def check(name, url, environment):
    run = subprocess.run(["/usr/bin/python3", __file__, "--host", name, url], env=environment, capture_output=True, text=True,
                         timeout=6 * LIMIT, stdin=subprocess.DEVNULL, check=False)
    if run.returncode or not run.stdout.startswith("result: "):
        raise Problem(f"it ended with {run.returncode}: {run.stdout[-200:]}{run.stderr[-300:]}")
    return run.stdout.removeprefix("result: ").strip()


def main():
    if sys.argv[1:2] == ["--host"]:
        from gst import Gst
        Gst.init(None)
        return run_host(*sys.argv[2:4])
    report = Results("process")
    names = [name for name in HOSTS if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as folder, running_standin("--quiet") as url:
        environment = clean_environment(folder)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for name in names:
                if "libsoup" in name and not ctypes.util.find_library(name.split()[0].removeprefix("lib").partition(".so")[0]):
                    report.skip(f"{name}: it is not installed")
                    continue
                pool.submit(report.perform, name, lambda name=name: report(name, check(name, url, environment)))
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
