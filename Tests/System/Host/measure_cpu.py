#!/usr/bin/python3
"""A session whose process gets half of the CPU that it needs: frame rate, gaps and latency before, during and after.

The client runs in a control group of its own; the stand-in and this program do not. The first part of the run measures
how much of the CPU the client uses. In the second part the group's quota is half of that, and in the third part it has
none. scripts/verify runs it, on an idle machine. The client's frames are made beforehand, so that the quota is the
element's. Latency is the age of a frame when it leaves the element: a room returns the time of capture with each frame.

Prints "ok NAME: figures", "not ok NAME: why" or "skip NAME: why". Needs root, uses loopback only.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

from checks import Results, gstreamer, measured, processor_time, read, write
from gst import GLib, Gst, on_buffer, text_of
from standin import running_standin

FRAMERATE = 30
CAPS = f"video/x-raw,format=I420,width=1280,height=720,framerate={FRAMERATE}/1"
PERIOD = 100_000  # µs; the kernel's default, and that of container engines
REACTION = 15  # s; it must not react to a load of three seconds
HANG = 60  # s, for each wait
# With half of the CPU: frames, of all; 95th percentile of the gaps, of their mean, and of the latency, s.
RATE, GAP, LATENCY = 0.4, 2, 0.3
RECOVERY = 10  # s
FULL = 0.95  # of the camera's frames
cpu = Results("cpu")


def report(name, figures, why=""):
    cpu(name, f"{why}; {figures}" if why else "", figures)


# --- The client, a process of its own ----------------------------------------------------------------------------------

class Camera:
    """Pushes frames that were made beforehand, which costs as little as the driver of a camera."""

    def __init__(self, pipeline):
        self.pipeline, self.source = pipeline, pipeline.get_by_name("source")
        maker = Gst.parse_launch(f"videotestsrc num-buffers={2 * FRAMERATE} ! {CAPS} ! appsink name=sink sync=false")
        maker.set_state(Gst.State.PLAYING)
        sink = maker.get_by_name("sink")
        self.frames = []
        while sample := sink.emit("pull-sample"):
            self.frames.append(sample.get_buffer())
        maker.set_state(Gst.State.NULL)
        self.is_running = True
        self.thread = threading.Thread(target=self.run)

    def run(self):
        number, begun = 0, time.monotonic()
        while self.is_running:
            buffer = self.frames[number % len(self.frames)].copy()
            clock = self.pipeline.get_clock()
            now = clock.get_time() - self.pipeline.get_base_time() if clock else 0
            late = int((time.monotonic() - begun - number / FRAMERATE) * Gst.SECOND)
            buffer.pts = max(0, now - late)
            buffer.dts = Gst.CLOCK_TIME_NONE
            buffer.duration = Gst.SECOND // FRAMERATE
            self.source.emit("push-buffer", buffer)
            number += 1
            time.sleep(max(0, begun + number / FRAMERATE - time.monotonic()))

    def stop(self):
        self.is_running = False
        self.thread.join()


def run_client(url):
    """Writes a line for each frame that leaves the element, "f TIME CAPTURE AGE", and others in JSON. TIME is that of
    CLOCK_MONOTONIC and CAPTURE the UNIX time of the input frame, ns; 0: none, for a black frame."""
    Gst.init(None)
    pipeline = Gst.parse_launch(
        f'appsrc name=source is-live=true format=time caps="{CAPS}" '
        f"! decarttransform name=decart base-url={url} insecure=true api-key=x prompt=Lego transport=livekit "
        f"width=1280 height=720 framerate={FRAMERATE} timestamps=capture ! fakesink name=sink sync=false")
    camera = Camera(pipeline)
    decart = pipeline.get_by_name("decart")
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    names = ("frames-in", "frames-sent", "frames-skipped", "frames-dropped", "frames-received", "frames-late", "bitrate-reason")

    def line(name, **fields):
        out.write((json.dumps({"t": time.monotonic(), "m": name, **fields}) + "\n").encode())

    def leaves(buffer):
        meta = buffer.get_reference_timestamp_meta(None)
        capture = meta.timestamp if meta else 0
        out.write(b"f %.4f %d %.4f\n" % (time.monotonic(), capture, time.time() - capture / 1e9))

    def statistics():
        stats = decart.get_property("stats")
        line("stats", factor=decart.get_property("limiting-factor").value_nick,
             **{name: stats.get_value(name) for name in names})
        return True

    def message(_bus, message):
        if message.type in (Gst.MessageType.ERROR, Gst.MessageType.WARNING):
            line("error" if message.type == Gst.MessageType.ERROR else "warning", text=text_of(message))
        structure = message.get_structure() if message.type == Gst.MessageType.ELEMENT else None
        if structure and structure.get_name() == "decart-quality":
            line("quality", factor=structure.get_string("limiting-factor"))

    loop = GLib.MainLoop()
    bus = pipeline.get_bus()
    bus.add_signal_watch()
    bus.connect("message", message)
    on_buffer(pipeline.get_by_name("sink").get_static_pad("sink"), leaves)
    GLib.timeout_add(500, statistics)
    GLib.io_add_watch(0, GLib.PRIORITY_DEFAULT, GLib.IOCondition.HUP, lambda *_: loop.quit())
    pipeline.set_state(Gst.State.PLAYING)
    camera.thread.start()
    loop.run()
    camera.stop()
    pipeline.set_state(Gst.State.NULL)


class Client:
    def __init__(self, url, folder, group):
        self.process = subprocess.Popen(["/usr/bin/python3", os.path.abspath(__file__), "--client", url],
                                        env=gstreamer(folder, os.environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        group.add(self.process.pid)
        self.frames, self.lines = [], []
        self.changed = threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        captured = 0
        for line in self.process.stdout:
            with self.changed:
                if line.startswith(b"f "):
                    at, capture, age = line.split()[1:]
                    # A frame that is repeated keeps its time.
                    if int(capture) > captured:
                        captured = int(capture)
                        self.frames.append((float(at), float(age)))
                else:
                    self.lines.append(json.loads(line))
                self.changed.notify_all()
        with self.changed:
            self.lines.append({"t": time.monotonic(), "m": "end"})
            self.changed.notify_all()

    def wait(self, seconds, what, find):
        end = time.monotonic() + seconds
        with self.changed:
            while (found := find()) is None:
                if self.lines and self.lines[-1]["m"] == "end":
                    raise RuntimeError(f"the client ended while it waited for {what}")
                if (left := end - time.monotonic()) <= 0:
                    raise RuntimeError(f"no {what} within {seconds} s")
                self.changed.wait(min(left, 0.5))
            return found

    def all(self, name, since=0.0, until=1e12, **fields):
        return [line for line in list(self.lines) if line["m"] == name and since <= line["t"] < until
                and all(line[field] == value for field, value in fields.items())]

    def rate(self, since, until):
        return sum(since <= at < until for at, _ in list(self.frames)) / (until - since)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


# --- The control group -------------------------------------------------------------------------------------------------

class Group:
    """A control group below that of this process, in either version of the CPU controller."""

    def __init__(self):
        self.path = None
        version_1, version_2 = self.mounts()
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            own = {controllers: path for _, controllers, path in (line.rstrip("\n").split(":", 2) for line in file)}
        parent, self.is_version_2 = None, False
        if version_1:
            path = next((path for names, path in own.items() if "cpu" in names.split(",")), "/")
            parent = version_1 + path.rstrip("/")
        elif version_2:
            parent, self.is_version_2 = version_2 + own.get("", "/").rstrip("/"), True
        if parent is None:
            raise OSError("no control group file system with a CPU controller is mounted")
        path = os.path.join(parent, f"decart-cpu-{os.getpid()}")
        os.mkdir(path)
        self.path = path
        self.set_quota(None)

    @staticmethod
    def mounts():
        """Mount points of the CPU controller of version 1, and of version 2 if it has that controller."""
        version_1 = version_2 = None
        with open("/proc/self/mounts", encoding="utf-8") as file:
            for line in file:
                _, point, kind, options = line.split()[:4]
                if kind == "cgroup" and "cpu" in options.split(","):
                    version_1 = point
                elif kind == "cgroup2":
                    version_2 = point if "cpu" in read(f"{point}/cgroup.controllers").split() else None
        return version_1, version_2

    def write(self, name, text):
        write(os.path.join(self.path, name), text)

    def add(self, process):
        self.write("cgroup.procs", str(process))

    def set_quota(self, share):
        """CPU seconds a second; None: no limit."""
        quota = None if share is None else max(1000, int(share * PERIOD))
        if self.is_version_2:
            self.write("cpu.max", f"{quota or 'max'} {PERIOD}")
        else:
            self.write("cpu.cfs_period_us", str(PERIOD))
            self.write("cpu.cfs_quota_us", str(quota or -1))

    def throttled(self):
        """Periods, those in which the group was stopped, and the rest of the statistics."""
        with open(os.path.join(self.path, "cpu.stat"), encoding="ascii") as file:
            return dict((name, int(value)) for name, value in (line.split() for line in file))

    def close(self):
        if self.path:
            with contextlib.suppress(OSError):
                os.rmdir(self.path)


# --- The run -----------------------------------------------------------------------------------------------------------

class Part:
    """Figures of the frames between two times."""

    def __init__(self, client, since, until):
        frames = [frame for frame in list(client.frames) if since <= frame[0] < until]
        times = [at for at, _ in frames]
        gaps = sorted(after - before for before, after in zip(times, times[1:])) or [until - since]
        ages = sorted(age for _, age in frames) or [until - since]
        self.rate = len(frames) / (until - since)
        self.mean_gap, self.gap = sum(gaps) / len(gaps), gaps[len(gaps) * 95 // 100]
        self.longest = gaps[-1]
        self.age, self.late_age = ages[len(ages) // 2], ages[len(ages) * 95 // 100]
        stats = client.all("stats", since, until)
        self.reasons = {line["bitrate-reason"] for line in stats}
        self.factors = {line["factor"] for line in stats}
        first, last = stats[0], stats[-1]
        self.counts = {name: last[f"frames-{name}"] - first[f"frames-{name}"]
                       for name in ("in", "sent", "skipped", "dropped", "received", "late")}

    def __str__(self):
        counts = ", ".join(f"{name} {value}" for name, value in self.counts.items())
        return (f"{self.rate:.1f} frames/s, gaps {self.mean_gap * 1000:.0f} ms, 95 % {self.gap * 1000:.0f} ms, longest "
                f"{self.longest * 1000:.0f} ms, latency {self.age * 1000:.0f} ms, 95 % {self.late_age * 1000:.0f} ms "
                f"({counts}; {' '.join(sorted(map(str, self.reasons)))}; {' '.join(sorted(self.factors))})")


def perform(client, group):
    client.wait(HANG, "frame", lambda: True if client.frames else None)
    # The bitrate rises.
    time.sleep(4)
    begun, used = time.monotonic(), processor_time(client.process)
    time.sleep(5)
    until, used = time.monotonic(), processor_time(client.process) - used
    share = used / (until - begun)
    free = Part(client, begun, until)
    if free.rate < FULL * FRAMERATE:
        cpu.skip(f"this machine does not carry the session without a limit: {share:.2f} of a processor, {free}")
        return
    report("all frames without a limit", f"{share:.2f} of a processor, {free}",
           "it counts as limited" if "cpu" in free.reasons | free.factors else "")

    group.set_quota(share / 2)
    begun = time.monotonic()
    line = client.wait(HANG, "frame rate for the CPU", lambda: next(
        (line for line in client.all("stats", begun) if line["bitrate-reason"] == "cpu"), None))
    report("the reason", "cpu")
    measured("cpu: time until the frame rate follows the CPU", line["t"] - begun, "s", at_most=REACTION)
    # A second step may follow, and the queues drain: packets wait for the decoder.
    time.sleep(6)
    since, before = time.monotonic(), group.throttled()
    time.sleep(8)
    until, after = time.monotonic(), group.throttled()
    half = Part(client, since, until)
    periods = [after[name] - before[name] for name in ("nr_throttled", "nr_periods")]
    report("frame rate with half of the CPU", f"{half.rate / free.rate:.2f} of the frames, the limit was reached in {periods[0]} of {periods[1]} periods, {half}")
    measured("cpu: frame rate with half of the CPU", half.rate / free.rate, "of the frames", at_least=RATE)
    measured("cpu: evenness with half of the CPU, 95th percentile of the gaps", half.gap / half.mean_gap, "of the mean", at_most=GAP)
    measured("cpu: latency with half of the CPU, 95th percentile", half.late_age, "s", at_most=LATENCY)
    line = client.wait(HANG, "limiting-factor", lambda: next(iter(client.all("quality", begun, factor="cpu")), None))
    report("limiting-factor", "cpu")
    measured("cpu: time until limiting-factor is the CPU", line["t"] - begun, "s", at_most=REACTION + 10)

    group.set_quota(None)
    released = time.monotonic()

    def recovered():
        now = time.monotonic()
        stats = client.all("stats", released)
        is_free = stats and stats[-1]["bitrate-reason"] != "cpu"
        return now if is_free and now - released > 1 and client.rate(now - 1, now) >= FULL * free.rate else None

    took = client.wait(HANG, "full frame rate", recovered) - 1 - released
    measured("cpu: recovery", took, "s", at_most=RECOVERY)
    since = time.monotonic()
    time.sleep(3)
    last = Part(client, since, time.monotonic())
    report("all frames again", f"{last}", "it counts as limited" if "cpu" in last.reasons else "")
    measured("cpu: frame rate after the recovery", last.rate / free.rate, "of the frames", at_least=FULL)
    troubles = client.all("error") + client.all("warning")
    report("nothing is reported", f"{len(troubles)} errors and warnings", troubles[0]["text"] if troubles else "")


def main():
    if sys.argv[1:2] == ["--client"]:
        return run_client(sys.argv[2])
    client = None
    try:
        group = Group()
    except OSError as error:
        cpu.skip(error)
        return None
    with contextlib.closing(group), tempfile.TemporaryDirectory(prefix="decart-cpu-") as folder, running_standin() as url:
        try:
            client = Client(url, folder, group)
            perform(client, group)
        except RuntimeError as error:
            report("the run", str(error), "it ended early")
        finally:
            if client:
                group.set_quota(None)
                client.close()


if __name__ == "__main__":
    main()
    sys.exit(cpu.failed)
