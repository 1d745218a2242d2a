#!/usr/bin/python3
"""Runs the example programs and the pipelines with several outputs against a stand-in, and checks their pixels.

    check_examples.py [WORD...]

The minimal programs get two prompts. live.py gets commands; its reports on recordings are compared with the files and
with a copy of all frames that it displayed. rtsp.py serves two viewers; faults.py and the scripts run as they are, each
script in a copy of the repository. Scripts that act after fixed times (TIMED_SCRIPTS) run for scripts/verify only
(DECART_VERIFY=1). With words, the checks whose name contains one of them run. ../Packages/rust_example.py has minimal.rs.

Prints "ok NAME", "not ok NAME: why" or "skip NAME: why". Uses loopback only.
"""

import concurrent.futures
import contextlib
import itertools
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

from checkout import checkout, run_script
from checks import RELEASE, REPO, VERIFYING, Problem, Results, end_process, gstreamer, measured, read, wait_until, write
from gst import Gst
from standin import StandIn, running_standin

EXAMPLES = os.path.join(REPO, "pipelines", "examples")
LIVE = os.path.join(EXAMPLES, "live.py")
LINES = 64  # of a short example
WIDTH, HEIGHT = 320, 176  # small, because several programs and their stand-in share two cores
LIMIT = 90  # s, for every wait
VIDEO = (f"videotestsrc is-live=true horizontal-speed=8"
         f" ! video/x-raw,format=I420,width={WIDTH},height={HEIGHT},framerate=20/1")

report = Results("examples")


def check(name, action, *arguments):
    """Runs a check, which reports its parts itself."""
    report.perform(name, action, name, *arguments)


def in_parallel(checks):
    """Runs checks in parallel, because they mostly wait; the first ones begin while later ones are prepared."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=2 if VERIFYING else 4) as pool:
        for each in checks:
            pool.submit(check, *each)


def expect(condition, why):
    if not condition:
        raise Problem(why)


# --- Frames -----------------------------------------------------------------------------------------------------------


def pull(pipeline, limit=LIMIT):
    """Returns (width, height, pixels) of the next frame of the appsink `out`, or None at the end of the stream."""
    sample = pipeline.get_by_name("out").emit("try-pull-sample", limit * Gst.SECOND)
    if not sample:
        message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
        expect(not message, message and message.parse_error()[0].message)
        return None
    caps = sample.get_caps().get_structure(0)
    buffer = sample.get_buffer()
    return caps.get_value("width"), caps.get_value("height"), buffer.extract_dup(0, buffer.get_size())


def decode(path, form="RGB"):
    """Returns all frames of a file."""
    expect(os.path.exists(path), f"there is no {os.path.basename(path)}")
    parse = "pngdec" if path.endswith(".png") else "matroskademux ! vp8dec"
    if path.endswith(".mp4"):
        decoder = next(each for each in ("avdec_h264", "openh264dec") if Gst.ElementFactory.find(each))
        parse = f"qtdemux ! h264parse ! {decoder}"
    pipeline = Gst.parse_launch(f"filesrc name=file ! {parse} ! videoconvert ! video/x-raw,format={form}"
                                " ! appsink name=out sync=false max-buffers=4")
    pipeline.get_by_name("file").set_property("location", path)
    pipeline.set_state(Gst.State.PLAYING)
    try:
        frames = list(iter(lambda: pull(pipeline), None))
    finally:
        pipeline.set_state(Gst.State.NULL)
    expect(frames, f"{os.path.basename(path)} holds no frame")
    return frames


def look(frame, left=0, right=None):
    """Returns the stand-in's look of a frame of colour bars, or of some of its columns."""
    expect(frame, "no frame arrives")
    width, height, data = frame
    right = right or width
    rows = [data[row * width * 3 + left * 3:row * width * 3 + right * 3] for row in range(height)]
    pixels = [row[at:at + 3] for row in rows[2:height // 2:4] for at in range(0, len(row) - 2, 12)]
    if max(max(pixel) for pixel in pixels) < 40:
        return "black"
    if sum(max(pixel) - min(pixel) for pixel in pixels) / len(pixels) < 20:
        return "noir"  # no colour
    if not any(red > 170 and green > 170 and blue < 100 for red, green, blue in pixels):
        return "cyberpunk"  # inverted, so without yellow
    # A brick is bright at its upper edge and dark at its lower one.
    green = [sum(row[1::3]) / (right - left) for row in rows[:height // 32 * 16]]
    edges = sum(green[0::16]) - sum(green[15::16])
    return "lego" if edges / (len(green) // 16) > 10 else "untouched"


def expect_look(wanted, frame, what, *columns):
    seen = look(frame, *columns)
    expect(seen == wanted, f"{what} looks {seen}, not {wanted}")


# --- The programs -----------------------------------------------------------------------------------------------------


class Program:
    """A process controlled by lines on its standard input and output."""

    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, bufsize=1, env=environment)
        self.lines = []
        self.read = 0  # lines consumed by `wait_for_line`
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def send(self, command):
        self.process.stdin.write(command + "\n")

    def wait_for_line(self, pattern):
        """Returns the first new line that matches, and skips those before it."""
        def find():
            ended = self.process.poll() is not None and not self.reader.is_alive()
            while self.read < len(self.lines):
                self.read += 1
                match = re.search(pattern, self.lines[self.read - 1])
                if match:
                    return match
            expect(not ended, f"it ended before it printed {pattern!r}: {self.lines[-3:]}")
            return None
        try:
            return wait_until(repr(pattern), find)
        except Problem as error:
            raise Problem(f"{error}; its last lines: {self.lines[-3:]}") from None

    def end(self):
        """Closes the input and returns the exit status."""
        self.process.stdin.close()
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Problem("it does not end") from None

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Displayed:
    """The file with all frames that a program displays: raw I420, without separators."""

    SIZE = WIDTH * HEIGHT * 3 // 2

    def __init__(self, path):
        self.path = path

    def sink(self):
        return f"queue max-size-buffers=0 max-size-bytes=0 max-size-time=0 ! filesink location={self.path}"

    def count(self):
        return os.path.getsize(self.path) // self.SIZE if os.path.exists(self.path) else 0

    def frame(self, number):
        with open(self.path, "rb") as file:
            file.seek((number - 1) * self.SIZE)
            return file.read(self.SIZE)

    def look(self):
        """Returns the look of the newest frame."""
        if not self.count():
            return None
        newest = self.path + ".newest"
        with open(newest, "wb") as file:
            file.write(self.frame(self.count()))
        pipeline = Gst.parse_launch(
            f"filesrc location={newest} ! rawvideoparse format=i420 width={WIDTH} height={HEIGHT}"
            " ! videoconvert ! video/x-raw,format=RGB ! appsink name=out sync=false")
        pipeline.set_state(Gst.State.PLAYING)
        try:
            return look(pull(pipeline))
        finally:
            pipeline.set_state(Gst.State.NULL)

    def distance(self, number, luma):
        """Returns the mean luma difference per pixel between a frame and a decoded one, on three rows of bars."""
        frame = self.frame(number)
        total = 0
        for row in (20, 61, 90):
            line = slice(row * WIDTH, (row + 1) * WIDTH)
            total += sum(abs(one - other) for one, other in zip(frame[line], luma[line]))
        return total / (3 * WIDTH)


def query(program):
    program.send("query")
    match = program.wait_for_line(r"^query: (\w+), position ([\d.]+) s, (\d+) frames, recording (.*)$")
    return match[1], float(match[2]), int(match[3]), match[4]


def wait_for_frames(program, frames):
    target = query(program)[2] + frames
    wait_until(f"{frames} frames", lambda: query(program)[2] >= target)


def recorded(program, path):
    match = program.wait_for_line(f"^recorded {re.escape(path)}: frames (\\d+) to (\\d+), (\\d+) in all$")
    return int(match[1]), int(match[2]), int(match[3])


def exchange_commands(program, displayed, files, results):
    """Sends the commands. Appends the reported extent of each recording to `results`."""
    one, two, three, four = files
    program.wait_for_line("^state: connecting$")
    program.wait_for_line("^state: generating$")
    wait_until("a transformed frame", lambda: displayed.look() == "lego")
    program.send(f"record {one}")
    wait_for_frames(program, 20)
    state, position, _, path = query(program)
    expect(state == "generating" and position > 0 and path == one, f"query printed {state}, {position} s, {path}")
    program.send(f"record {two}")
    results.append(recorded(program, one))
    wait_for_frames(program, 5)
    program.send("prompt Noir film")
    program.wait_for_line(r"^prompt: accepted after \d+ ms: Noir film$")
    wait_until("the new look", lambda: displayed.look() == "noir")
    wait_for_frames(program, 5)
    program.send("camera")
    program.wait_for_line("^camera: this element has none to switch$")
    program.send(f"record {three}")
    results.append(recorded(program, two))
    wait_for_frames(program, 10)
    program.send("stop")
    results.append(recorded(program, three))
    expect(query(program)[3] == "off", "the recording continues after stop")
    # Frames that no recording has.
    wait_for_frames(program, 2)
    program.send("prompt refuse-me")
    program.wait_for_line("^prompt: refused: .")
    program.send("record /no/such/folder/file.webm")
    program.wait_for_line("^record: cannot write ")
    program.send("nonsense")
    program.wait_for_line("^commands: ")
    program.send(f"record {four}")
    wait_for_frames(program, 10)
    program.send("quit")
    results.append(recorded(program, four))


def check_minimal(name, command, url, work, environment):
    displayed = Displayed(os.path.join(work, f"{name.partition(':')[0]}.i420"))
    pipeline = (f"{VIDEO} ! decarttransform name=decart base-url={url} api-key=x prompt=Lego width={WIDTH} height={HEIGHT}"
                f" framerate=20 ! {displayed.sink()}")
    with contextlib.closing(Program([*command, pipeline], environment)) as program:
        wait_until("a transformed frame", lambda: displayed.look() == "lego")
        program.send("Film noir")
        program.wait_for_line("^accepted$")
        wait_until("the new look", lambda: displayed.look() == "noir")
        program.send("refuse-me")
        program.wait_for_line("refused")
        status = program.end()
        expect(status == 0, f"status {status}: {program.lines[-3:]}")
    report(name)


def check_numpy(name, url, environment):
    if not (python := os.environ.get("DECART_TEST_PYTHON")):
        report.skip(f"{name}: no virtual environment for Python")
        return
    video = VIDEO.replace("is-live=true", "is-live=true num-buffers=150")
    result = subprocess.run([python, os.path.join(EXAMPLES, "numpy_frames.py"), f"{video} ! decarttransform name=decart"
                             f" base-url={url} api-key=x prompt=Cyberpunk width={WIDTH} height={HEIGHT} framerate=20"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False, env=environment)
    expect(result.returncode == 0, f"status {result.returncode}: {result.stdout[-300:]}")
    expect("accepted: Film noir" in result.stdout, result.stdout[-300:])
    means = re.findall(rf"^\d+ \({HEIGHT}, {WIDTH}, 3\) (\d+) (\d+) (\d+)$", result.stdout, re.MULTILINE)
    spread = [max(mean) - min(mean) for mean in (tuple(map(int, mean)) for mean in means)]
    expect(len(spread) >= 4 and max(spread[:2]) > 8 and spread[-1] <= 2, f"mean colours {means}")
    report(name)


# A pipeline, and what the program must say of it. SOURCE is for a program that puts a sink behind it.
MISTAKES = {
    "wrong key": ("SOURCE ! decarttransform name=decart base-url=URL/?fault=http_401 api-key=x", "rejected the API key"),
    "no name": ("SOURCE ! decarttransform", "name=decart"),
    "two links": ("SOURCE ! ! decarttransform name=decart", "syntax error"),
    "no such property": ("SOURCE ! decarttransform name=decart promt=Lego", 'no property "promt"'),
    "no plugin": ("SOURCE ! decarttransform name=decart", "gstreamer1.0-decart"),
}


def osc(address, tags, value):
    """An OSC message: each text ends with a zero and fills four bytes."""
    return b"".join(text + b"\0" * (4 - len(text) % 4) for text in (address.encode(), tags.encode())) + value


def check_perform(name, url, work, environment):
    cues = os.path.join(work, "show.txt")
    write(cues, "# time and prompt\n0:00  Lego World\n")
    pipeline = f"{VIDEO} ! decarttransform name=decart base-url={url} api-key=x width={WIDTH} height={HEIGHT} prompt=hue ! fakesink"
    command = [os.path.join(EXAMPLES, "perform.py"), "--timeline", cues, "--http", "0", "--osc", "0", pipeline]
    with contextlib.closing(Program(command, environment)) as program:
        web = f"http://{program.wait_for_line(r'^Web: (127.0.0.1:[0-9]+)$')[1]}"
        port = int(program.wait_for_line(r"^OSC: 127.0.0.1:(\d+)$")[1])

        def post(path, text, **fields):
            try:
                with urllib.request.urlopen(urllib.request.Request(web + path, text.encode(), fields), timeout=LIMIT) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code

        program.wait_for_line("^accepted: Lego World$")
        expect(post("/prompt", "Film noir") == 200, "POST /prompt is refused")
        program.wait_for_line("^accepted: Film noir$")
        expect(post("/prompt", "hue", Origin="http://example.org") == 403, "a page of another site may post")
        expect(post("/none", "") == 404, "an unknown command is no error")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as surface:
            for message in (osc("/standby", ",f", struct.pack(">f", 1)), osc("/standby", ",i", struct.pack(">i", 0)), b"/prompt",
                            osc("/prompt", ",s", b"Anime\0\0\0")):
                surface.sendto(message, ("127.0.0.1", port))
            program.wait_for_line("^accepted: Anime$")
            surface.sendto(osc("/quit", ",", b""), ("127.0.0.1", port))
        expect(program.end() == 0, f"it ends with {program.process.returncode}: {program.lines[-2:]}")
    report(name)


def check_mistakes(name, command, sink, url, work, environment):
    """Each mistake ends the program with status 1 and one sentence, and --help with 0."""
    for mistake, (pipeline, said) in MISTAKES.items():
        pipeline = pipeline.replace("SOURCE", VIDEO).replace("URL", url) + sink
        place = environment if mistake != "no plugin" else {
            **environment, "GST_REGISTRY_1_0": os.path.join(work, f"{name.partition(':')[0]}.registry"),
            "GST_PLUGIN_SYSTEM_PATH_1_0": environment["GST_PLUGIN_SYSTEM_PATH_1_0"].rpartition(":")[2]}
        with contextlib.closing(Program([*command, pipeline], place)) as program:
            status = program.process.wait(LIMIT)
            program.reader.join(LIMIT)
            expect(status == 1, f"{mistake}: status {status}: {program.lines[-3:]}")
            # live.py prints the states of the session too.
            lines = [line for line in program.lines if not line.startswith("state: ")]
            expect(len(lines) == 1 and said in lines[0], f"{mistake}: {program.lines[-5:]}")
    with contextlib.closing(Program([*command, "--help"], environment)) as program:
        status = program.process.wait(LIMIT)
        expect(status == 0, f"--help: status {status}: {program.lines[-3:]}")
    report(name)


def minimal_problems():
    """The short examples are short, and README.md has the minimal one in Python."""
    readme = read(os.path.join(REPO, "README.md"))
    for file in sorted(os.listdir(EXAMPLES)):
        if file.startswith(("minimal.", "numpy_", "recorder.")):
            text = read(os.path.join(EXAMPLES, file))
            if (lines := text.count("\n")) > LINES:
                yield f"{file} has {lines} lines, at most {LINES}"
            if file == "minimal.py" and f"```python\n{text}```" not in readme:
                yield f"README.md does not have {file}"


def check_program(name, command, url, work, environment):
    folder = os.path.join(work, name)
    os.mkdir(folder)
    displayed = Displayed(os.path.join(folder, "shown.i420"))
    # One name contains a space and a quote, which must arrive unchanged.
    files = [os.path.join(folder, each) for each in ("one.webm", "the second's.webm", "three.webm", "four.webm")]
    results = []
    pipeline = (f"{VIDEO} ! decarttransform name=decart base-url={url} api-key=x prompt=\"Lego World\""
                f" width={WIDTH} height={HEIGHT} framerate=20")
    with contextlib.closing(Program([command, "--sink", displayed.sink(), pipeline], environment)) as program:
        exchange_commands(program, displayed, files, results)
        status = program.end()
        expect(status == 0, f"status {status}: {program.lines[-3:]}")
    report(f"{name}: prompt, camera, record, stop, query and quit work as documented")
    check(f"{name}: no frame is lost between two recordings, and the files hold the reported frames", check_recordings,
          files, results, displayed)
    check(f"{name}: the recordings show the prompts", check_looks, files)


def check_recordings(name, files, results, displayed):
    for (_, last, _), (first, _, _) in zip(results[:2], results[1:3]):
        expect(first == last + 1, f"frame {last} is followed by {first}")
    expect(results[3][0] > results[2][1] + 1, "frames between stop and record were recorded")
    total = displayed.count()
    for path, (first, last, count) in zip(files, results):
        frames = decode(path, "I420")
        base = os.path.basename(path)
        expect(len(frames) == count == last - first + 1, f"{base}: {len(frames)} frames, reported were {count}")
        # The displayed frames verify the numbers independently: none may be more similar to the recorded frame.
        for number, (_, _, luma) in ((first, frames[0]), (last, frames[-1])):
            expect(number <= total, f"frame {number} of {total} that were displayed")
            distances = {other: displayed.distance(other, luma)
                         for other in range(max(1, number - 5), min(total, number + 5) + 1)}
            best = min(distances, key=distances.get)
            expect(distances[number] <= distances[best] + 1,
                   f"{base}: the frame reported as {number} is frame {best} ({distances})")
    report(name)


def check_looks(name, files):
    recordings = [decode(path) for path in files]
    for number, wanted in ((0, "lego"), (2, "noir"), (3, "noir")):
        for frame in recordings[number]:
            expect_look(wanted, frame, f"a frame of recording {number + 1}")
    # The prompt changed in the middle of this recording.
    expect_look("lego", recordings[1][0], "the first frame of recording 2")
    expect_look("noir", recordings[1][-1], "the last frame of recording 2")
    report(name)


def check_camera(name, command, url, environment):
    """A custom source cannot be switched."""
    source = (f"decartsrc name=decart base-url={url} api-key=x prompt=Lego width={WIDTH} height={HEIGHT} framerate=20"
              f" source=\"{VIDEO}\"")
    with contextlib.closing(Program([command, "--sink", "fakesink sync=true", source], environment)) as program:
        program.wait_for_line("^state: generating$")
        program.send("camera")
        program.wait_for_line("^camera: there is no other$")
        expect(program.end() == 0, program.lines[-3:])
    report(name)


# --- RTSP -------------------------------------------------------------------------------------------------------------


def check_rtsp(name, standin, environment):
    decoder = next((each for each in ("avdec_h264", "openh264dec") if Gst.ElementFactory.find(each)), None)
    encoder = Gst.ElementFactory.find("x264enc")
    if not decoder or not encoder:
        report.skip(f"{name}: no {'decoder of H.264' if encoder else 'x264enc'}")
        return
    server = Program([os.path.join(REPO, "pipelines", "rtsp.py"), "--port", "0",
                      f"( {VIDEO} ! decarttransform base-url={standin.url} api-key=x prompt=Cyberpunk"
                      f" width={WIDTH} height={HEIGHT} framerate=20"
                      " ! x264enc tune=zerolatency speed-preset=ultrafast bitrate=1000 key-int-max=20"
                      " ! rtph264pay name=pay0 config-interval=-1 )"], environment)
    viewers = []
    try:
        address = server.wait_for_line("^rtsp://127.0.0.1:.*$")[0]
        for number in (1, 2):
            viewers.append(Gst.parse_launch(
                f"rtspsrc location={address} protocols=tcp ! rtph264depay ! {decoder} ! videoconvert"
                " ! video/x-raw,format=RGB ! appsink name=out sync=false max-buffers=2 drop=true"))
            viewers[-1].set_state(Gst.State.PLAYING)
            server.wait_for_line("^a viewer came$")
        for number, viewer in enumerate(viewers, 1):
            wait_until(f"a transformed frame at viewer {number}", lambda: look(pull(viewer)) == "cyberpunk")
        prompts = [each["prompt_texts"] for each in standin.sessions]
        report("rtsp: two viewers receive transformed frames")
        viewers.pop(0).set_state(Gst.State.NULL)
        server.wait_for_line("^a viewer left$")
        for _ in range(40):
            frame = pull(viewers[0])
        expect_look("cyberpunk", frame, "the other viewer's frame after one viewer has left")
        viewers.pop(0).set_state(Gst.State.NULL)
        server.wait_for_line("^a viewer left$")
        wait_until("the end of the session", lambda: all(each["state"] == "closed" for each in standin.sessions))
        expect(len(standin.sessions) == 1 and prompts == [["Cyberpunk"]], f"sessions for two viewers: {standin.sessions}")
        report(name)
    finally:
        for viewer in viewers:
            viewer.set_state(Gst.State.NULL)
        end_process(server.process)


# --- Scripts ----------------------------------------------------------------------------------------------------------


class Script:
    """A script of pipelines/, which has run in a copy of the repository."""

    def __init__(self, work, name):
        self.folder, environment = checkout(os.path.join(work, name))
        status, self.output = run_script(self.folder, environment, name)
        expect(status == 0, f"{name}: status {status}: {self.output[-300:]}")

    def demo(self, name):
        return os.path.join(self.folder, "demo", name)


def check_files(name, work):
    """Runs the script with which the name begins; compares the last frames of its files, where one is expected."""
    script = name.partition(":")[0]
    demo = Script(work, script).demo
    for file, wanted in FILES[script].items():
        frame = decode(demo(file))[-1]
        if wanted:
            expect_look(wanted, frame, f"the last frame of {file}")
    report(name)


def check_two_sessions(name, work):
    script = Script(work, "two-sessions.sh")
    demo = script.demo
    for file in ("two-sessions.webm", "two-sessions.png"):
        frame = decode(demo(file))[-1]
        expect_look("lego", frame, f"the left half of {file}", 0, 640)
        expect_look("noir", frame, f"the right half of {file}", 640, 1280)
    report(name)
    text = read(os.path.join(script.folder, ".build", "two-sessions.log"))
    problems = []
    for side, codec, lowest, highest in (("left", "VP8", 400_001, 2_000_000), ("right", "H264", 1, 400_000)):
        codecs = set(re.findall(rf"GstDecartTransform:{side}/.*encoding-name=\(string\)(\w+)", text)) - {"RTX"}
        rates = [int(each) for each in re.findall(rf'GstDecartTransform:{side}: target-bitrate = (\d+)', text)]
        if codecs != {codec}:
            problems.append(f"{side} was encoded as {codecs}")
        if not rates or max(rates) > highest:
            problems.append(f"{side} had the target bitrates {rates}")
        elif lowest > 1:
            measured(f"examples: two-sessions.sh: highest target bitrate of the {side} session", max(rates), "bit/s",
                     at_least=lowest)
    report("two-sessions.sh: each session has its own codec and bitrate", "; ".join(problems))


def check_faults(name, environment):
    """Runs faults.py, which finds the stand-in through PATH."""
    path = os.pathsep.join([RELEASE, os.environ.get("PATH", "")])
    result = subprocess.run([os.path.join(EXAMPLES, "faults.py")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=250, check=False, env={**environment, "PATH": path})
    expect(result.returncode == 0, f"status {result.returncode}: {result.stdout[-300:]}")
    expect(re.search(r"^\d+ frames through [2-9] sessions$", result.stdout, re.MULTILINE), result.stdout[-300:])
    report(name)


def check_through(name, work):
    if not Gst.ElementFactory.find("x264enc"):
        report.skip(f"{name}: no x264enc")
        return
    script = Script(work, "rtsp-through.sh")
    expect("60 frames came through" in script.output, script.output[-300:])
    for number in (0, 1):
        # The script records for some seconds.
        measured(f"examples: frames in through-0{number}.mp4", len(decode(script.demo(f"through-0{number}.mp4"))), "frames",
                 at_least=20)
    report(name)


def check_standby(name, work):
    out = Script(work, "standby.sh").output
    rows = re.findall(r"^ *(\d+) +(yes|no) +\w+ +(\d+) +(\d+) +(\d+)$", out, re.MULTILINE)
    expect([standby for _, standby, *_ in rows] == 3 * ["yes"] + 4 * ["no"] + 6 * ["yes"] + 3 * ["no"], out[-1500:])
    counts = [(int(sent), int(billed)) for _, _, sent, _, billed in rows]
    expect(set(counts[:3]) == {(0, 0)}, f"frames or seconds before the first frame: {out[-1500:]}")
    expect(counts == sorted(counts) and counts[12][0] > 0, f"no frames, or a count falls: {out[-1500:]}")
    # The last tick of a generation comes up to a second after its last frame: standby begins with the eighth row.
    still = next(index for index in range(7, 13) if counts[index] == counts[12])
    measured("examples: standby.sh: rows of a standby until frames and bill stand", still - 7, "s", at_most=1)
    measured("examples: standby.sh: frames sent in the seconds after the second standby", counts[-1][0] - counts[12][0], "frames",
             at_least=1)
    measured("examples: standby.sh: billed in seven seconds without standby", counts[-1][1], "s", at_least=4)
    report(name)


def programs_checks(url, work, environment):
    """The checks of the programs, which share a stand-in."""
    copy, build_environment = checkout(os.path.join(work, "build"))
    built = subprocess.run([os.path.join(copy, "pipelines", "examples", "build.sh")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, timeout=250, check=False, env=build_environment)
    report("the programs compile", built.stdout or f"status {built.returncode}" if built.returncode else "")
    report("the short examples are short, and README.md has one", "; ".join(minimal_problems()))
    folder = os.path.join(copy, ".build", "examples")
    for name, command in (("minimal.py", ["/usr/bin/python3", os.path.join(EXAMPLES, "minimal.py")]),
                          ("minimal.c", [os.path.join(folder, "minimal-c")]),
                          ("minimal.swift", [os.path.join(folder, "minimal-swift")])):
        yield f"{name}: prompts are applied, and a refusal is printed", check_minimal, command, url, work, environment
    yield "numpy_frames.py: the arrays have the looks of the prompts", check_numpy, url, environment
    python = os.environ.get("DECART_TEST_PYTHON") or "/usr/bin/python3"
    for name, command, sink in (("minimal.py", ["/usr/bin/python3", os.path.join(EXAMPLES, "minimal.py")], " ! fakesink"),
                                ("minimal.c", [os.path.join(folder, "minimal-c")], " ! fakesink"),
                                ("minimal.swift", [os.path.join(folder, "minimal-swift")], " ! fakesink"),
                                ("numpy_frames.py", [python, os.path.join(EXAMPLES, "numpy_frames.py")], ""),
                                ("live.py", [LIVE, "--sink", "fakesink"], ""),
                                ("perform.py", [os.path.join(EXAMPLES, "perform.py")], " ! fakesink")):
        yield f"{name}: a mistake ends it with status 1 and one sentence", check_mistakes, command, sink, url, work, environment
    yield "perform.py: timeline, HTTP and OSC change the prompt", check_perform, url, work, environment
    yield "live.py", check_program, LIVE, url, work, environment
    yield "live.py: camera says that there is no other", check_camera, LIVE, url, environment
    yield "faults.py: frames come through a queue and a restart of the service", check_faults, environment


# By script: its files, and the look of the last frame.
FILES = {
    "outputs.sh": {"outputs.webm": "lego", "outputs.png": "lego"}, "watch.sh": {"watch.png": "lego"},
    "record.sh": {"record-1.webm": "lego", "record-3.webm": "cyberpunk"},
    "demo.sh": {"transformed.webm": None, "before-after-1.png": None, "before-after-2.png": None},
    "reconnect.sh": {"reconnect-1.png": "lego", "reconnect-3.png": "lego"},
}
SCRIPTS = [
    ("outputs.sh: the recording and the picture of one session are transformed", check_files),
    ("watch.sh: a viewer of a session receives its frames", check_files),
]
# They act after fixed times.
TIMED_SCRIPTS = [
    ("two-sessions.sh: one capture has two looks side by side", check_two_sessions),
    ("standby.sh: standby costs nothing", check_standby),
    ("rtsp-through.sh: H.264 of a camera comes through and is recorded", check_through),
    ("record.sh: recordings follow each other and show the prompts", check_files),
    ("demo.sh: it leaves its files", check_files),
    ("reconnect.sh: the recording goes on while the service restarts, with the prompt", check_files),
]


def main():
    words = sys.argv[1:]
    os.environ.pop("DECART_API_KEY", None)
    with tempfile.TemporaryDirectory() as work:
        # For child processes only: this process decodes with the system's elements.
        environment = gstreamer(work, os.environ)
        Gst.init(None)
        # The sessions of rtsp.py are counted: it has a stand-in of its own.
        with running_standin() as url, StandIn("--show-prompts") as counting:
            checks = itertools.chain(
                [("rtsp: all viewers share one session, which ends with the last of them", check_rtsp, counting, environment)],
                ((name, body, work) for name, body in SCRIPTS + (TIMED_SCRIPTS if VERIFYING or words else [])),
                programs_checks(url, work, environment))
            in_parallel(each for each in checks if not words or any(word in each[0] for word in words))
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
