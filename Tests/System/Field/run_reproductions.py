#!/usr/bin/python3
"""Runs the programs that reproduce the findings of a review, and says for each whether the built plugin does it right.

    run_reproductions.py [--list] REVIEW [NAME...]

REVIEW is the folder with repro-host, repro-field and repro-network; the programs are no part of this project. They are copied
to a temporary folder and compiled there. Each runs alone, with its own stand-in or hostile peer, and has a limit of time.
GST_DECART names another checkout with a release build and a virtual environment (.build/venv), which some programs need.

Prints "right NAME: what was seen" or "wrong NAME: what was seen". What is right is in the table, in terms of the output.
"""

import argparse
import dataclasses
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

REPO = os.environ.setdefault("GST_DECART", os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))
# GStreamer's own elements print the first two: with 200 changes of the caps a second, and of an element that is released
# without NULL.
CRITICAL = re.compile(r"CRITICAL(?! \*\*: [\d:.]+: (?:gst_video_frame_map_id: assertion 'info->finfo->format == meta|"
                      r"file ../gst/deinterlace|\nTrying to dispose element [a-z]))|HANG for more")


@dataclasses.dataclass
class Output:
    text: str
    status: int  # of the program; of run.sh, which hands it on

    def has(self, pattern):
        return bool(re.search(pattern, self.text))

    def numbers(self, pattern):
        return [float(value) for value in re.findall(pattern, self.text)]

    def field(self, name):
        """The values of a counter in the lines that base.py of repro-field prints."""
        return self.numbers(rf"'{name}': (\d+)")

    def per_second(self, first):
        """Frames of each second from this one on, as host.c of repro-network prints them."""
        return self.numbers(r"\(\+(\d+)\)")[first - 1:]

    @property
    def ended(self):
        """Of host.c of repro-network; the scripts end with the status of the peer, which they kill."""
        return self.has(r"(?m)^exit 0$")

    @property
    def survived(self):
        return not self.status and self.has("survived")


def steady(values, at_least, gaps=0):
    """Whether there are values, and all but this many reach the bound."""
    return len(values) > gaps and sum(value < at_least for value in values) <= gaps


def keeps(name, at_least):
    return lambda o: not o.status and steady(o.field(name), at_least)


HOST, NETWORK, FIELD = "repro-host", "repro-network", "repro-field"
LEFT, RECEIVED = r"left (?:in 1 s: )?(\d+)", r"received (\d+)"
SIZED = "video/x-raw,width=320,height=240,framerate={}/1"
LIST = (f"./run.sh $P ./lists 'videotestsrc is-live={{}} ! {SIZED.format(60)} ! identity name=l"
        " ! decarttransform name=d framerate=30 ! fakesink' {}")
SENT = r"frames-sent=\S*?(\d+)"
EOS = f"./run.sh $P ./eos_gate 'videotestsrc ! {SIZED.format(25)} ! decarttransform name=d standby=true ! fakesink'"
AV = "./runav.sh $P {} {} -- --mode {} --at 4 --lasts {}"
RUN = "./run.sh $P {} '{}' -- --mode {}"
TRAILER = ("gst-launch-1.0 -q videotestsrc num-buffers=1 ! jpegenc ! filesink location=one.jpg; python3 trailer.py $P & sleep 1;"
           f" ./host 4 \"videotestsrc is-live=true ! {SIZED.format(15)} ! decarttransform base-url=ws://127.0.0.1:$P api-key=x"
           " prompt=p transport=webrtc model=lucy-2.1 reference-image=two.jpg ! fakesink name=out\"; kill %1")
CHANGES = "./light{}.sh $P <modes{}.txt"

# Folder: (name, command, seconds, whether an output is right, pattern of what to print).
TABLE = {HOST: [
    ("startrace", "./run.sh $P ./startrace 20", 60, lambda o: o.survived, r"survived.*|exit code.*"),
    ("props", "./run.sh $P ./props 20", 60, lambda o: o.survived, r"children in NULL.*|exit code.*"),
    ("props, one sets fallback", "RB_ONE=1 ./run.sh $P ./props 20", 60, lambda o: o.survived, r"children in NULL.*|exit code.*"),
    ("eos_gate", EOS, 60, lambda o: not o.status and o.has(r"after [\d.]+ s: eos"), r"after .*|HANG.*"),
    ("gstlaunch_eos", "./gstlaunch_eos.sh", 60, lambda o: o.has("ended after"), r"ended after.*|still there.*"),
    *((f"preview_paused {way}".strip(), f"./run.sh $P ./preview_paused {way}", 60, lambda o: o.survived,
       r"released after.*|HANG.*") for way in ("", "tee")),
    *((f"audioflush {way}", f"./run.sh $P ./audioflush {way}", 90,
       lambda o: o.survived and steady(o.numbers(LEFT), 8, 1) and rises(o.numbers(r"running time ([\d.]+)")), LEFT)
      for way in ("latency", "reset")),
    ("audioflush deadlock", "./run.sh $P ./audioflush deadlock", 90, lambda o: o.survived, r"decarttransform is.*|HANG.*"),
    ("preview_release", "./run.sh $P ./preview_release", 60, lambda o: o.survived, r"released after.*|HANG.*"),
    *((f"seekreset {way}", f"./run.sh $P ./seekreset {way}", 90,
       lambda o: o.survived and steady(o.numbers(LEFT), 8, 2), LEFT) for way in ("seek", "seek audio", "pause")),
    # A control without the element: live sources of GStreamer are silent for as long as they had run.
    *((f"seekcontrol {way}".strip(), f"./seekcontrol {way}", 90, lambda o: not o.status, r"frames of the live.*")
      for way in ("", "appsrc")),
    *((f"seekinput {way}", f"./run.sh $P ./seekinput {way}", 90,
       lambda o: o.survived and steady(o.numbers(r"encoded (\d+)"), 15) and steady(o.numbers(RECEIVED), 15), RECEIVED)
      for way in ("plain 1 codec=vp8", "plain 1", "reconnect 1 codec=vp8")),
    ("seekaudio", "./run.sh $P ./seekaudio", 60, lambda o: o.survived and steady(o.numbers(r"sent (\d+)"), 20, 1), r" sent (\d+)"),
    # 60 frames a second come in, 30 are allowed: 360 of the 12 s, or less for the time of the start.
    *((f"lists {live} {count}", LIST.format(live, count), 60,
       lambda o: o.survived and 60 < o.numbers(SENT)[-1] < 420, SENT)
      for live, count in (("true", 0), ("true", 1), ("true", 5), ("false", 5))),
    *((f"capsfuzz {way}", f"RB_CONNECT=1 {way} ./run.sh $P ./capsfuzz {count} 4", 240, lambda o: o.survived,
       r"survived.*|exit code.*") for way, count in (("", 4000), ("RB_OWN=1", 3000), ("RB_SANE=1", 3000), ("RB_MIRROR=1", 3000))),
    # GStreamer's videoconvert reads three bytes behind interlaced frames of 116x122, here into a guard page.
    ("capsfuzz RB_FORMAT=I420", "RB_CONNECT=1 RB_FORMAT=I420 ./run.sh $P gdb -q -batch -ex run -ex 'bt 12' --args ./capsfuzz 3000 4",
     240, lambda o: o.survived or o.has("(?s)SIGSEGV.*libgstvideoconvertscale"), r"survived.*|received signal.*|libgstvideoconv.*"),
    *((f"appsrc_grow {way}", f"./run.sh $P ./appsrc_grow {way}", 90,
       lambda o: not o.status and o.numbers(r"waiting in appsrc ([\d.]+)")[-1] < 1, r"waiting in appsrc.*")
      for way in ("default", "live")),
    ("position", "./run.sh $P ./position", 60,
     lambda o: not o.status and sum(o.numbers(r"format \d: (\d)")) == 1, r"format \d: \d"),
    *((f"nosegment {way}", f"./run.sh $P ./nosegment {way}", 60,
       lambda o: not o.status and o.numbers(r"frames-received=\S*?(\d+)")[-1] > 150, r"frames-sent.*frames-received=\S*")
      for way in ("bytes", "time")),
    ("padrace", "./run.sh $P ./padrace 12", 60, lambda o: o.survived, r"\d+ pads.*|CRITICAL.*"),
    # A critical says that an element that runs must not be released; the element stops by itself.
    *((f"drop_playing {way}", f"./run.sh $P ./drop_playing {way}", 60, lambda o: o.has("disposed") and not o.status,
       r"references.*|disposed") for way in ("ready", "paused", "playing")),
    ("meta_small rgba", "./run.sh $P ./meta_small rgba", 60, lambda o: o.survived, r"survived|exit code.*"),
    *((f"nulltime {way}", f"./run.sh $P ./nulltime 3 {way}", 400,
       lambda o: not o.status and max(o.numbers(r"longest ([\d.]+)")) < 5, r"longest [\d.]+") for way in ("webrtc", "livekit")),
    ("handlers", "./run.sh $P ./handlers 36", 300, lambda o: o.survived, r"survived.*|HANG.*"),
    *((f"fuzz {kind}", f"G_DEBUG=fatal-criticals STANDIN='--transport both' ./run.sh $P ./fuzz 60 {seed} {kind}", 180,
       lambda o: not o.status, r"\d+ op.*|HANG.*|exit code.*") for seed, kind in ((1, "transform"), (2, "src"), (3, "both"))),
], FIELD: [
    ("r01_time_back", "/usr/bin/python3 r01_time_back.py $P", 150,
     lambda o: not o.status and len(o.field("frames-received")) == 6 and steady(o.field("frames-received"), 180), RECEIVED),
    ("r02_no_pts", "/usr/bin/python3 r02_no_pts.py $P", 120,
     lambda o: steady(o.field("frames-received"), 150) and not o.has("No media arrived"), r"'frames-received': \d+"),
    *((f"r03_short_buffer {way}", f"/usr/bin/python3 r03_short_buffer.py $P {way}", 60,
       lambda o: keeps("frames-received", 180)(o) and o.has("WARNING.*bytes|warning.*bytes"), r"'frames-received': \d+|A buffer[^.]*")
      for way in ("short", "empty")),
    ("r04_tight_rgb", "/usr/bin/python3 r04_tight_rgb.py $P", 60,
     lambda o: o.has("1228320 bytes") and not o.has("file a bug"), r"\{\('warning.*"),
    ("r05_source_rtsp", "/usr/bin/python3 r05_source_rtsp.py $P", 90,
     # The third URI has no absolute path.
     lambda o: len(o.field("frames-received")) == 4 and steady(o.field("frames-received"), 50, 1), r"'frames-received': \d+"),
    ("r06_many_addresses", "bash r06_many_addresses.sh $P", 90, lambda o: o.has("exit status 0"), r"exit status.*"),
    ("r07_late_join", "/usr/bin/python3 r07_late_join.py $P", 90,
     lambda o: (o.numbers(r"first picture ([\d.]+)") or [99])[0] < 4, r"first picture [\d.]+ s|keyframe request [\d.]+ s"),
    ("r08_loop", "/usr/bin/python3 r08_loop.py $P", 90, lambda o: steady(o.field("frames-received"), 120), r"'frames-received': \d+"),
    ("r09_backlog", "/usr/bin/python3 r09_backlog.py $P", 90,
     lambda o: steady([-late for late in o.numbers(r"= ([\d.]+) s behind")], -2), r"= [\d.]+ s behind"),
    ("r10_caps", "/usr/bin/python3 r10_caps.py $P", 60,
     lambda o: steady(o.field("frames-received")[:2], 30) and len(re.findall("'error'.*videoconvert", o.text)) == 2
     and not o.has("Internal data stream"), r"'frames-received': \d+|\('error'.*"),
    ("r11_splitmux", "/usr/bin/python3 r11_splitmux.py $P", 90, lambda o: steady(o.numbers(r"in 16 s: (\d+)"), 6), r"files of.*"),
    ("r12_const_pts", "/usr/bin/python3 r12_const_pts.py $P", 60, keeps("frames-received", 180), r"'frames-received': \d+"),
    ("check_tmp", "/usr/bin/python3 check_tmp.py $P", 60, keeps("frames-received", 150), r"'frames-received': \d+"),
], NETWORK: [
    *((f"F1 video {arg} ms ahead", "SYNC=true " + AV.format(20, "video", f"ntpstep --arg {arg}", 11), 90,
       lambda o: o.ended and steady(o.per_second(4), 8, 3), r"\(\+(\d+)\)") for arg in (300, 400, 600, 1000, 2000)),
    *((f"F1 audio {arg} ms", "SYNC=true " + AV.format(20, "audio", f"ntpstep --arg {arg}", 6), 90,
       lambda o: o.ended and steady(o.numbers(r"rms (-?\d+)")[-6:], -100), r"rms (-?\d+)") for arg in (-900, -2000)),
    ("F1 encoded", "OUTCAPS=video/x-vp8 SYNC=true " + AV.format(20, "video", "ntpstep --arg 600", 11), 90,
     lambda o: o.ended and steady(o.per_second(4), 8, 3), r"\(\+(\d+)\)"),
    ("F1 reports stop", "SYNC=true " + AV.format(24, "video", "ntpstop --arg 400", 11), 90,
     lambda o: o.ended and steady(o.per_second(10), 8, 2), r"\(\+(\d+)\)"),
    # A share of a core, which does not depend on its speed alone: 97 % was seen, 4 % without gaps.
    ("F2 missing packets", RUN.format(6, "fallback=none", "gapflood --rate 900 --arg 2999 --at 3 --lasts 20"), 60,
     lambda o: o.ended and max(o.numbers(r"decart-net (\d+)")) < 50, r"decart-net (\d+)"),
    *((f"F2 beside another element, {rate}", f"./collateral.sh {rate}", 60, lambda o: steady(o.per_second(5), 8, 2), r"\(\+(\d+)\)")
      for rate in (900,)),
    ("F3 foreign audio", AV.format(13, "audio", "audiosteal", 4), 60,
     lambda o: o.ended and steady(o.numbers(r"rms (-?\d+)")[4:], -100), r"rms (-?\d+)"),
    *((f"F4 {mode}", RUN.format(16, "fallback=none", f"{mode} --at 7") + "; cat log-$P.txt", 60,
       lambda o: steady(o.per_second(9), 10, 1) and sum(o.numbers(r"'pli': (\d+)")[-6:]) <= 6, r"\(\+(\d+)\)|'pli': \d+")
      for mode in ("lossrtx", "lossrtxssrc")),
    *((f"F5 {mode}", RUN.format(12, "fallback=none", f"{mode} --rate 10 --at 3 --lasts 8") + "; cat log-$P.txt", 60,
       lambda o: sum(o.numbers(r"'rtx': (\d+)")) > 20, r"'rtx': (\d+)") for mode in ("recentnackflood", "oldnackflood")),
    ("F6 libnice", "./consent", 10, lambda o: not o.status, r"forged.*"),
    *((f"F6 {mode}", RUN.format(48, "fallback=none standby=true", f"{mode} --at 4"), 90,
       lambda o: o.ended and o.has("warning|error"), r"(?:warning|error): .*") for mode in ("consentnone", "consent401")),
    ("F7 no marker", RUN.format(11, "fallback=none", "nomarkerflood --rate 4000 --at 3 --lasts 7"), 60,
     lambda o: o.ended and growth(o.numbers(r"RSS (\d+)")[2:]) < 25, r"RSS (\d+)"),
    ("F7 FU-A without end", RUN.format(11, "fallback=none codec=h264", "hugefuflood --rate 4000 --at 3 --lasts 7"), 60,
     lambda o: o.ended and growth(o.numbers(r"RSS (\d+)")[2:]) < 25, r"RSS (\d+)"),
    ("F8 libsrtp", "./srtpforget", 10, lambda o: not o.status, r"replay.*"),
    *((f"F9 {mode}", f"./room.sh $P 7 {mode}", 60,
       lambda o: max(o.numbers(r"NULL took ([\d.]+)"), default=99) < 5 and max(o.numbers(r"RSS (\d+)")) < 200
       and o.numbers(r"CPU (\d+) %")[-1] < 60, r"CPU \d+ %|RSS \d+|(?:warning|error): .*") for mode in ("bomb", "notes")),
    ("F15 trailer", TRAILER, 30, lambda o: o.has("FRONTSECRET False BEHINDSECRET False") and not o.has("SECRET True"), r"FRONT.*"),
    *((f"raw {way}", f"./raw.sh $P {way}", 300,
       lambda o: max(o.numbers(r"NULL took ([\d.]+)"), default=99) < 5 and not o.has(r"exit [1-9]"), r"exit \d+") for way in (
           "server", "proxy", "whep")),
    *((f"changes {ways[0] or ''} {ways[1] or ''}".strip(), CHANGES.format(*ways), 420,
       lambda o: all(steady(Output(block, 0).per_second(9), 1, 3) for block in o.text.split("===")[1:]), r"=== .*")
      for ways in (("", ""), ("", 2), ("", 3), (264, 3))),
    ("floods", "bash flood2.sh $P", 200, lambda o: steady(o.numbers(r"NULL took ([\d.]+)"), 0) and not o.has(r"took [5-9]"), r"NULL.*"),
    ("udpfuzz", "python3 udpfuzz.py 8 $P & " + RUN.format(12, "fallback=none", "plain"), 60,
     lambda o: steady(o.per_second(4), 8, 1), r"\(\+(\d+)\)"),
]}


def rises(values):
    return len(values) > 1 and all(before < after for before, after in zip(values, values[1:]))


def growth(values):
    return max(values) - values[0]


def prepare(review, folder):
    """Copies the programs and compiles those in C."""
    for name in TABLE:
        shutil.copytree(os.path.join(review, name), os.path.join(folder, name))
    flags = "$(pkg-config --cflags --libs {})"
    # Since 0.3.0, a property is gone, and another session begins after 15 s only.
    for where, command in ((HOST, "sed -i 's/ statistics-interval=[0-9]*//' *.c && make -B -s"),
                           (NETWORK, "sed -i 's/fallback=none/& media-timeout=5/' light*.sh"),
                           (NETWORK, f"gcc -O1 -w -o host host.c {flags.format('gstreamer-1.0')}"),
                           (NETWORK, f"gcc -O1 -w -o consent consent.c {flags.format('nice')}"),
                           (NETWORK, "gcc -O1 -w -o srtpforget srtpforget.c -lsrtp2")):
        subprocess.run(command, shell=True, check=True, cwd=os.path.join(folder, where), stderr=subprocess.DEVNULL)


def free_port():
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        port = first.getsockname()[1]
        try:
            second.bind(("127.0.0.1", port + 1))
        except OSError:
            return free_port()
        return port


def run(command, seconds, folder):
    """The programs' own watchdogs end before this limit."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(["bash", "-c", f". {REPO}/pipelines/env.sh; {command}"], cwd=folder, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                                   env=dict(os.environ, P=str(free_port())))
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = 124
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        log.seek(0)
        return Output(log.read().decode(errors="replace"), status)


def judge(right, output):
    try:
        return not CRITICAL.search(output.text) and bool(right(output))
    except (IndexError, ValueError):
        # The output lacks the figures.
        return False


def main():
    parser = argparse.ArgumentParser(description="Runs the programs of a review against the built plugin.")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--logs", help="a folder for the outputs")
    parser.add_argument("review")
    parser.add_argument("names", nargs="*", help="parts of folder and name; without: all")
    options = parser.parse_args()
    rows = [(where, *each) for where, table in TABLE.items() for each in table
            if not options.names or any(name in f"{where} {each[0]}" for name in options.names)]
    if options.list or not rows:
        print(*(f"{where} {name}: {command}" for where, name, command, *_ in rows), sep="\n")
        return not rows
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        prepare(options.review, folder)
        for where, name, command, seconds, right, seen in rows:
            output = run(command, seconds, os.path.join(folder, where))
            is_right = judge(right, output)
            failed = failed or not is_right
            found = [" ".join(each[0].split()) for each in re.finditer(f"{seen}|CRITICAL.*", output.text)]
            found = found or output.text.strip().splitlines()[-1:]
            print(f"{'right' if is_right else 'wrong'} {where} {name}: {'; '.join(found[-20:])[:400]}"
                  + (f" (status {output.status})" if output.status else ""), flush=True)
            if options.logs:
                with open(os.path.join(options.logs, f"{where} {name}.log".replace("/", "-")), "w", encoding="utf-8") as file:
                    file.write(output.text)
    return failed


if __name__ == "__main__":
    sys.exit(main())
