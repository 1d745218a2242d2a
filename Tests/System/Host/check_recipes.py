#!/usr/bin/python3
"""Runs the commands of docs/RECIPES.md and counts the transformed frames that the viewers get.

    check_recipes.py [WORD...]

With DECART_VERIFY=1 or words. Otherwise, as in scripts/test, it checks only that the page has its recipes and that they
are complete commands: how many frames arrive within a time depends on the machine.

Each recipe runs in a network and a process namespace of its own: its ports are free, and nothing that it starts
outlives it. The commands are the page's, and a block that ends is run again after half a second, as a person does who
was too early. The word behind "```sh" is a block's role. Only the window is replaced: ffplay by ffmpeg, autovideosink
by a file. Both write frames of 16 x 16 pixels. The viewer of Janus is janus_viewer.py. The prompt's look is grey, the
input are colour bars: a recipe passes with 100 frames whose bars are grey and get darker, if no frame has the input's
colours. Black frames, which the element gives before the first transformed one, do not count. A block with "file NAME
FRAMES [FILES]" runs once and must end by itself. Then as many files must match the name, one if no number is there, and
each must have exactly so many frames, all with the look, or with "FRAMES+" at least so many with it.

Prints "ok NAME: figures", "not ok NAME: why" or "skip NAME: why". With words only the recipes whose name contains one
of them run.
"""

import concurrent.futures
import contextlib
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from check_commands import is_complete
from checks import NAMESPACES, RELEASE, REPO, VERIFYING, Results, gstreamer, lacking, measured, read, write

PAGE = os.path.join(REPO, "docs", "RECIPES.md")
PYTHON = os.environ.get("DECART_TEST_PYTHON", os.path.join(REPO, ".build", "venv", "bin", "python"))
FRAMES = 100
LIMIT, HANG = 40, 120  # s, for a recipe: the bound of the figure, and when it is given up
SIDE = 16
SIZE = SIDE * SIDE * 3
# A row of the colour bars, and a pixel of each of them.
ROW, BARS = 4, (1, 3, 5, 8, 10, 12, 14)
# Largest difference of a pixel's channels, 0 to 255: below GREY it is grey, above COLOURFUL it has the input's colours.
GREY, COLOURFUL = 24, 90
SINK = (f"videoscale add-borders=false ! video/x-raw,format=RGB,width={SIDE},height={SIDE},pixel-aspect-ratio=1/1"
        " ! filesink buffer-mode=unbuffered append=true location=frames")
ROLES = ("server", "session", "viewer")
FILE = re.compile(r"file (\S+) (\d+)(\+?)(?: (\d+))?")
# Programs that a recipe needs besides GStreamer, if not ffmpeg alone; it is skipped without them.
PROGRAMS = {"RTMP with nginx": ["nginx", "ffmpeg"], "Janus": ["janus"], "RTSP, push to a server": [], "Lower delay": [],
            "Firewall": ["nft"], "The screen": ["Xvfb"], "A virtual camera": ["pipewire", "wireplumber", "dbus-daemon"]}
# Elements that a recipe needs, by packages that not every system has.
ELEMENTS = ("rtspclientsink", "pipewiresink")
# What a desktop has beside the recipe: a screen with the colour bars, and PipeWire with a session manager.
DESKTOPS = {
    "The screen": """
Xvfb :9 -screen 0 640x352x24 -nolock -nolisten unix >xvfb.log 2>&1 &
export DISPLAY=:9
repeat bars &
""",
    "A virtual camera": """
mkdir -m 700 runtime && export XDG_RUNTIME_DIR=$PWD/runtime
DBUS_SESSION_BUS_ADDRESS=$(dbus-daemon --session --fork --print-address --address=unix:path="$PWD/bus")
export DBUS_SESSION_BUS_ADDRESS
pipewire >pipewire.log 2>&1 &
until [ -S runtime/pipewire-0 ]; do sleep 0.1; done
wireplumber >wireplumber.log 2>&1 &
""",
}
SCREEN = "gst-launch-1.0 videotestsrc is-live=true ! video/x-raw,width=640,height=352,framerate=25/1 ! videoconvert ! ximagesink\n"
# The recipe's rules are for a firewall that lets nothing else out; the stand-in's port takes the place of 443.
FIREWALL = """
nft -f - <<'END'
table inet filter {
    chain output {
        type filter hook output priority 0; policy drop;
        ct state established,related accept
        tcp dport 9001 accept
    }
}
END
"""

DRIVER = """
ip link set lo up
# Neither Janus nor aiortc takes candidates of the loopback interface.
ip link add decart0 type veth peer name decart1 && ip address add 192.0.2.1/24 dev decart0 \\
    && ip link set decart0 up && ip link set decart1 up
export DECART_BASE_URL=ws://127.0.0.1:9001 DECART_API_KEY=x
decart-standin >standin.log 2>&1 &
for _attempt in $(seq 1 100); do
    grep -qs 'listening on' standin.log && break
    sleep 0.1
done
ffplay() {
    ffmpeg -nostdin -loglevel warning "${@:1:$#-1}" -i "${@: -1}" -vf scale=16:16:flags=area -pix_fmt rgb24 \\
        -fps_mode passthrough -f rawvideo pipe:1 \\
        -map 0:v:0 -c copy -flush_packets 1 -f framecrc pipe:3 >>frames 3>>times
}
export -f ffplay
repeat() {
    while :; do
        bash "$1.sh"
        echo "# ended with status $?"
        sleep 0.5
    done >"$1.log" 2>&1 </dev/null
}
"""
report = Results("recipes")


def recipes():
    """Name and blocks (role, text) of each recipe of the page."""
    sections = re.split(r"^## ", read(PAGE), flags=re.M)[1:]
    for section in sections:
        name, _, text = section.partition("\n")
        blocks = re.findall(r"^```sh (\S[^\n]*)\n(.*?)^```$", text, re.M | re.S)
        if blocks:
            yield name.strip(), blocks


def problem(name, blocks):
    """Why the blocks are no recipe; empty if they are."""
    roles = [role for role, _ in blocks]
    if unknown := [role for role in roles if role not in ROLES and not FILE.fullmatch(role)]:
        return f"unknown roles {sorted(unknown)}"
    if any(not is_complete(text.rstrip("\n")) for _, text in blocks):
        return "a block is no complete command"
    if not any("decarttransform" in text for _, text in blocks):
        return "no block has a session"
    if name != "Janus" and not makes_files(blocks) and not any("autovideosink" in text or "ffplay" in text for _, text in blocks):
        return "no block has a viewer"
    return ""


def makes_files(blocks):
    return all(FILE.fullmatch(role) for role, _ in blocks)


def bars(frame):
    at = [(ROW * SIDE + column) * 3 for column in BARS]
    return [frame[start:start + 3] for start in at]


def has_look(frame):
    """The bars of the input are sorted by luma; noir keeps the order."""
    pixels = bars(frame)
    return (all(max(pixel) - min(pixel) <= GREY for pixel in pixels) and pixels[0][1] > 128 and pixels[-1][1] < 64
            and all(left[1] > right[1] for left, right in zip(pixels, pixels[1:])))


def is_input(frame):
    return sum(max(pixel) - min(pixel) > COLOURFUL for pixel in bars(frame)) >= 3


def await_server(block):
    """A command that waits for the server of rtspclientsink, or for the camera of pipewiresrc. gst-launch-1.0 hangs if the
    first fails before its main loop runs; the second waits half a minute for a camera, and does not see a later one."""
    if camera := re.search(r"pipewiresrc target-object=(\w+)", block):
        return f"until pw-cli ls Node | grep -q {camera[1]}; do sleep 0.1; done\n"
    port = re.search(r"rtspclientsink location=rtsp://[^:]+:(\d+)/", block)
    return f"until (: </dev/tcp/127.0.0.1/{port[1]}) 2>/dev/null; do sleep 0.1; done\n" if port else ""


def frames_of(path):
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return []
    return [data[at:at + SIZE] for at in range(0, len(data) - SIZE + 1, SIZE)]


def wrong_times(folder):
    """Why the DTS of a muxer do not ascend, as a viewer's demuxer reads them; empty if they do."""
    wrong, last, count = [], None, 0
    with open(os.path.join(folder, "times"), encoding="utf-8") as file:
        for line in file:
            fields = line.split(",")
            # A viewer that begins again has a header. The last line may not be complete.
            if line.startswith("#") or len(fields) < 5:
                last = None
                continue
            if last is not None and int(fields[1]) <= last:
                wrong.append((last, int(fields[1])))
            last, count = int(fields[1]), count + 1
    return f"equal or backward DTS: {wrong[:5]}" if wrong else "" if count >= FRAMES // 2 else f"the DTS of {count} packets are known"


class Run:
    """A recipe in its namespaces."""

    def __init__(self, name, blocks, work, environment):
        self.folder = tempfile.mkdtemp(dir=work)
        os.symlink(os.path.join(REPO, "pipelines"), os.path.join(self.folder, "pipelines"))
        script = DRIVER + (FIREWALL if name == "Firewall" else DESKTOPS.get(name, ""))
        write(os.path.join(self.folder, "bars.sh"), SCREEN)
        for number, (role, text) in enumerate(blocks):
            block = f"{number}-{role.partition(' ')[0]}"
            write(os.path.join(self.folder, f"{block}.sh"), await_server(text) + text.replace("autovideosink", SINK))
            script += f"bash {block}.sh >{number}.log 2>&1 || exit 1\n" if makes_files(blocks) else f"repeat {block} &\n"
        if name == "Janus":
            with open(os.path.join(self.folder, "viewer.sh"), "w", encoding="utf-8") as file:
                viewer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "janus_viewer.py")
                file.write(shlex.join([PYTHON, viewer, "--url", "http://127.0.0.1:8088/janus", "--frames", "frames"]) + "\n")
            script += "repeat viewer &\n"
        with open(os.path.join(self.folder, "driver.log"), "wb") as log:
            self.process = subprocess.Popen(
                [*NAMESPACES, "bash", "-c", script + ("" if makes_files(blocks) else "wait\n")], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)

    def frames(self):
        return frames_of(os.path.join(self.folder, "frames"))

    def close(self):
        self.process.kill()
        self.process.wait()

    def last_lines(self):
        """The last line of each log, for a failure."""
        for file in sorted(os.listdir(self.folder)):
            if file.endswith(".log") and file != "standin.log":
                with open(os.path.join(self.folder, file), errors="replace") as log:
                    lines = [line.strip() for line in log if line.strip() and not line.startswith("#")]
                if lines:
                    yield f"{file}: {lines[-1][:160]}"


def decoded(path, environment):
    """The frames of a file, in the form of those of a viewer."""
    raw = f"{path}.frames"
    description = f"filesrc location={path} ! decodebin ! videoconvert ! {SINK.replace('location=frames', f'location={raw}')}"
    subprocess.run(["gst-launch-1.0", "-q", *shlex.split(description)], env=environment, timeout=LIMIT, check=True)
    return frames_of(raw)


def is_beside(frame):
    """The left half has the input's colours, the right half none."""
    at = ROW * SIDE * 3
    spreads = [max(frame[pixel:pixel + 3]) - min(frame[pixel:pixel + 3]) for pixel in range(at, at + SIDE * 3, 3)]
    return max(spreads[1:7]) > COLOURFUL and max(spreads[9:15]) <= GREY


def check_file(role, text, folder, environment):
    """Why the files of a block are not right, and the least number of frames with the look."""
    pattern, wanted, more, files = FILE.fullmatch(role).groups()
    paths = glob.glob(os.path.join(folder, pattern))
    look = is_beside if "compositor" in text else has_look if "decarttransform" in text else is_input
    counts = [(sum(map(look, frames)), len(frames)) for frames in (decoded(path, environment) for path in paths)]
    bad = [f"{good} of {count}" for good, count in counts if good < int(wanted) or not more and count != int(wanted)]
    why = f"{len(paths)} files {pattern}" if len(paths) != int(files or 1) else f"{pattern}: frames with the look: {bad}" if bad else ""
    return why, f"{pattern}: {min(counts, default=(0, 0))[0]} frames"


def check_files(name, blocks, work, environment):
    begun = time.monotonic()
    run = Run(name, blocks, work, environment)
    try:
        status = run.process.wait(HANG)
        measured(f"recipes: {name}: the time that it takes", time.monotonic() - begun, "s", at_most=LIMIT)
        if status:
            return report(name, f"status {status}: {'; '.join(run.last_lines())}")
        results = [check_file(role, text, run.folder, environment) for role, text in blocks]
        report(name, "; ".join(why for why, _ in results if why), ", ".join(figures for _, figures in results))
    except subprocess.SubprocessError as error:
        report(name, f"{error}: {'; '.join(run.last_lines())}")
    finally:
        run.close()


def check(name, blocks, work, environment):
    if why := problem(name, blocks):
        return report(name, why)
    missing = [program for program in PROGRAMS.get(name, [] if makes_files(blocks) else ["ffmpeg"]) if not shutil.which(program)]
    missing += [element for element in ELEMENTS if element in str(blocks)
                and subprocess.run(["gst-inspect-1.0", element], env=environment, stdout=subprocess.DEVNULL, check=False).returncode]
    if name == "Janus" and not os.path.exists(PYTHON):
        missing.append("virtual environment for Python")
    if missing:
        return report.skip(f"{name}: no {', '.join(missing)}")
    if makes_files(blocks):
        return check_files(name, blocks, work, environment)
    begun, first = time.monotonic(), None
    with contextlib.closing(Run(name, blocks, work, environment)) as run:
        while time.monotonic() < begun + HANG:
            frames = run.frames()
            first = first or (frames and time.monotonic())
            good = [frame for frame in frames if has_look(frame)]
            if len(good) >= FRAMES:
                break
            time.sleep(0.2)
        seconds = time.monotonic() - begun
        if untransformed := sum(is_input(frame) for frame in frames):
            why = f"{untransformed} of {len(frames)} frames are the input's"
        elif re.search(r"\b(flv|mpegts)mux\b", str(blocks)) and "ffplay" in str(blocks) and (wrong := wrong_times(run.folder)):
            why = wrong
        elif len(good) < FRAMES:
            seen = f", the last one has {[tuple(pixel) for pixel in bars(frames[-1])]}" if frames else ""
            why = f"{len(good)} of {len(frames)} frames have the look{seen}: {'; '.join(run.last_lines())}"
        else:
            why = ""
            measured(f"recipes: {name}: {FRAMES} transformed frames", seconds, "s", at_most=LIMIT)
        report(name, why, f"{len(good)} of {len(frames)} frames have the look, in {seconds:.0f} s, the first one after "
                          f"{(first or begun) - begun:.1f} s")


def main():
    words = sys.argv[1:]
    found = list(recipes())
    if len(found) < 13:
        report("the page has its recipes", f"found {[name for name, _ in found]}")
    chosen = [each for each in found if not words or any(word in each[0] for word in words)]
    if not VERIFYING and not words:
        for name, blocks in chosen:
            report(name, problem(name, blocks), "its commands are complete; scripts/verify runs them")
        return None
    if missing := lacking():
        return report.skip(f"no {missing}")
    with tempfile.TemporaryDirectory(prefix="decart-recipes-", ignore_cleanup_errors=True) as work:
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("GST_") and name not in ("DECART_API_KEY", "DECART_BASE_URL", "DISPLAY")}
        environment.update(gstreamer(work), HOME=work, PATH=f"{RELEASE}:/usr/sbin:{os.environ['PATH']}")
        # Fills the registry once, for pipelines that start side by side.
        subprocess.run(["gst-inspect-1.0", "decarttransform"], env=environment, stdout=subprocess.DEVNULL, check=True,
                       timeout=60)
        with concurrent.futures.ThreadPoolExecutor(max_workers=3) as pool:
            list(pool.map(lambda each: check(*each, work, environment), chosen))


if __name__ == "__main__":
    main()
    sys.exit(report.failed)
