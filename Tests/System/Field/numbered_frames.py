"""Pipelines whose frames show a 16 bit number, and what came out of them, for check_field.py.

The number stands in the frame twice, the second time inverted: a damaged frame is not taken for another number.
"""

import array
import collections
import itertools
import os
import re
import threading
import time

from gst import Gst, GstVideo, on_buffer

WIDTH, HEIGHT, RATE = 320, 176, 25
MS = 1000000  # ns
LIMIT = 90  # s, for every wait: a hang, on any machine
FIELDS = f"width={WIDTH},height={HEIGHT},framerate={RATE}/1"
RAW = f"video/x-raw,format=I420,{FIELDS}"
APPSRC = f'appsrc name=in is-live=true format=time caps="{RAW}"'
# Keyframes: by request only.
H264 = ("x264enc name=encoder tune=zerolatency speed-preset=ultrafast bitrate=1000 key-int-max=100000"
        " ! video/x-h264,profile=constrained-baseline")
DARK, BRIGHT = 40, 210
COLUMNS, ROWS = 8, 4


class Problem(Exception):
    pass


def bits(number):
    """The cells of a frame by rows: two with the number, two with its complement."""
    both = [number >> 8 & 255, number & 255, ~number >> 8 & 255, ~number & 255]
    return [[value >> (7 - column) & 1 for column in range(COLUMNS)] for value in both]


def grey(number, width, height, pixel_bytes=1, row_bytes=0):
    """A plane with the number; `row_bytes` is its stride."""
    rows = []
    for row, cells in enumerate(bits(number)):
        line = b"".join(bytes([BRIGHT if cell else DARK]) * (pixel_bytes * extent(column, COLUMNS, width))
                        for column, cell in enumerate(cells))
        rows.append(line.ljust(row_bytes, b"\0") * extent(row, ROWS, height))
    return b"".join(rows)


def extent(index, count, whole):
    """Pixels of a cell."""
    return whole * (index + 1) // count - whole * index // count


def i420(number, width=WIDTH, height=HEIGHT, interlaced=False):
    info = GstVideo.VideoInfo()
    mode = GstVideo.VideoInterlaceMode.INTERLEAVED if interlaced else GstVideo.VideoInterlaceMode.PROGRESSIVE
    info.set_interlaced_format(GstVideo.VideoFormat.I420, mode, width, height)
    luma = grey(number, width, height, 1, info.stride[0])
    return luma.ljust(info.offset[1], b"\0") + bytes([128]) * (info.size - info.offset[1])


def rgb(number, width, height, row_bytes=0):
    return grey(number, width, height, 3, row_bytes)


def number_in(buffer, width, height, stride):
    """The number of an I420 frame; None: the frame has none, such as a black one."""
    values = []
    for row in range(ROWS):
        line = buffer.extract_dup(stride * ((2 * row + 1) * height // (2 * ROWS)), width)
        if len(line) < width:
            return None
        value = 0
        for column in range(COLUMNS):
            level = line[(2 * column + 1) * width // (2 * COLUMNS)]
            if DARK + 45 < level < BRIGHT - 45:
                return None
            value = value << 1 | (level > (DARK + BRIGHT) // 2)
        values.append(value)
    return values[0] << 8 | values[1] if values[0] ^ values[2] == 255 and values[1] ^ values[3] == 255 else None


Left = collections.namedtuple("Left", "number pts arrived")


class Bench:
    """A pipeline with the element `t`, whose source pad is read; its input may be the appsrc `in`."""

    def __init__(self, text, is_raw=True):
        self.pipeline = Gst.parse_launch(text)
        self.element = self.pipeline.get_by_name("t")
        self.changed = threading.Condition()
        self.left, self.messages, self.eos, self.mark_at = [], [], 0, 0
        self.structures = []
        self.caps, self.layout = None, None
        self.feeder, self.stopped, self.pushed = None, threading.Event(), 0
        # PTS may begin again only after a flush.
        self.flushed_at, self.is_raw = [], is_raw
        pad = self.element.get_static_pad("src")
        pad.add_probe(Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_FLUSH, self.note)
        self.pipeline.get_bus().set_sync_handler(self.receive, None)

    def note(self, pad, info):
        if not info.type & Gst.PadProbeType.BUFFER:
            with self.changed:
                self.flushed_at.append(len(self.left))
            return Gst.PadProbeReturn.OK
        buffer, number = info.get_buffer(), None
        if self.is_raw:
            caps = pad.get_current_caps()
            if self.caps is None or not caps.is_equal(self.caps):
                self.caps, video = caps, GstVideo.VideoInfo.new_from_caps(caps)
                self.layout = (video.width, video.height, video.stride[0])
            meta = GstVideo.buffer_get_video_meta(buffer)
            number = number_in(buffer, *self.layout[:2], meta.stride[0] if meta else self.layout[2])
        with self.changed:
            self.left.append(Left(number, buffer.pts, time.monotonic()))
            self.changed.notify_all()
        return Gst.PadProbeReturn.OK

    def receive(self, _bus, message, _data):
        with self.changed:
            if message.type == Gst.MessageType.EOS:
                self.eos += 1
            elif message.type == Gst.MessageType.ELEMENT:
                self.structures.append(message.get_structure().get_name())
            elif message.type in (Gst.MessageType.ERROR, Gst.MessageType.WARNING):
                is_error = message.type == Gst.MessageType.ERROR
                error, debug = message.parse_error() if is_error else message.parse_warning()
                self.messages.append(("ERROR" if is_error else "WARNING", message.src.get_name(), error.message, debug))
            self.changed.notify_all()
        return Gst.BusSyncReply.DROP

    # --- Running ---

    def play(self):
        if self.pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.FAILURE:
            raise Problem(f"the pipeline does not start: {self.messages}")
        return self

    def feed(self, stamp=lambda n: n * 1000 * MS // RATE, make=i420, rate=RATE, push=None, caps=None):
        """Pushes numbered frames in a thread at this rate. `stamp` returns a PTS, or None for a frame without one; `make`
        returns bytes or a buffer, `caps` the caps as text."""

        def perform():
            source, begun, before = self.pipeline.get_by_name("in"), time.monotonic(), None
            while not self.stopped.wait(max(0, begun + self.pushed / rate - time.monotonic())):
                if caps and caps(self.pushed) != before:
                    before = caps(self.pushed)
                    source.set_property("caps", Gst.Caps.from_string(before))
                made, pts = make(self.pushed & 0xFFFF), stamp(self.pushed)
                # No bytes: a buffer without memory.
                buffer = made if isinstance(made, Gst.Buffer) else Gst.Buffer.new_wrapped(made) if made else Gst.Buffer.new()
                buffer.pts = Gst.CLOCK_TIME_NONE if pts is None else pts
                flow = push(buffer) if push else source.emit("push-buffer", buffer)
                self.pushed += 1
                if flow not in (Gst.FlowReturn.OK, Gst.FlowReturn.FLUSHING):
                    with self.changed:
                        self.messages.append(("FLOW", "in", flow.value_nick, ""))
                        self.changed.notify_all()
                    return

        self.feeder = threading.Thread(target=perform, daemon=True)
        self.feeder.start()
        return self

    def feed_audio(self, stamp, is_loud=lambda k: True):
        """Pushes pieces of 20 ms in a thread. `stamp` returns the PTS of a piece, or None if there is none."""
        source, begun = self.pipeline.get_by_name("audio"), time.monotonic()

        def perform():
            for index in itertools.count():
                if self.stopped.wait(max(0, begun + index / 50 - time.monotonic())):
                    return
                if (pts := stamp(index)) is None:
                    continue
                level = 12000 if is_loud(index) else 0
                # 1 kHz
                samples = array.array("h", ([level] * 24 + [-level] * 24) * 20)
                buffer = Gst.Buffer.new_wrapped(samples.tobytes())
                buffer.pts, buffer.duration = pts, 20 * MS
                source.emit("push-buffer", buffer)

        threading.Thread(target=perform, daemon=True).start()

    def listen(self):
        """Returns a list that the PTS of loud buffers at the sink `sink` are appended to: S16LE, one channel."""
        loud = []

        def note(buffer):
            samples = memoryview(buffer.extract_dup(0, buffer.get_size() & ~1)).cast("h")
            if samples and max(samples) > 3000:
                loud.append(buffer.pts)

        on_buffer(self.pipeline.get_by_name("sink").get_static_pad("sink"), note)
        return loud

    def stop(self):
        self.stopped.set()
        if self.feeder:
            self.feeder.join(LIMIT)
        self.pipeline.set_state(Gst.State.NULL)

    # --- Waiting ---

    def wait(self, what, condition, seconds=LIMIT, errors_end=True):
        """Waits for a condition, which each frame, message and tenth of a second checks. An ERROR ends it."""
        end = time.monotonic() + seconds
        # The condition may read properties: without the lock that the streaming thread takes.
        while not (result := condition()):
            ended = [each for each in self.messages if each[0] != "WARNING"]
            if ended and errors_end:
                raise Problem(f"{what}: {ended[0][0]} of {ended[0][1]}: {ended[0][2]} ({ended[0][3] or ''})")
            if time.monotonic() > end:
                raise Problem(f"{what}: not within {seconds} s; {self.state()}")
            with self.changed:
                self.changed.wait(0.1)
        return result

    def state(self):
        numbers = [each.number for each in self.left]
        stats = self.stats("frames-in", "frames-sent", "frames-received", "frames-dropped", "frames-skipped")
        connection = self.element.get_property("connection-state").value_nick
        return (f"{self.pushed} frames pushed, {len(self.left)} left, {len(set(numbers) - {None})} different numbers,"
                f" the last ones {numbers[-5:]}; {stats}, {connection}; {self.messages[:4]}")

    def stats(self, *names):
        stats = self.element.get_property("stats")
        return {name: stats.get_value(name) for name in names}

    def mark(self):
        with self.changed:
            self.mark_at = len(self.left)

    def wait_numbers(self, count, above=-1, what=None, seconds=LIMIT):
        """Waits until `count` different numbers above this one have left since the last mark."""
        self.wait(what or f"{count} different numbers above {above} leave",
                  lambda: len({each.number for each in self.left[self.mark_at:]
                               if each.number is not None and each.number > above}) >= count, seconds)

    def wait_message(self, kind, pattern, seconds=LIMIT):
        return self.wait(f"{kind} '{pattern}'", lambda: self.found(kind, pattern), seconds, errors_end=kind != "ERROR")

    def found(self, kind, pattern):
        return [each for each in self.messages if each[0] == kind and re.search(pattern, f"{each[2]} {each[3]}")]

    # --- Judging ---

    def judge(self, warnings=None, errors=None, rises=True, order=True):
        """Raises if PTS do not rise, numbers go back, or the bus has other messages than these patterns."""
        with self.changed:
            left, messages, flushes = list(self.left), list(self.messages), set(self.flushed_at)
        for index in range(1, len(left)):
            before, after = left[index - 1].pts, left[index].pts
            if rises and index not in flushes and after <= before:
                raise Problem(f"the PTS of frame {index} is {after / MS:.1f} ms, after {before / MS:.1f} ms")
        numbers = [each.number for each in left if each.number is not None]
        for before, after in zip(numbers, numbers[1:]):
            if order and after < before:
                raise Problem(f"number {after} leaves after {before}")
        for kind, source, text, debug in messages:
            allowed = warnings if kind == "WARNING" else errors
            if not allowed or not re.search(allowed, text):
                raise Problem(f"{kind} of {source}: {text} ({debug})")

    def judge_content(self, share=0.9):
        """Raises if too few frames after the first readable one are readable."""
        numbers = [each.number for each in self.left]
        first = next(index for index, number in enumerate(numbers) if number is not None)
        readable = sum(number is not None for number in numbers[first:])
        if readable < share * len(numbers[first:]):
            raise Problem(f"{readable} of {len(numbers[first:])} frames are readable")

    def figures(self):
        numbers = {each.number for each in self.left} - {None}
        return f"{len(numbers)} different numbers of {self.pushed or 'the source'}, {len(self.left)} frames left"


def write_file(folder, name, chain, frames):
    """Encodes numbered frames to a file by this chain. Returns its path."""
    path = os.path.join(folder, name)
    pipeline = Gst.parse_launch(f'appsrc name=in format=time caps="{RAW}" ! {chain} ! filesink location={path}')
    source = pipeline.get_by_name("in")
    pipeline.set_state(Gst.State.PLAYING)
    for number in range(frames):
        buffer = Gst.Buffer.new_wrapped(i420(number))
        buffer.pts, buffer.duration = number * 1000 * MS // RATE, 1000 * MS // RATE
        source.emit("push-buffer", buffer)
    source.emit("end-of-stream")
    message = pipeline.get_bus().timed_pop_filtered(LIMIT * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    if not message or message.type != Gst.MessageType.EOS:
        raise Problem(f"{path} was not written: {message and message.parse_error()}")
    return path
