"""Tests the stand-in's room with LiveKit's own SDK: publish, subscribe, count transformed frames, then faults.

Runs in a network namespace of its own, because libwebrtc ignores the loopback interface and a machine may have no other
address. Prints "ok NAME", "not ok NAME: why" or "skip NAME: why" per check, the format that scripts/test reads.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "Host"))
from plugin_path import system_path  # noqa: E402

RELEASE = os.environ.get("DECART_RELEASE", os.path.join(HERE, "..", "..", "..", ".build", "release"))
ADDRESS, PORT = "10.111.0.1", 9001
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


def both_streams(log):
    """Returns True if both simulcast layers arrived; the SDK sends two at 640 x 352."""
    return "stream h of a simulcast" in log and "stream q of a simulcast" in log


def resumed(report, count):
    """Returns True if the SDK resumed this often, and joined and published only once."""
    log = report["log"]
    return (report.get("reconnected") and log.count("room: resumes at") == count and log.count("room: joined") == 1
            and report["tracks"] == 1)


def all_metadata(report):
    """Returns True if each frame came back with the time and number of the frame from which it was made."""
    return report.get("with_metadata") == report["frames"] and "wrong_metadata" not in report


# Forces /rtc with two connections: the SDK first tries /rtc/v1, one connection for both directions.
TWO = ["--no-single-connection"]

# Name, options of the stand-in, options of the SDK peer, whether the peer must succeed, additional condition.
CHECKS = [
    ("VP8", TWO, [], True, lambda report: report["size"] == [640, 352]),
    ("H.264", TWO, ["--codec", "h264"], True, None),
    ("VP8 by one connection", [], [], True, lambda report: report["size"] == [640, 352]),
    ("H.264 by one connection", [], ["--codec", "h264"], True, None),
    ("simulcast", TWO, ["--simulcast"], True, lambda report: both_streams(report["log"])),
    ("H.264 with simulcast", TWO, ["--codec", "h264", "--simulcast"], True, lambda report: both_streams(report["log"])),
    ("simulcast by one connection", [], ["--simulcast"], True, lambda report: both_streams(report["log"])),
    ("audio", TWO, ["--tone", "440"], True, lambda report: report.get("tone_received")),
    ("audio by one connection", [], ["--tone", "440"], True, lambda report: report.get("tone_received")),
    ("only rooms", ["--transport", "livekit"], [], True, None),
    ("leave with action DISCONNECT", ["--fault", "room_leave_disconnect:at=2"], ["--frames", "5", "--stay", "5"], True,
     lambda report: "disconnected" in report and "reconnecting" not in report),
    ("leave with action RECONNECT", ["--fault", "room_leave_reconnect:at=1"], ["--frames", "120"], True,
     lambda report: report.get("reconnected")),
    # The stand-in closes behind this message, upon which the SDK sometimes joins again.
    ("leave with action RESUME", [*TWO, "--fault", "room_leave_resume:at=1"], ["--frames", "120"], True,
     lambda report: report.get("reconnected")),
    ("resume", [*TWO, "--fault", "room_cut:at=2"], ["--frames", "120"], True, lambda report: resumed(report, 1)),
    ("resume of one connection", ["--fault", "room_cut:at=2"], ["--frames", "120"], True,
     lambda report: resumed(report, 1)),
    ("three resumes with H.264 and audio", [*TWO, "--fault", "room_cut:at=2,n=3,interval=4"],
     ["--frames", "240", "--codec", "h264", "--tone", "440"], True,
     lambda report: resumed(report, 3) and report.get("tone_received")),
    ("resume refused", [*TWO, "--fault", "room_cut:at=2", "--fault", "room_resume_refused"], ["--frames", "120"], True,
     lambda report: report.get("reconnected") and "cannot resume" in report["log"] and report["log"].count("room: joined") == 2),
    ("room restarted", ["--fault", "room_restart:at=1"], ["--frames", "120"], True,
     lambda report: report.get("reconnected")),
    ("two viewers", [], ["--frames", "40", "--viewers", "2"], True,
     lambda report: [each["frames"] >= 40 and each["is_grey"] for each in report["viewers"]] == [True, True]),
    ("the SDK mutes its track", [], ["--frames", "40", "--mute"], True,
     lambda report: report["mutes"] == [True, False] and report["generations_ended"] == 1
     and report["frames_after_mute"] > 20),
    ("frame metadata with VP8", TWO, ["--metadata"], True, all_metadata),
    ("frame metadata with VP9 by one connection", [], ["--metadata", "--codec", "vp9"], True, all_metadata),
    ("frame metadata with H.264", TWO, ["--metadata", "--codec", "h264", "--viewers", "1"], True,
     lambda report: all_metadata(report) and report["viewers"][0]["with_metadata"] == report["viewers"][0]["frames"]),
    ("frame metadata that the room does not carry", ["--no-packet-trailers"], ["--metadata", "--codec", "vp9"], True,
     lambda report: "with_metadata" not in report),
    ("token refused", ["--fault", "room_token_refused"], [], False, None),
    ("direct connections only", ["--transport", "webrtc"], [], False, None),
]



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


def check(standin_options, peer_options, is_good, condition):
    """Returns the reason of the failure, or None."""
    log = tempfile.TemporaryFile("w+")
    standin = subprocess.Popen(
        [os.path.join(RELEASE, "decart-standin"), "--host", ADDRESS, "--port", str(PORT), *standin_options],
        stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        if not standin.stdout.readline().startswith("listening on"):
            return "the stand-in does not start"
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, "livekit_peer.py"), f"ws://{ADDRESS}:{PORT}", "--limit", "30", *peer_options],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=90, check=False)
        if standin.poll() is not None:
            return f"the stand-in ended with {standin.returncode}"
        report = json.loads(done.stdout or "{}")
        log.seek(0)
        report["log"] = log.read()
        if (done.returncode == 0) != is_good or (condition and not condition(report)):
            return f"status {done.returncode}: {json.dumps(report)[-3000:]}"
        return None
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        standin.terminate()
        try:
            standin.wait(10)
        except subprocess.TimeoutExpired:
            standin.kill()
            standin.wait()
        log.close()


class Processes:
    """A stand-in, elements and SDKs of one check."""

    def __init__(self, *standin_options):
        self.folder = tempfile.TemporaryDirectory()
        self.environment = {**os.environ, "GST_REGISTRY_1_0": os.path.join(self.folder.name, "registry"),
                            "GST_PLUGIN_SYSTEM_PATH_1_0": system_path(os.path.join(RELEASE, "libgstdecart.so"),
                                                                      self.folder.name)}
        self.url = f"ws://{ADDRESS}:{PORT}"
        self.started = []
        standin = self.start([os.path.join(RELEASE, "decart-standin"), "--host", ADDRESS, "--port", str(PORT), "--quiet",
                              *standin_options])
        standin.stdout.readline()

    def start(self, command, environment=None):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True, env=environment)
        self.started.append(process)
        return process

    def element(self, script, *options):
        return self.start(["/usr/bin/python3", os.path.join(HERE, script), self.url, *options], self.environment)

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
    with Processes() as processes:
        publisher = processes.element("standby_element.py")
        viewer = processes.sdk("--watch", publisher.stdout.readline().strip())
        if viewer.stdout.readline().strip() != "watching":
            return "the viewer cannot join"
        out, _ = publisher.communicate("begin\n", timeout=30)
        report = json.loads(viewer.communicate(timeout=30)[0])
        if report != {"at_first": [False], "changes": [True, False, True, False]} or out.strip() != "good":
            return f"the viewer saw {report}; the element: {out.strip()}"
    return None


def near(colour, wanted):
    return bool(colour) and all(abs(one - other) < 30 for one, other in zip(colour, wanted))


def check_our_encoded_input():
    """The SDK decodes the H.264 that our element was given: no one between them decodes it. As above."""
    with Processes("--echo-encoded") as processes:
        publisher = processes.element("encoded_element.py")
        viewer = processes.sdk("--see", publisher.stdout.readline().strip(), "--frames", "40", "--limit", "30")
        seen = json.loads(viewer.communicate(timeout=60)[0] or "{}")
        report = json.loads(publisher.communicate(timeout=30)[0] or "{}")
        if seen.get("frames") != 40 or not near(seen["colour"], (0xC0, 0x40, 0x30)) or report.get("coders") != []:
            return f"the SDK saw {seen}; the element: {report}"
    return None


def check_our_encoded_output():
    """The H.264 of the SDK leaves our element as it is, and is decoded behind it. As above."""
    with Processes("--echo-encoded") as processes:
        publisher = processes.sdk("--codec", "h264", "--frames", "20", "--announce", "--stay", "30")
        viewer = processes.element("encoded_element.py", publisher.stdout.readline().strip())
        report = json.loads(viewer.communicate(timeout=60)[0] or "{}")
        if report.get("frames", 0) < 40 or not near(report["colour"], (30, 60, 200)) or report["coders"] != []:
            return f"the element: {report}"
    return None


OURS = [
    ("our standby, seen by a viewer", check_our_mute),
    ("our encoded input, decoded by the SDK", check_our_encoded_input),
    ("the SDK's video at our encoded output", check_our_encoded_output),
]


def main():
    try:
        import livekit.rtc  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
        import websockets  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
    except ImportError as error:
        print(f"skip rooms: {error}")
        return 0
    problem = enter_namespace()
    if problem:
        print(f"skip rooms: no network namespace: {problem}")
        return 0
    failures = 0
    for name, standin_options, peer_options, is_good, condition in CHECKS:
        if len(sys.argv) > 1 and sys.argv[1] not in name:
            continue
        problem = check(standin_options, peer_options, is_good, condition)
        failures += problem is not None
        print(f"not ok {name}: {problem}" if problem else f"ok {name}", flush=True)
    for name, body in OURS:
        if len(sys.argv) > 1 and sys.argv[1] not in name:
            continue
        try:
            problem = body()
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
            problem = f"{type(error).__name__}: {error}"
        failures += problem is not None
        print(f"not ok {name}: {problem}" if problem else f"ok {name}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
