#!/usr/bin/python3
"""Checks what a host application may do with the elements, each case in a process of its own against its own stand-in.

    check_contract.py [NAME...]

Without names: those of the gate, and all of them under scripts/verify. A case that crashes or hangs fails. Prints "ok NAME"
or "not ok NAME: why". Uses loopback only.
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile
import threading
import time

from checks import PLUGIN, STANDIN, VERIFYING, Problem, Results, compile_c, gstreamer, wait_until
from standin import running_standin

LIVE = "videotestsrc name=source is-live=true ! video/x-raw,format=I420,width=320,height=176,framerate=25/1"
FILE = "videotestsrc name=source num-buffers=100 ! video/x-raw,format=I420,width=320,height=176,framerate=25/1"
LIMIT = 90  # s for a case, on any machine
CASES, GATE = {}, set()


def case(in_gate=False):
    """Registers a function as a case; its name is the function's."""
    def add(function):
        name = function.__name__.replace("_", " ")
        CASES[name] = function
        if in_gate:
            GATE.add(name)
        return function
    return add


class Host:
    """A pipeline that an application has made, its messages and what arrives at some of its pads."""

    def __init__(self, text, clock=True):
        self.pipeline = Gst.parse_launch(text)
        self.element = self["d"]
        self.warnings, self.errors, self.ended = [], [], False
        if not clock:
            self.pipeline.use_clock(None)

    def __getitem__(self, name):
        return self.pipeline.get_by_name(name)

    def count(self, name):
        """A list that grows by the time stamp of each buffer at the sink pad of `name`."""
        times = []
        on_buffer(self[name].get_static_pad("sink"), lambda buffer: times.append(buffer.pts))
        return times

    def play(self):
        self.pipeline.set_state(Gst.State.PLAYING)
        return self

    def look(self):
        """Reads the messages that have come."""
        bus = self.pipeline.get_bus()
        while message := bus.pop():
            if message.type == Gst.MessageType.WARNING:
                self.warnings.append(text_of(message))
            elif message.type == Gst.MessageType.ERROR:
                self.errors.append(text_of(message))
            self.ended = self.ended or message.type == Gst.MessageType.EOS

    def wait(self, what, condition, seconds=40):
        def holds():
            self.look()
            return condition()
        try:
            wait_until(what, holds, seconds)
        except Problem as problem:
            raise Problem(f"{problem}; errors {self.errors}, warnings {self.warnings}") from None

    def more(self, times, count=25, what="frames"):
        """Waits until `count` more buffers have come."""
        target = len(times) + count
        self.wait(what, lambda: len(times) >= target)

    def stat(self, name):
        return self.element.get_property("stats").get_value(name)

    def connected(self):
        self.wait("a session", lambda: self.stat("frames-received") > 0)
        return self

    def warned(self, part, seconds=40):
        self.wait(f"a warning with {part!r}", lambda: any(part in text for text in self.warnings), seconds)

    def end(self):
        self.pipeline.set_state(Gst.State.NULL)


def probe(*arguments):
    """Runs contract_probe.c."""
    ended = subprocess.run([os.environ["CONTRACT_PROBE"], *arguments], capture_output=True, text=True, timeout=LIMIT, check=False)
    if ended.returncode:
        raise Problem(f"status {ended.returncode}: {ended.stdout}{ended.stderr}")


# --- Cases --------------------------------------------------------------------------------------------------------------

@case(in_gate=True)
def a_property_without_notify_silences_nothing():
    for setting in ('query-items="a=b"', 'api-key="other"'):
        host = Host(f"decartsrc name=d source=test {setting} ! fakesink sync=true")
        states, results = [], []
        host.element.connect("notify::connection-state", lambda *_, states=states: states.append(1))
        host.element.connect("prompt-result", lambda *_, results=results: results.append(1))
        host.play().connected()
        host.element.set_property("prompt", "lego")
        host.wait(f"a result of the prompt with {setting}", lambda results=results: results)
        if not states:
            raise Problem(f"{setting}: no notify of connection-state")
        host.end()


@case(in_gate=True)
def a_sink_that_has_enough_ends_the_pipeline():
    for text in (f"{LIVE} ! decarttransform name=d ! queue ! fakesink sync=true num-buffers=30",
                 "decartsrc name=d source=test ! fakesink sync=true num-buffers=30"):
        host = Host(text).play()
        host.wait("EOS", lambda host=host: host.ended)
        host.wait("the end of the session",
                  lambda host=host: host.element.get_property("connection-state").value_nick == "disconnected")
        host.end()


@case(in_gate=True)
def a_branch_that_is_restarted_or_flushed_gets_frames_again():
    host = Host(f"{LIVE} ! decarttransform name=d ! queue name=q ! fakesink name=out sync=true")
    times = host.count("out")
    host.play().connected()
    queue = host["q"]
    for name, pad in (("restart", None), ("flush", queue.get_static_pad("sink")),
                      ("flush from downstream", host.element.get_static_pad("src"))):
        host.more(times)
        if pad is None:
            queue.set_state(Gst.State.NULL)
            time.sleep(0.2)
            queue.sync_state_with_parent()
        else:
            pad.send_event(Gst.Event.new_flush_start())
            time.sleep(0.2)
            pad.send_event(Gst.Event.new_flush_stop(False))
        host.more(times, what=f"frames after the {name}")
        if queue.get_static_pad("src").get_sticky_event(Gst.EventType.SEGMENT, 0) is None:
            raise Problem(f"no segment after the {name}")
    host.end()


@case(in_gate=True)
def a_consumer_of_the_preview_cannot_stop_the_camera():
    for consumer in ("fakesink name=p sync=true", "identity eos-after=20 ! fakesink", "identity error-after=20 ! fakesink"):
        host = Host(f"decartsrc name=d source=test ! fakesink name=out sync=true d.preview ! queue name=q ! {consumer}")
        host.play().connected()
        time.sleep(1)
        if host["p"]:
            previewed = host.count("p")
            host["p"].set_state(Gst.State.NULL)
            host["q"].set_state(Gst.State.NULL)
        sent = host.stat("frames-sent")
        host.wait(f"frames sent after {consumer}", lambda host=host, sent=sent: host.stat("frames-sent") > sent + 40)
        if host.ended:
            raise Problem(f"EOS after {consumer}")
        if host["p"]:
            host["p"].sync_state_with_parent()
            host["q"].sync_state_with_parent()
            host.more(previewed, 10, "frames of the preview")
        host.end()
    # A flush before the first frame: the pad takes no event.
    host = Host("decartsrc name=d source=test ! fakesink name=out sync=true").play().connected()
    preview = host.element.request_pad_simple("preview")
    preview.send_event(Gst.Event.new_flush_start())
    sent = host.stat("frames-sent")
    host.wait("frames sent during a flush", lambda: host.stat("frames-sent") > sent + 40)
    preview.send_event(Gst.Event.new_flush_stop(True))
    sink = Gst.ElementFactory.make("fakesink", "p")
    sink.set_property("async", False)
    host.pipeline.add(sink)
    previewed = host.count("p")
    preview.link(sink.get_static_pad("sink"))
    sink.sync_state_with_parent()
    host.more(previewed, 10, "frames of a preview that was flushed")
    if sink.get_static_pad("sink").get_sticky_event(Gst.EventType.SEGMENT, 0) is None:
        raise Problem("no segment in front of the preview's frames")
    host.end()


@case(in_gate=True)
def application_memory_may_call_the_element_when_it_is_released():
    probe()


@case(in_gate=True)
def frames_that_cannot_be_read_are_dropped():
    probe("unreadable")


@case()
def the_input_goes_on_with_another_clock():
    host = Host(f"{FILE.replace('num-buffers=100', '')} ! decarttransform name=d ! fakesink name=out sync=true")
    stopped = Gst.SystemClock(name="stopped")
    host.pipeline.use_clock(stopped)
    times = host.count("out")
    host.play().connected()
    host.more(times)
    internal = stopped.get_internal_time()
    stopped.set_calibration(internal, stopped.get_time(), 0, 1)
    time.sleep(2)
    host.pipeline.set_state(Gst.State.PAUSED)
    host.pipeline.use_clock(Gst.SystemClock.obtain())
    entered = host.stat("frames-in")
    host.play()
    host.wait("frames with the new clock", lambda: host.stat("frames-in") > entered + 50)
    host.more(times)
    host.end()


@case()
def without_a_clock_there_are_frames_and_one_warning():
    host = Host(f"{FILE.replace('num-buffers=100', '')} ! decarttransform name=d ! fakesink name=out", clock=False)
    times = host.count("out")
    host.play().connected()
    host.more(times)
    if (count := sum("no clock" in text for text in host.warnings)) != 1:
        raise Problem(f"{count} warnings of the clock: {host.warnings}")
    host.end()


@case()
def an_input_that_stops_is_reported():
    for text in ('decartsrc name=d source="videotestsrc is-live=true ! valve name=v" ! fakesink sync=true',
                 f"{LIVE} ! valve name=v ! decarttransform name=d ! fakesink sync=true"):
        host = Host(text).play().connected()
        host["v"].set_property("drop", True)
        host.warned("no frame for 5 s")
        host.wait("the limiting factor", lambda host=host: host.element.get_property("limiting-factor").value_nick == "stall")
        if len(host.warnings) != 1:
            raise Problem(f"warnings {host.warnings}")
        received = host.stat("frames-received")
        host["v"].set_property("drop", False)
        host.wait("frames again", lambda host=host, received=received: host.stat("frames-received") > received + 20)
        host.end()


@case()
def an_input_that_stops_behind_the_session_is_not_missed():
    host = Host(f"{LIVE} ! valve name=v ! decarttransform name=d ! fakesink sync=true").play().connected()
    host.element.emit("disconnect")
    host["v"].set_property("drop", True)
    time.sleep(9)
    host.look()
    if host.warnings:
        raise Problem(f"warnings {host.warnings}")
    host.end()


@case()
def without_video_there_is_no_session_and_one_warning():
    for text, part in (("decarttransform name=d ! videotestsrc ! fakesink", "linked to the pad sink"),
                       ("decarttransform name=d ! fakesink", "linked to the pad sink"),
                       (f"{LIVE} ! valve drop=true ! decarttransform name=d ! fakesink", "")):
        try:
            host = Host(text)
        except GLib.Error:
            continue
        host.play()
        if part:
            host.warned(part)
        time.sleep(3)
        host.look()
        if part and host.stat("connection-attempts" if host.element.get_property("stats").has_field("connection-attempts")
                              else "frames-sent"):
            raise Problem("a session was begun")
        host.end()


@case()
def a_player_plays():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "film.avi")
        maker = Host(f"{FILE} ! jpegenc name=d ! avimux ! filesink location={path}").play()
        maker.wait("the film", lambda: maker.ended)
        maker.end()
        for player in ("playbin", "playbin3"):
            host = Host(f"{player} uri=file://{path} video-filter=\"decarttransform name=t\" video-sink=\"fakesink name=out\"")
            frames = []
            sink = host.pipeline.get_property("video-sink")
            sink.set_property("sync", True)
            on_buffer(sink.get_static_pad("sink"), lambda _, frames=frames: frames.append(1))
            host.play()
            host.wait(f"frames of {player}", lambda frames=frames: len(frames) > 50)
            host.end()


@case()
def recording_with_audio_ends_without_a_session():
    with tempfile.TemporaryDirectory() as folder:
        host = Host(
            f"{LIVE} ! decarttransform name=d base-url=ws://127.0.0.1:1 max-retries=-1 ! jpegenc ! matroskamux name=m ! "
            f"filesink location={folder}/x.mkv audiotestsrc is-live=true ! d.audio_sink d.audio_src ! queue ! "
            "audioconvert ! m.")
        host.play()
        time.sleep(2)
        host.pipeline.send_event(Gst.Event.new_eos())
        host.wait("EOS", lambda: host.ended)
        host.end()


@case()
def another_source_may_follow_one_that_failed():
    host = Host(f"{LIVE} ! decarttransform name=d ! fakesink name=out sync=true")
    times = host.count("out")
    host.play().connected()
    host.more(times)
    pad = host.element.get_static_pad("sink")
    pad.get_peer().push_event(Gst.Event.new_eos())
    host.wait("the end of the session",
              lambda: host.element.get_property("connection-state").value_nick == "disconnected")
    first = pad.get_peer().get_parent_element()
    first.unlink(host.element)
    for name in ("source",):
        host[name].set_state(Gst.State.NULL)
        host.pipeline.remove(host[name])
    first.set_state(Gst.State.NULL)
    host.pipeline.remove(first)
    source = Gst.parse_bin_from_description(
        "videotestsrc is-live=true ! capsfilter caps=video/x-raw,format=I420,width=640,height=352,framerate=25/1", True)
    host.pipeline.add(source)
    source.link(host.element)
    source.sync_state_with_parent()
    received = host.stat("frames-received")
    host.wait("frames of the second source", lambda: host.stat("frames-received") > received + 25)
    host.more(times)
    host.end()


@case()
def events_of_the_application_pass():
    host = Host(f"{LIVE} ! identity name=i ! decarttransform name=d ! fakesink name=out sync=true")
    down, up = set(), set()

    def note(names):
        def probe(_pad, info):
            structure = info.get_event().get_structure()
            names.add(structure.get_name() if structure else info.get_event().type.value_nicks[0])
            return Gst.PadProbeReturn.OK
        return probe
    host["out"].get_static_pad("sink").add_probe(Gst.PadProbeType.EVENT_DOWNSTREAM, note(down))
    host["i"].get_static_pad("sink").add_probe(Gst.PadProbeType.EVENT_UPSTREAM, note(up))
    host.play().connected()
    source = host["i"].get_static_pad("src")
    for kind in ("CUSTOM_DOWNSTREAM", "CUSTOM_DOWNSTREAM_STICKY", "CUSTOM_BOTH", "CUSTOM_DOWNSTREAM_OOB"):
        source.push_event(Gst.Event.new_custom(getattr(Gst.EventType, kind), Gst.Structure.new_empty(kind.lower())))
    source.push_event(Gst.Event.new_toc(Gst.Toc.new(Gst.TocScope.GLOBAL), False))
    sink = host["out"].get_static_pad("sink")
    sink.push_event(Gst.Event.new_custom(Gst.EventType.CUSTOM_UPSTREAM, Gst.Structure.new_empty("custom_upstream")))
    sink.push_event(Gst.Event.new_navigation(Gst.Structure.new_empty("navigation")))
    wanted = {"custom_downstream", "custom_downstream_sticky", "custom_both", "custom_downstream_oob"}
    host.wait("events downstream", lambda: wanted <= down and any("toc" in name.lower() for name in down))
    host.wait("events upstream", lambda: {"custom_upstream", "navigation"} <= up)
    host.end()


@case(in_gate=True)
def bytes_that_are_no_video_are_an_error():
    for text, part in (("filesrc name=s ! decarttransform name=d ! fakesink", "decodebin"),
                       ("fakesrc num-buffers=5 ! decarttransform name=d ! fakesink", "without caps"),
                       (f"{LIVE} ! decarttransform name=d ! fakesink fakesrc num-buffers=5 ! d.audio_sink", "audio_sink")):
        host = Host(text)
        if host["s"]:
            host["s"].set_property("location", __file__)
        host.play()
        host.wait("an error", lambda host=host: host.errors)
        if part not in host.errors[0]:
            raise Problem(f"{host.errors}")
        host.end()


@case(in_gate=True)
def an_end_that_is_sent_before_the_first_frame_ends():
    for text in (f"{LIVE} ! decarttransform name=d ! fakesink sync=true", "decartsrc name=d source=test ! fakesink sync=true"):
        host = Host(text)
        host.play()
        host.element.send_event(Gst.Event.new_eos())
        host.wait("EOS", lambda host=host: host.ended)
        host.end()


@case()
def a_program_behind_a_pipe_is_not_held_up():
    host = Host("fdsrc name=s ! rawvideoparse width=320 height=176 framerate=25/1 ! decarttransform name=d auto-connect=false ! "
                "fakesink name=out")
    reading, writing = os.pipe()
    host["s"].set_property("fd", reading)
    ended = threading.Event()

    def write():
        while not ended.wait(0.04):
            os.write(writing, bytes(320 * 176 * 3 // 2))
    threading.Thread(target=write, daemon=True).start()
    host.play()
    # A frame that no session takes waits for none, as the program follows the clock; others would wait for a second each.
    host.wait("frames without a session", lambda: host.stat("frames-in") > 80)
    host.element.emit("connect")
    host.connected()
    ended.set()
    os.close(writing)
    host.end()


@case(in_gate=True)
def a_file_through_a_pipe_loses_nothing():
    host = Host("fdsrc name=s ! rawvideoparse width=320 height=176 framerate=25/1 ! decarttransform name=d ! fakesink name=out")
    reading, writing = os.pipe()
    host["s"].set_property("fd", reading)

    def write():
        for _ in range(40):
            os.write(writing, bytes(320 * 176 * 3 // 2))
        os.close(writing)
    threading.Thread(target=write, daemon=True).start()
    host.play()
    host.wait("EOS", lambda: host.ended or host.errors)
    counts = {name: host.stat(name) for name in ("frames-in", "frames-dropped")}
    if host.errors or list(counts.values()) != [40, 0]:
        raise Problem(f"{counts}, errors {host.errors}")
    host.end()


# --- The program --------------------------------------------------------------------------------------------------------

def run(name, folder):
    """The reason why a case fails."""
    with running_standin() as url, tempfile.TemporaryDirectory() as own:
        environment = {**gstreamer(own, os.environ), "DECART_BASE_URL": url, "DECART_API_KEY": "x", "CONTRACT_CASE": name,
                       "CONTRACT_PROBE": os.path.join(folder, "probe")}
        try:
            ended = subprocess.run([sys.executable, os.path.abspath(__file__)], env=environment, capture_output=True, text=True,
                                   timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return f"it hangs for {LIMIT} s"
        return "" if not ended.returncode else ended.stdout.strip() or f"status {ended.returncode}: {ended.stderr[-400:]}"


def main():
    report = Results("contract")
    report.require(PLUGIN, STANDIN)
    names = sys.argv[1:] or [name for name in CASES if VERIFYING or name in GATE]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "contract_probe.c")
        compile_c(source, os.path.join(folder, "probe"), "-Wall", "-Wextra", "-Werror",
                  packages=("gstreamer-1.0", "gstreamer-app-1.0"))
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for name, why in zip(names, pool.map(lambda name: run(name, folder), names)):
                report(name, why)
    return report.failed


if __name__ == "__main__":
    if chosen := os.environ.get("CONTRACT_CASE"):
        from gst import GLib, Gst, on_buffer, text_of
        Gst.init(None)
        try:
            CASES[chosen]()
        except Problem as reason:
            print(reason)
            sys.exit(1)
        sys.exit()
    sys.exit(main())
