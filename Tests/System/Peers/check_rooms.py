"""Tests the stand-in's room with LiveKit's own SDK: publish, subscribe, count transformed frames, then faults.

Runs in a network namespace of its own, because libwebrtc ignores the loopback interface and a machine may have no other
address. Prints "ok NAME", "not ok NAME: why" or "skip NAME: why" per check, the format that scripts/test reads.

    check_rooms.py [WORD...]

scripts/test runs the checks with few frames, side by side; scripts/verify (DECART_VERIFY=1) one after the other, and
measures the number of the simulcast layers. With words, those whose name contains one of them.
"""

import concurrent.futures
import ctypes
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "Host"))
from checks import VERIFYING, Results, end_process, gstreamer, measured  # noqa: E402
import standin  # noqa: E402

ADDRESS = "10.111.0.1"
LIMIT = 100  # s, for every wait
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


@dataclasses.dataclass
class Check:
    name: str
    standin: list  # options
    peer: list  # options
    condition: object = None  # of the peer's report
    # Begins once frames have come to the peer: before the first one, the SDK joins again in place of a resume.
    fault: str = ""
    is_good: bool = True  # the peer succeeds
    # Number of simulcast layers that the SDK sends on an idle machine.
    layers: int = 0
    # Which packets of its audio are lost, each way: nft's condition; 5 % in each.
    loses: str = ""
    # scripts/verify alone runs it.
    is_slow: bool = False

    def holds(self, report):
        try:
            return not self.condition or self.condition(report)
        except (KeyError, IndexError):  # The peer did not get so far.
            return False


def resumed(report, count):
    """Returns True if the SDK resumed, and joined and published only once."""
    log = report["log"]
    return (report.get("reconnected", 0) >= count and log.count("room: resumes at") >= count and log.count("room: joined") == 1
            and report["tracks"] == 1)


def all_metadata(report):
    """Returns True if the frames came back with the time and number of the frame from which each was made."""
    return report.get("with_metadata", 0) >= 10 and "wrong_metadata" not in report and "without_metadata" not in report


def reconnected(report):
    return report.get("reconnected")


def has_layers(report):
    """Returns True if the track had spatial layers, and the stand-in decoded it without a keyframe every now and then."""
    return report["frames_encoded"] > 1.5 * report["frames_captured"] and report["keyframe_requests"] <= 3


def returns(codec):
    """A condition: the room returns the codec that the SDK sends. On an idle machine the frames have their full size: the SDK
    encodes smaller ones where it is short of CPU."""
    return lambda report: report["received"] == f"video/{codec}" and (not VERIFYING or report["size"] == [640, 352])


def has_tone(report):
    return report.get("tone_received")


def has_redundancy(report):
    """Returns True if both directions have redundant audio: copies of the SDK's packets replaced others at the stand-in, which
    returns the same Opus packets in packets as long as the SDK's."""
    return has_tone(report) and "redundant audio has replaced" in report["log"] and longer(report["audio"]) < 4 / 3


def has_no_redundancy(report):
    """Returns True if the SDK's request for audio without redundancy holds in both directions, although both lose packets."""
    return has_tone(report) and "redundant audio has replaced" not in report["log"] and longer(report["audio"]) < 4 / 3


def longer(audio):
    """How much longer the packets of one direction are than those of the other, which have the same Opus packets: redundancy
    makes them almost twice as long."""
    means = sorted(audio[f"{way}_bytes"] / max(audio[way], 1) for way in ("sent", "received"))
    return means[1] / max(means[0], 1)


# Forces /rtc with two connections: the SDK first tries /rtc/v1, one connection for both directions.
TWO = ["--no-single-connection"]
# Frames to wait for. The slowest check begins first.
FEW = [] if VERIFYING else ["--frames", "15"]
# Audio packets to wait for, each way, of which each twentieth is lost.
HEARD = [*FEW, "--tone", "440", "--packets", "1000" if VERIFYING else "100"]
# Redundancy repairs single losses, and the last packet of each burst.
SINGLE, BURSTS = "inc mod 20 == 0", "inc mod 60 < 3"

CHECKS = [
    # The service does not name a room: the peer gives up.
    Check("direct connections only", ["--transport", "webrtc"], ["--room-limit", "5"], is_good=False),
    Check("token refused", ["--fault", "room_token_refused"], ["--limit", "15"], is_good=False),
    Check("several resumes with H.264 and audio", TWO, [*FEW, "--resumes", "3", "--codec", "h264", "--tone", "440"],
          lambda report: resumed(report, 3) and has_tone(report), fault="room_cut"),
    Check("the SDK mutes its track", [], [*FEW, "--mute"],
          lambda report: report["mutes"] == [True, False] and report["generations_ended"] == 1),
    Check("resume of one connection", [], [*FEW, "--resumes", "1"], lambda report: resumed(report, 1), fault="room_cut"),
    Check("resume refused", [*TWO, "--fault", "room_resume_refused"], [*FEW, "--resumes", "1"],
          lambda report: reconnected(report) and "cannot resume" in report["log"] and report["log"].count("room: joined") >= 2,
          fault="room_cut"),
    Check("leave with action DISCONNECT", [], ["--frames", "5", "--until-disconnected"],
          lambda report: "disconnected" in report and "reconnecting" not in report, fault="room_leave_disconnect"),
    Check("leave with action RECONNECT", [], [*FEW, "--resumes", "1"], reconnected, fault="room_leave_reconnect"),
    # The stand-in closes behind this message, upon which the SDK sometimes joins again.
    Check("leave with action RESUME", TWO, [*FEW, "--resumes", "1"], reconnected, fault="room_leave_resume"),
    Check("room restarted", [], [*FEW, "--resumes", "1"], reconnected, fault="room_restart"),
    # The same track on the same m-line is not shown again by libwebrtc, unless it is another stream.
    Check("restarts of the generation by one connection", [],
          [*FEW, "--restarts", "same", "republish", "new_sid", "new_mid"], lambda report: len(report["restarts"]) == 4),
    # Encoders of H.264 take even lengths only.
    Check("odd sizes", [*TWO, "--server-codec", "h264"], [*FEW, "--size", "327x181"],
          lambda report: report["received"] == "video/H264"),
    Check("two viewers", [], ["--frames", "40" if VERIFYING else "10", "--viewers", "2"],
          lambda report: [each["frames"] >= 10 and each["is_grey"] for each in report["viewers"]] == [True, True]),
    Check("VP8", TWO, FEW, lambda report: report["size"] == [640, 352]),
    Check("H.264 by one connection", [], [*FEW, "--codec", "h264"], returns("H264")),
    Check("H.264 with simulcast", TWO, [*FEW, "--codec", "h264", "--simulcast"], returns("H264"), layers=2),
    Check("simulcast by one connection", [], [*FEW, "--simulcast"], returns("VP8"), layers=2),
    # As Decart's SDK for Python 0.2.4 publishes VP9: `decart/realtime/livekit_connection.py` sets the codec and nothing else.
    Check("VP9 with layers by one connection", [], ["--frames", "60", "--codec", "vp9", "--simulcast"], has_layers),
    Check("audio by one connection", [], [*FEW, "--tone", "440"], has_tone),
    Check("redundant audio by one connection, with loss", [], HEARD, has_redundancy, loses=SINGLE),
    Check("redundant audio, with loss", TWO, HEARD, has_redundancy, loses=SINGLE),
    Check("audio without redundancy, with loss", [], [*HEARD, "--no-redundancy"], has_no_redundancy, loses=SINGLE),
    Check("redundant audio, with bursts of loss", [], HEARD, has_redundancy, loses=BURSTS, is_slow=True),
    Check("audio without redundancy, with bursts of loss", TWO, [*HEARD, "--no-redundancy"], has_no_redundancy, loses=BURSTS,
          is_slow=True),
    Check("only rooms", ["--transport", "livekit"], FEW),
    Check("frame metadata with VP8", TWO, [*FEW, "--metadata"], all_metadata),
    Check("frame metadata with VP9 by one connection", [], [*FEW, "--metadata", "--codec", "vp9"], all_metadata),
    Check("frame metadata with H.264", TWO, [*FEW, "--metadata", "--codec", "h264", "--viewers", "1"],
          lambda report: all_metadata(report) and all_metadata(report["viewers"][0])),
    Check("frame metadata that the room does not carry", ["--no-packet-trailers"], [*FEW, "--metadata", "--codec", "vp9"],
          lambda report: "with_metadata" not in report),
]


# The ports of each row that loses packets; the kernel gives none of them to the SDK.
LOSSY_PORTS = {check.name: f"{20000 + 100 * number}-{20099 + 100 * number}"
               for number, check in enumerate(check for check in CHECKS if check.loses)}
# The second byte of an RTP packet of Opus (111) or RED (63), without and with the marker. STUN, DTLS and RTCP have others.
AUDIO = "@th,72,8 { 111, 63, 239, 191 }"


def lose_packets():
    """Loses audio packets of the rows that have `loses`: those of video would leave it to chance which are audio."""
    rules = "\n".join(f"udp {side} {LOSSY_PORTS[check.name]} {AUDIO} numgen {check.loses} drop"
                      for check in CHECKS if check.loses for side in ("sport", "dport"))
    subprocess.run(["nft", f"table inet rooms {{ chain loss {{ type filter hook input priority 0;\n{rules}\n }}; }}"], check=True)


def enter_namespace():
    libc = ctypes.CDLL(None, use_errno=True)
    flags = CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWUSER | CLONE_NEWNET
    if libc.unshare(flags) != 0:
        return os.strerror(ctypes.get_errno())
    for command in (["link", "set", "lo", "up"], ["link", "add", "room0", "type", "veth", "peer", "name", "room1"],
                    ["addr", "add", f"{ADDRESS}/24", "dev", "room0"], ["link", "set", "room1", "up"], ["link", "set", "room0", "up"]):
        done = subprocess.run(["ip", *command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"ip {' '.join(command)}: {done.stderr.strip()}"
    return None


def perform(check):
    """Returns the reason of the failure, or None."""
    log = tempfile.TemporaryFile("w+")
    lossy = ["--rtp-ports", LOSSY_PORTS[check.name]] if check.loses else []
    process, url = start_standin("--control", "0", *lossy, *check.standin, stderr=log)
    control = line_of(process).split()[-1:]
    fault = ["--control", *control, *(["--fault", check.fault] if check.fault else [])]
    try:
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, "livekit_peer.py"), url, *check.peer, *fault],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=2 * LIMIT, check=False)
        if process.poll() is not None:
            return f"the stand-in ended with {process.returncode}"
        report = json.loads(done.stdout or "{}")
        log.seek(0)
        report["log"] = log.read()
        if (done.returncode == 0 and "error" not in report) != check.is_good or not check.holds(report):
            seen = [line for line in report.pop("log").splitlines() if "generation_tick" not in line]
            return f"status {done.returncode}: {json.dumps(report)[:1500]} {seen[-40:]}"
        if "full_s" in report:
            measured(f"rooms: {check.name}: full size after publishing", report["full_s"], "s", at_most=2)
        if check.loses:
            measured(f"rooms: {check.name}: concealed by the SDK",
                     round(100 * report["audio"]["concealed"] / max(report["audio"]["samples"], 1), 1), "% of samples",
                     at_most=3 if check.loses == SINGLE and check.condition == has_redundancy else 20)
        if check.layers:
            # On a busy machine the SDK sends fewer.
            measured(f"rooms: {check.name}: layers", sum(f"stream {rid} of a simulcast" in report["log"] for rid in "fhq"), "layers",
                     at_least=check.layers)
        return None
    finally:
        end_process(process)
        log.close()


def start_standin(*options, **more):
    """Returns the process and its URL."""
    return standin.start_standin("--host", ADDRESS, *options, **more)


def line_of(process):
    """The next line of a process, empty if it does not write one in time."""
    watchdog = threading.Timer(LIMIT, process.kill)
    watchdog.start()
    try:
        return process.stdout.readline().strip()
    finally:
        watchdog.cancel()


class Processes:
    """A stand-in, elements and SDKs of one check."""

    def __init__(self, *standin_options):
        self.folder = tempfile.TemporaryDirectory()
        self.environment = gstreamer(self.folder.name, os.environ)
        process, self.url = start_standin("--quiet", *standin_options)
        self.started = [process]

    def start(self, command, environment=None):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True, env=environment)
        self.started.append(process)
        return process

    def element(self, *options):
        return self.start(["/usr/bin/python3", os.path.join(HERE, "encoded_element.py"), self.url, *options], self.environment)

    def sdk(self, *options):
        return self.start([sys.executable, os.path.join(HERE, "livekit_peer.py"), self.url, *options])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            if process.poll() is None:
                process.kill()
                process.wait()
        self.folder.cleanup()


def check_our_mute():
    """The SDK, as a viewer, must see that our element mutes its track in standby. Returns the reason of the failure."""
    with Processes("--echo-encoded") as processes:
        publisher = processes.element()
        viewer = processes.sdk("--watch", line_of(publisher))
        if line_of(viewer) != "watching":
            return "the viewer cannot join"
        for wanted in 2 * [("standby", "muted"), ("frames", "unmuted")]:
            publisher.stdin.write("change\n")
            publisher.stdin.flush()
            if (seen := (line_of(publisher), line_of(viewer))) != wanted:
                return f"{seen} instead of {wanted}"
        publisher.communicate(timeout=LIMIT)
        report = json.loads(viewer.communicate(timeout=LIMIT)[0])
        if report != {"at_first": [False], "changes": [True, False, True, False]}:
            return f"the viewer saw {report}"
    return None


def near(colour, wanted):
    return bool(colour) and all(abs(one - other) < 30 for one, other in zip(colour, wanted))


def check_our_encoded_input():
    """The SDK decodes the H.264 that our element was given: no one between them decodes it. As above."""
    with Processes("--echo-encoded") as processes:
        publisher = processes.element()
        viewer = processes.sdk("--see", line_of(publisher), "--frames", "40")
        seen = json.loads(viewer.communicate(timeout=2 * LIMIT)[0] or "{}")
        report = json.loads(publisher.communicate(timeout=LIMIT)[0] or "{}")
        if seen.get("frames") != 40 or not near(seen["colour"], (0xC0, 0x40, 0x30)) or report.get("coders") != []:
            return f"the SDK saw {seen}; the element: {report}"
    return None


def check_our_encoded_output():
    """The H.264 of the SDK leaves our element as it is, and is decoded behind it. As above."""
    with Processes("--echo-encoded") as processes:
        publisher = processes.sdk("--codec", "h264", "--frames", "20", "--announce", "--stay")
        viewer = processes.element(line_of(publisher))
        report = json.loads(viewer.communicate(timeout=2 * LIMIT)[0] or "{}")
        if report.get("frames", 0) < 40 or not near(report["colour"], (30, 60, 200)) or report["coders"] != []:
            return f"the element: {report}"
    return None


OURS = [
    ("our standby, seen by a viewer", check_our_mute),
    ("our encoded input, decoded by the SDK", check_our_encoded_input),
    ("the SDK's video at our encoded output", check_our_encoded_output),
]


def main():
    report = Results("rooms")
    try:
        import livekit.rtc  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
        import websockets  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
    except ImportError as error:
        report.skip(error)
        return 0
    problem = enter_namespace()
    if problem:
        report.skip(f"no network namespace: {problem}")
        return 0
    lose_packets()
    words = sys.argv[1:]
    jobs = OURS + [(check.name, lambda check=check: perform(check)) for check in CHECKS if VERIFYING or words or not check.is_slow]
    jobs = [(name, body) for name, body in jobs if not words or any(word in name for word in words)]
    # They mostly wait. The SDK's layers depend on a machine that is not busy.
    with concurrent.futures.ThreadPoolExecutor(max_workers=1 if VERIFYING else 4) as pool:
        list(pool.map(lambda job: report.perform(job[0], lambda: report(job[0], job[1]())), jobs))
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
