#!/usr/bin/python3
"""Checks that the log at level INFO tells 22 faults apart, and that no secret is in it; and that explain_log.py names the
cause of the mistakes that users make.

Runs `gst-launch-1.0` with the built plugin against a stand-in in each fault, in a network namespace of its own, and
lets `pipelines/explain_log.py` name the cause from the log. Its first cause must be the right one. A row that drops packets
at random runs for scripts/verify only (DECART_VERIFY=1), or if an argument names it.

A mistake (MISTAKES) is a command of a user, run on a terminal of its own; explain_log.py gets what it prints, and must
name the right cause alone, or none if nothing is wrong. The message itself must name the remedy (REMEDIES). Each text of
explain_log.py must be in the sources.

Prints "ok NAME", "not ok NAME: why" or "skip NAME: why". The faults need root for the namespaces.
"""

import concurrent.futures
import contextlib
import dataclasses
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checks import RELEASE, REPO, VERIFYING, Results, clean_environment, gstreamer, swift_sources, wait_until, write
from standin import running_standin, start_standin

sys.path[:0] = [os.path.join(REPO, "pipelines"), os.path.join(REPO, "Tests", "System")]
import coturn  # noqa: E402

import explain_log  # noqa: E402

KEY = "canary-key-4711-0815-abcdefgh"
TURN_PASSWORD = "canary-turn-password"
LIMIT = 60  # s, for every wait


@dataclasses.dataclass
class Case:
    """A fault: how the stand-in, the network and the element produce it, and the cause that the log must name."""
    cause: str
    fault: str = None
    standin: tuple = ()  # options
    options: tuple = ()  # of the element
    before: object = None  # called with the run before the pipeline starts
    after: object = None  # called once frames have arrived
    tls: bool = False
    limit: int = 90
    url: str = None
    environment: object = None
    others: tuple = ()  # further causes that the log may name after the right one
    is_random: bool = False


def table():
    nft("add table inet t")
    nft("add chain inet t in { type filter hook input priority 0; }")


def nft(command):
    subprocess.run(["nft", *command.split(" ")], check=True)


def drop_udp(match=""):
    def act(_):
        table()
        nft(f"add rule inet t in meta l4proto udp {match} drop".replace("  ", " "))
    return act


def occupy(run):
    run.others.append(run.pipeline("other.log", ["max-retries=-1"]))
    run.wait_for("other.log", "media are connected")


def start_turn(run):
    run.others.append(subprocess.Popen(
        coturn.command(run.folder, "127.0.0.1", "test:right", "--no-tls", "--allow-loopback-peers"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    coturn.wait("127.0.0.1")


def without_h264(run):
    """Returns the environment for an installation that has no H.264 encoder."""
    folder = os.path.join(run.folder, "gst")
    os.makedirs(folder)
    *own, place = gstreamer(run.folder)["GST_PLUGIN_SYSTEM_PATH_1_0"].split(":")
    for name in os.listdir(place):
        if not re.search("x264|openh264|libav", name):
            os.symlink(os.path.join(place, name), os.path.join(folder, name))
    return {"GST_PLUGIN_SYSTEM_PATH_1_0": ":".join([*own, folder])}


TURN = f'turn-servers=<"turn://test:{TURN_PASSWORD}@127.0.0.1:3478?transport=udp">'
CASES = {
    "DNS": Case("dns", url="wss://service.example.invalid"),
    "refused": Case("refused", url="ws://127.0.0.1:9"),
    "TLS expired": Case("tls-expired", "tls_bad_expired", tls=True),
    "wrong host": Case("tls-host", "tls_bad_host", tls=True),
    "401": Case("key", "http_401"),
    "no credits": Case("credits", "http_402"),
    "removed model": Case("model", "error_type:type=removed_model"),
    "429": Case("rate-limit", "http_429"),
    "session limit": Case("session-limit", standin=["--max-sessions", "1"], before=occupy),
    "captive portal": Case("captive-portal", "http_200html"),
    "no UDP": Case("no-udp", before=drop_udp()),
    "no TURN": Case("no-turn", options=["ice-transport-policy=relay", TURN], others=["no-udp"]),
    "TURN password": Case("turn-password", options=["ice-transport-policy=relay", TURN], before=start_turn,
                          others=["no-udp"]),
    "all packets lost": Case("path-lost", after=drop_udp()),
    "half lost": Case("loss", after=drop_udp("numgen random mod 2 == 0"), others=["path-lost", "media-silent"],
                      is_random=True),
    "wrong fingerprint": Case("fingerprint", "sdp_bad_fingerprint", standin=["--transport", "webrtc"]),
    "DTLS timeout": Case("dtls-timeout", "dtls_silent", standin=["--transport", "webrtc"]),
    "no common codec": Case("no-codec", "sdp_other_codec", standin=["--transport", "webrtc"]),
    "encoder missing": Case("encoder", options=["codec=h264"], environment=without_h264),
    "prompt refused": Case("prompt-refused", options=["prompt=refuse-me"]),
    "no acknowledgement": Case("no-acknowledgement", "ack_none"),
    "media silent": Case("media-silent", "media_silent:at=3"),
}


def transform(options="", source="", sink="fakesink"):
    source = source or "videotestsrc is-live=true num-buffers=45 ! video/x-raw,width=320,height=176,framerate=30/1"
    return (f"gst-launch-1.0 {source} ! decarttransform base-url=URL api-key=x prompt=Lego width=320 height=176 max-retries=0"
            f" {options} ! {sink}")


# An unknown host is among the faults (DNS), because a look-up leaves the machine. Without a display, autovideosink ends
# the process before an element of ours posts a message.
H264 = "videotestsrc is-live=true num-buffers=45 ! video/x-raw,width=320,height=176,framerate=30/1{} ! x264enc tune=zerolatency"
# The cause that must be named, and the command; None: nothing is wrong. URL and PORT are the stand-in's.
MISTAKES = {
    "no key": ("no-key", "gst-launch-1.0 videotestsrc ! decarttransform base-url=URL ! fakesink"),
    "wrong key": ("key", transform("query-items=fault=http_401")),
    "stand-in not running": ("refused", transform("base-url=ws://127.0.0.1:9")),
    "no scheme": ("base-url", transform("base-url=127.0.0.1:PORT")),
    "unencrypted": ("unencrypted", transform("base-url=ws://192.0.2.1")),
    "TLS on a plain port": ("no-tls", transform("base-url=wss://127.0.0.1:PORT")),
    "key in the URL": ("base-url", transform("base-url='URL/?api_key=x'")),
    "wrong model": ("model", transform("model=lucy-9 width=0")),
    "long prompt": ("prompt", transform("prompt=" + 1001 * "x")),
    "proxy down": ("proxy", transform("base-url=wss://198.51.100.1 http-proxy=http://127.0.0.1:9")),
    "scheme of the proxy": ("proxy", transform("http-proxy=socks5://127.0.0.1:9")),
    "one RTP port": ("ports", transform("rtp-port-range=50000")),
    "TURN without a password": ("ice-servers", transform("turn-servers='<\"turn://127.0.0.1:3478\">'")),
    "no image": ("image", transform("model=lucy-latest reference-image=none.png")),
    "text as an image": ("image", transform("model=lucy-latest reference-image=text.png")),
    "image for a model without": ("image", transform("model=lucy-restyle-2 reference-image=small.png")),
    "refused prompt": ("prompt-refused", transform("prompt=refuse-me")),
    "encoded, another size": ("encoded-size", transform("width=640 height=352", source=H264.format(""))),
    "encoded, 4:4:4": ("profile", transform(source=H264.format(",format=Y444"))),
    "no camera": ("camera", "gst-launch-1.0 decartsrc device=none base-url=URL api-key=x prompt=Lego ! fakesink"),
    "pngenc": ("unlinked", transform(sink="pngenc ! fakesink")),
    "RGB behind": ("unlinked", transform(sink="video/x-raw,format=RGB ! fakesink")),
    "appsink of RGB": ("unlinked", transform(sink="appsink caps=video/x-raw,format=RGB")),
    "audio alone": ("no-video", "gst-launch-1.0 audiotestsrc is-live=true num-buffers=60 ! decarttransform base-url=URL api-key=x ! fakesink"),
    "no such encoder": ("encoder", transform("encoder=nvh264enc")),
    "wrong description of an encoder": ("encoder", transform("encoder='x264enc foo=1'")),
    "wrong enum": ("property", transform("transport=foo")),
    "no such property": ("property", transform("promt=Lego")),
    "codec that cannot be sent": ("format", transform(source="videotestsrc ! theoraenc")),
    "name of the element": ("misspelt", "gst-launch-1.0 videotestsrc ! decarttransfrom ! fakesink"),
    "plugin not found": ("plugin", "env GST_PLUGIN_SYSTEM_PATH_1_0=empty GST_PLUGIN_PATH=empty GST_REGISTRY=empty.bin gst-launch-1.0 decarttransform"),
    "prompt without quotes": ("word", transform("prompt=Lego World")),
    "service unavailable": ("unavailable", transform("query-items=fault=http_503")),
    "processor": ("processor", transform("processor=nosuch")),
    "host of another machine": ("address", "decart-standin --port 0 --host 192.0.2.9"),
    "no sink": ("unlinked", transform().removesuffix("! fakesink")),
    "no input file": ("file", transform(source="filesrc location=none.mp4 ! decodebin")),
    "equal names": ("equal-names", transform("name=a", sink="identity name=a ! fakesink")),
    "generation ends": ("moderation", transform("query-items=fault=generation_ended:at=1,reason=moderation_violation")),
    "no prompt": ("no-prompt", "gst-launch-1.0 videotestsrc is-live=true num-buffers=9 ! decarttransform base-url=URL api-key=x standby=true"
                  " ! fakesink"),
    "two sessions": ("two-sessions", "gst-launch-1.0 decartsrc source='videotestsrc is-live=true num-buffers=9' base-url=URL api-key=x prompt=a"
                     " standby=true ! queue ! decarttransform base-url=URL api-key=x prompt=a standby=true ! fakesink"),
    "ends in the queue": ("short-input", transform("query-items=fault=queue_forever", source="videotestsrc is-live=true num-buffers=9")),
    "no such pad": ("no-pad", "gst-launch-1.0 videotestsrc ! decarttransform name=t base-url=URL api-key=x prompt=a t.video ! fakesink"),
    "name of another element": ("misspelt", transform(sink="videconvert ! fakesink")),
    "frame rate without a fraction": ("fraction", transform(source="videotestsrc ! video/x-raw,framerate=25")),
    "format of another program": ("format", transform(source="videotestsrc ! video/x-raw,format=bgra")),
    "property as an option": ("properties", "gst-launch-1.0 videotestsrc ! decarttransform --model=lucy-2.1 ! fakesink"),
    "value of an option": ("option", "decart-standin --port 0 --transport nonsense"),
    "port in use": ("port-in-use", "decart-standin --port PORT"),
    "no such fault": ("fault", "decart-standin --fault nonsense"),
    "key of a fault": ("fault", "decart-standin --fault ack_none:nonsense=1"),
    "ends without a frame": ("input", transform(source="filesrc location=text.png ! pngdec")),
    "muxer of another codec": ("codec", transform(sink="x264enc ! webmmux ! fakesink")),
    "no encoder": ("encoder-behind", transform(sink="videoconvert ! mp4mux ! fakesink")),
    "parser of raw video": ("raw", transform(source="videotestsrc ! h264parse")),
    "sink in the middle": ("order", transform(sink="fakesink ! videoconvert")),
    "audio elements behind the video": ("medium", transform(sink="audioconvert ! fakesink")),
    "source without elements": ("uri", "gst-launch-1.0 decartsrc source=/dev/video0 base-url=URL api-key=x prompt=a ! fakesink"),
    "key of an example": ("no-key", transform("base-url=wss://api.decart.ai")),
    "http:// is a scheme": (None, transform("base-url=http://127.0.0.1:PORT")),
    "source that is not live": (None, transform(source="videotestsrc num-buffers=45")),
    "tee without queues": (None, transform(sink="tee name=t t. ! fakesink async=false t. ! fakesink async=false")),
    "two unnamed elements": (None, transform(sink=f"fakesink {transform().removeprefix('gst-launch-1.0 ')}")),
    "muxer without queues": (None, transform(sink="videoconvert ! vp8enc deadline=1 ! webmmux ! filesink location=out.webm")),
    "image of 16 x 16": (None, transform("model=lucy-latest reference-image=small.png")),
    "PNG named GIF": (None, transform("model=lucy-latest reference-image=small.gif")),
}


# Lines of other programs, and messages as they print them, with the cause that they name; None: nothing is known.
PLACE = "Additional debug info:\nelement.c(1): start (): /GstPipeline:p/{}:\n"
LINES = {
    "Error received from element t: No API key: set the environment variable DECART_API_KEY.\n"
    "Debugging information: INVALID_API_KEY in stage configuration": "no-key",
    'Error received from element Some("/GstPipeline:p/GstFileSink:s") Could not open file "x/y" for writing.\n'
    'Debugging information: Some("s.c(1): open (): /GstPipeline:p/GstFileSink:s:\\nsystem error: Read-only file system")': "permission",
    "gst-core-error-quark: Bytes without caps come to the pad sink. Put decodebin in front of the element. (7)": "input",
    '{"level": "error", "element": "s", "msg": "Connection refused", "debug": "s.c(1): f (): /GstPipeline:p/GstRtmp2Sink:s"}': "neighbour",
    "0:00:01.8 25232 0x55683e4bae30 WARN filesrc gstfilesrc.c:553:gst_file_src_start:<f> error: No such file \"none.mp4\"": "file",
    "Nov 30 05:20:11 host decart-exporter[8]: decart-exporter: error: --source, --options or --sink: no element \"rtspscr\"": "misspelt",
    "Nov 30 05:20:11 host (python3)[8]: decart-graph.service: Failed at step CREDENTIALS spawning /usr/bin/python3: No such file": "unit-credential",
    "2026-11-30T05:20:11.1Z stderr F decart-standin: command not found": "command",
    "decart-1  | OSError: [Errno 98] Address already in use": "busy-port",
    "docker: Error response from daemon: Bind for 0.0.0.0:9001 failed: port is already allocated.": "port-in-use",
    "bash: line 2: !: command not found\nWARNING: erroneous pipeline: no element \"video\"": "shell",
    "nofile.mp4: No such file or directory": "path",
    "ERROR: from element /GstPipeline:p/GstPulseSrc:pulsesrc0: Failed to connect: Connection refused\n" + PLACE.format("GstPulseSrc:pulsesrc0"): "sound",
    "ERROR: from element /GstPipeline:p/GstRtpH264Depay:d: No RTP format was negotiated.\n" + PLACE.format("GstRtpH264Depay:d") + "RTP caps\n"
    "ERROR: from element /GstPipeline:p/GstUDPSrc:u: Internal data stream error.\n" + PLACE.format("GstUDPSrc:u")
    + "streaming stopped, reason not-negotiated (-4)": "rtp-caps",
    "Everything is in order.": None,
    "ALSA lib pcm.c:1:(f) returned error: No such file or directory": None,
}


# Words of the message by cause; of some mistakes.
REMEDIES = {
    "no-key": r"DECART_API_KEY", "no image": r"The file is 'none\.png'", "text as an image": r"The file is 'text\.png'",
    "key": r"Check the key", "image for a model without": r"is not known to take reference images", "unlinked": r"Put videoconvert behind the element, correct caps",
    "encoder": r"The property encoder cannot be used", "port-in-use": r"port \d+: Address already in use.*another --port",
    "no such encoder": r"nvh264enc \(package gstreamer1\.0-plugins-bad\)",
}

# What a busy machine shows too.
BUSY = {"loss", "path-lost", "media-silent", "no-udp"}


def check_mistake(name, work, environment):
    """Why the cause is not the right one; empty if it is."""
    cause, command = MISTAKES[name]
    # The error ends the pipeline. On a busy machine it, or the first transformed frame, may come after a second and a half
    # of video.
    command = command.replace("num-buffers=45", "num-buffers=450" if cause else "num-buffers=300")
    command = command.replace("URL", f"ws://127.0.0.1:{environment['PORT']}").replace("PORT", environment["PORT"])
    output = os.path.join(work, f"{name.replace('/', '')}.log")
    with open(output, "w", encoding="utf-8") as log:
        process = subprocess.Popen(shlex.split(command), cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with open(output, encoding="utf-8", errors="replace") as log:
        lines = log.readlines()
    causes = [found for found, _, _ in explain_log.explain(lines) if found not in BUSY]
    said = " | ".join(line.strip() for line in lines[-4:])[:400]
    if causes != ([cause] if cause else []):
        return f"{causes} instead of {cause}: {said}"
    lacking = [words for key, words in REMEDIES.items() if key in (cause, name) and not re.search(words, "".join(lines))]
    return f"it does not say {lacking}: {said}" if lacking else ""


def check_mistakes(names):
    """Yields name and reason of each mistake, with a stand-in for all."""
    with tempfile.TemporaryDirectory() as work, running_standin() as url:
        environment = {**clean_environment(work), "PORT": url.rpartition(":")[2], "PATH": f"{RELEASE}:{os.environ['PATH']}",
                       "GST_DEBUG": "decart*:INFO", "LC_ALL": "C.UTF-8"}
        subprocess.run(shlex.split("gst-launch-1.0 -q videotestsrc num-buffers=1 ! video/x-raw,width=16,height=16 ! pngenc"
                                   " ! filesink location=small.png"), cwd=work, env=environment, check=True)
        shutil.copy(f"{work}/small.png", f"{work}/small.gif")
        write(f"{work}/text.png", "This is no image.\n")
        with concurrent.futures.ThreadPoolExecutor(max_workers=5) as pool:
            yield from zip(names, pool.map(lambda name: check_mistake(name, work, environment), names))


def stale_texts():
    """Texts of explain_log.py that are not in the sources."""
    # Literals that are added up are one text.
    sources = "".join(re.sub(r'"\s*\+ "', "", source) for source in swift_sources("Sources", "Tools"))
    return [part for _, _, texts in explain_log.CAUSES for text in texts for part in text.split("…") if part not in sources]


class Run:
    def __init__(self, case):
        self.case = case
        self.folder = tempfile.mkdtemp(prefix="decart-logs-")
        self.others = []
        self.port = None

    def path(self, name):
        return os.path.join(self.folder, name)

    def pipeline(self, log, options, environment=None):
        url = self.case.url or f"{'wss' if self.case.tls else 'ws'}://localhost:{self.port}"
        key_file = self.path("key")
        write(key_file, KEY)
        if self.case.tls:
            options = [*options, f"ca-file={self.path('ca.pem')}"]
        full = {**clean_environment(self.folder), "GST_DEBUG": "decart*:INFO", "GST_DEBUG_NO_COLOR": "1",
                "GST_DEBUG_FILE": self.path(log), **(environment or {})}
        options = {option.split("=")[0]: option for option in [
            f"base-url={url}", f"api-key-file={key_file}", "prompt=Lego World", "max-retries=1", *options]}.values()
        return subprocess.Popen(
            ["gst-launch-1.0", "videotestsrc", "is-live=true", "!", "video/x-raw,width=320,height=176,framerate=15/1",
             "!", "decarttransform", *options, "!", "fakesink"],
            env=full, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def lines(self, log="log"):
        try:
            with open(self.path(log), errors="replace") as file:
                return file.readlines()
        except OSError:
            return []

    def wait_for(self, log, text):
        wait_until(f"'{text}' in {log}", lambda: any(text in line for line in self.lines(log)), LIMIT)

    def start_standin(self):
        standin, url = start_standin(*self.case.standin, *(["--fault", self.case.fault] if self.case.fault else []),
                                     *(["--tls-ca", self.path("ca.pem")] if self.case.tls else []))
        self.others.append(standin)
        self.port = url.rpartition(":")[2]

    def causes(self):
        """The causes in the log, without packets that a busy machine lost."""
        return [cause for cause, _, _ in explain_log.explain(self.lines()) if cause != "loss" or self.case.cause == "loss"]

    def go(self):
        """Runs the fault; returns why the log is not right, or an empty text."""
        case = self.case
        self.start_standin()
        if case.before:
            case.before(self)
        environment = case.environment(self) if case.environment else None
        process = self.pipeline("log", case.options, environment)
        self.others.append(process)
        if case.after:
            self.wait_for("log", "the first RTP packet arrived")
            time.sleep(1)
            case.after(self)
        end = time.monotonic() + case.limit
        causes = []
        while time.monotonic() < end and process.poll() is None and not causes:
            time.sleep(0.25)
            causes = self.causes()
        time.sleep(0.5)
        text = "".join(self.lines())
        causes = self.causes()
        for secret in (KEY, TURN_PASSWORD, "eyJhbGciOi"):
            if secret in text:
                return f"the log contains a secret ({secret[:6]}…)"
        if not causes:
            return "no cause in: " + " | ".join(line.split(None, 5)[-1].strip() for line in self.lines()[-8:])
        if causes[0] != case.cause:
            return f"{causes} instead of {case.cause}"
        more = set(causes[1:]) - set(case.others)
        return f"also {sorted(more)}" if more else ""

    def close(self):
        for process in reversed(self.others):
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        if not os.environ.get("DECART_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)


def run_here(name):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with contextlib.closing(Run(CASES[name])) as run:
        print(run.go())


def run_in_namespace(name):
    result = subprocess.run(["unshare", "--net", "--", sys.executable, os.path.abspath(__file__), "--case", name],
                            capture_output=True, text=True)
    lines = result.stdout.strip().splitlines()
    if result.returncode != 0:
        return name, (result.stderr.strip().splitlines() or ["failed"])[-1]
    return name, lines[-1] if lines else ""


def main():
    if sys.argv[1:2] == ["--case"]:
        return run_here(sys.argv[2])
    words, report = sys.argv[1:], Results("logs")
    stale = stale_texts()
    report("the sources have each text of explain_log.py", f"they do not have {stale}" if stale else "")
    if not words:
        wrong = {text: causes for text, cause in LINES.items()
                 if (causes := [found for found, _, _ in explain_log.explain(text.splitlines())]) != ([cause] if cause else [])}
        report("causes of lines of other programs", wrong and str(wrong))
    for name, why in check_mistakes([name for name in MISTAKES if not words or name in words]):
        report(name, why)
    if os.geteuid() != 0 or not shutil.which("nft") or not coturn.INSTALLED:
        report.skip("faults: needs root, nft and turnserver")
        return report.failed
    names = [name for name in words if name in CASES] if words else [name for name, case in CASES.items() if VERIFYING or not case.is_random]
    # Those that wait longest begin first.
    names.sort(key=lambda name: CASES[name].cause not in ("no-acknowledgement", "dtls-timeout", "no-turn", "no-udp"))
    with concurrent.futures.ThreadPoolExecutor(max_workers=7) as pool:
        for name, why in pool.map(run_in_namespace, names):
            report(name, why)
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
