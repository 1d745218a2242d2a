#!/usr/bin/python3
"""Run the steps of scripts/test, several at once, and count what passed.

    run_tests.py --folder DIR [--quick] [--jobs N] [WORD...]

A step is a process: a Swift test suite (or all small suites of a target) or a script that prints "ok NAME",
"not ok NAME: why" and "skip NAME: why". With words, only the steps whose name contains one of them run.

Most steps wait for real time, so several of them run side by side. Steps of one lane never run together. Steps that
measure time, rates or A/V sync run after the others, three at once. The fault rows, which run side by side themselves,
and the check of CPU limits run alone. Each step has a time limit. A process that outlives its step is killed and counts as a failure. DIR gets a log
for each step and junit.xml.
"""

import argparse
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as xml

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUNNER = f"{REPO}/.build/release/gst-decartPackageTests.xctest"
MARK = "DECART_TEST_RUN"


@dataclasses.dataclass
class Result:
    outcome: str  # ok, not ok, skip
    name: str
    why: str = ""
    seconds: float = 0.0

    def __str__(self):
        return f"{self.outcome} {self.name}" + (f": {self.why}" if self.why else "")


@dataclasses.dataclass
class Step:
    name: str
    command: list
    limit: int
    lane: str = ""
    # Runs after the others, with two other such steps at most.
    timed: bool = False
    # Runs after the others, with nothing beside it.
    alone: bool = False
    # Set for Swift test suites: the media transport (see Tests/DecartElementsTests/Support/MediaWay.swift).
    media: str | None = None
    tests: list = dataclasses.field(default_factory=list)
    expected: int = 5  # seconds
    results: list = dataclasses.field(default_factory=list)
    took: float = 0.0
    processor_time: float = 0.0


# --- The steps ---------------------------------------------------------------------------------------------------------

# Expected seconds of a step: the longest one starts first, and --quick leaves the long ones out. A suite in this list has
# a step of its own; the other suites of its target share one.
EXPECTED = {
    "WebRTCTransportTests": 50, "WebRTCTransportTests.Transport/NetworkConditionTests": 38,
    "WebRTCTransportTests.Transport/InteroperabilityTests": 33, "WebRTCTransportTests.Transport/CycleTests": 23,
    "WebRTCTransportTests.CongestionPeerTests": 11,
    "ICETests": 10, "ICETests.DeadPeerTests": 50, "ICETests.LoopbackTests": 20,
    "StandInServerTests": 20,
    "DecartElementsTests": 60, "DecartElementsTests.AudioTests": 42, "DecartElementsTests.ProcessorTests": 71,
    "DecartElementsTests.FrameRateTests": 62, "DecartElementsTests.RoomTests": 44, "DecartElementsTests.CycleTests": 42,
    "DecartElementsTests.CaptureTimeTests": 66, "DecartElementsTests.LipSyncTests": 41,
    "DecartElementsTests.GenerationTests": 41, "DecartElementsTests.ViewerTests": 31,
    "DecartElementsTests.PublishTests": 23, "DecartElementsTests.CameraTestsDevices": 19,
    "DecartElementsTests.RoomTestsRelay": 17, "DecartElementsTests.TeardownTests": 15,
    "DecartElementsTests.CameraTests": 10, "DecartElementsTests.CameraTestsMute": 10,
    "DecartElementsTests.CameraTestsPreview": 9, "DecartElementsTests.CapsChangeTests": 9,
    "DecartElementsTests.FailureTests": 9, "DecartElementsTests.FileInputTests": 8, "DecartElementsTests.FallbackTests": 7,
    "DecartElementsTests.OutputTests": 7, "DecartElementsTests.EndOfStreamTests": 7,
    "DecartElementsTests.InputFormatTests": 6,
    "DecartElementsTests.StandbyTests": 38, "DecartElementsTests.EncodedTests": 24,
    "DecartElementsTests.EncodedLimitTests": 24, "DecartElementsTests.EncodedAudioTests": 14,
    "DecartElementsTests.EncoderTests": 25, "DecartElementsTests.DecoderTests": 12,
    "Packages": 185, "Peers": 33, "EncodedPeers": 25, "Rooms": 180, "FirstGeneration": 10, "Faults": 470,
    "check_examples": 92, "check_secrets": 85, "check_camera": 45, "check_commands": 30, "check_logs": 50,
    "check_network": 65, "check_stats": 20, "check_metrics": 8, "check_encoded": 55, "check_manager": 50, "check_gl": 12,
    "check_live_view": 50, "check_cpu": 45, "check_control": 25, "check_web": 35, "check_recipes": 30, "check_replay": 100,
}
# They compare times, rates or A/V sync with bounds that a busy machine does not keep.
TIMED = ("CaptureTimeTests", "FrameRateTests", "LipSyncTests", "OutputTests", "check_control", "check_web")
# They have no session, or one that only takes the frames: the transport makes no difference.
INDIFFERENT = ("MirrorElement", "MirrorMetas", "MirrorPixels", "CameraTests", "CameraTestsDevices", "CameraTestsMute",
               "CameraTestsPreview", "ColourTests", "FitTests", "InputFormatTests", "ImageTests", "EncoderTests",
               "InputMemoryTests", "LiveViewMachineTests", "StreamJointTests", "EncodedCameraTests")
# What `transport=livekit` and `transport=webrtc` insist on, `auto` finds out: they differ from the two services behind
# `auto` in how a session starts, fails and ends.
CONNECTING = ("AudioTests", "BusMessageTests", "CallbackTeardownTests", "ChattyServiceTests", "EndOfStreamTests",
              "FailureTests", "FallbackTests", "FlushWhileStoppingTests", "FrameTests", "PromptTests",
              "PropertyTests", "PublishTests", "RoomTests", "SeveralElementsTests", "TeardownTests", "TrackTests",
              "TrackFactsTests", "ViewerTests")
# A room with a single peer connection differs in how it comes about: what makes and changes it.
SINGLE = ("FrameTests", "RoomTests", "PublishTests", "AudioTests", "TeardownTests")


def listed_tests():
    """Names of all Swift tests: "Target.Suite/function()"."""
    output = subprocess.run([RUNNER, "--testing-library", "swift-testing", "--list-tests"], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=120, check=True).stdout
    tests = [line for line in output.splitlines() if re.fullmatch(r"\w+\..*\)", line)]
    if not tests:
        sys.exit("run_tests.py: the test runner lists no test")
    return tests


def suite_of(test):
    """The suite that decides on a test's step: "ElementTests/AudioTests", "Transport/CloseTests", "TurnTests"."""
    parts = test.split(".", 1)[1].split("/")
    return "/".join(parts[:2]) if parts[0] in ("ElementTests", "Transport") and len(parts) > 2 else parts[0]


def swift_step(target, suites, tests, name="", **options):
    names = "|".join(re.escape(suite) for suite in sorted(suites))
    command = [RUNNER, "--testing-library", "swift-testing", "--filter", rf"^{target}\.({names})[/(]"]
    chosen = [test for test in tests if test.startswith(f"{target}.") and suite_of(test) in suites]
    return Step(f"{target}{name}", command, 300, tests=chosen, **options)


def swift_steps(tests):
    by_target = {}
    for test in tests:
        by_target.setdefault(test.split(".")[0], set()).add(suite_of(test))
    for target, suites in sorted(by_target.items()):
        if target == "DecartElementsTests":
            yield from element_steps(target, {suite.removeprefix("ElementTests/"): suite for suite in suites}, tests)
        else:
            yield from target_steps(target, {suite: suite for suite in suites}, tests)


def target_steps(target, suites, tests, way="", media=None):
    """Steps of the suites (short name: name in the tests' paths) of a target."""
    own = {name for name in suites if f"{target}.{name}" in EXPECTED}
    for name in own:
        yield swift_step(target, {suites[name]}, tests, f"{way}/{name}", media=media,
                         expected=EXPECTED[f"{target}.{name}"], timed=name in TIMED)
    if rest := {suites[name] for name in suites.keys() - own}:
        yield swift_step(target, rest, tests, way, media=media, expected=EXPECTED.get(target, Step.expected))


def element_steps(target, suites, tests):
    if unknown := {*INDIFFERENT, *CONNECTING, *SINGLE} - suites.keys():
        sys.exit(f"run_tests.py: no such suite: {', '.join(sorted(unknown))}")
    ways = {
        "auto": suites.keys(), "older": suites.keys() - set(INDIFFERENT), "livekit": CONNECTING, "webrtc": CONNECTING,
        "single": SINGLE,
    }
    for media, names in ways.items():
        yield from target_steps(target, {name: suites[name] for name in names}, tests, f"-{media}", media)


def script_steps(folder):
    for name, variable, script in [
        ("Peers", "DECART_TEST_PYTHON", "selftest.py"),
        ("EncodedPeers", "DECART_TEST_PYTHON", "check_encoded_peers.py"), ("Rooms", "DECART_TEST_PYTHON", "check_rooms.py"),
        ("FirstGeneration", "DECART_TEST_FIRST_GENERATION_PYTHON", "check_first_generation.py"),
    ]:
        python = os.environ.get(variable)
        # On a busy machine LiveKit's SDK sends fewer layers than the rooms expect.
        yield Step(name, [python, f"{REPO}/Tests/System/Peers/{script}"] if python else [], 300,
                   expected=EXPECTED[name], timed=name == "Rooms")
    for where in ("Tests/System/Host", "scripts"):
        for file in sorted(os.listdir(f"{REPO}/{where}")):
            path, name = f"{REPO}/{where}/{file}", os.path.splitext(file)[0]
            if name.startswith("check_") and os.access(path, os.X_OK):
                # One lane: they share the folder of examples that they build.
                yield Step(name, [path], 300, expected=EXPECTED.get(name, Step.expected), lane="scripts",
                           timed=name in TIMED, alone=name == "check_cpu")
    # It builds the packages from the existing build, and has a bound on the time of a pipeline.
    yield Step("Packages", [f"{REPO}/Tests/System/Packages/check_packages.py"], 900, expected=EXPECTED["Packages"])
    # The fault rows run side by side themselves, in network namespaces.
    yield Step("Faults", [f"{REPO}/Tests/System/Faults/check_faults.py", "--table", f"{folder}/faults.md"], 1000,
               expected=EXPECTED["Faults"], alone=True)


QUICK_LIMIT = 25


def is_quick(step):
    return step.expected <= QUICK_LIMIT and not step.timed and step.media in (None, "auto")


# --- Running a step ----------------------------------------------------------------------------------------------------

class Runner:
    def __init__(self, folder):
        self.folder = folder
        self.groups = set()
        self.lock = threading.Lock()
        self.is_ended = False

    def run(self, step):
        if not step.command:
            step.results = [Result("skip", step.name, "no virtual environment for Python (see .build/venv*.log)")]
            return
        base = f"{self.folder}/{step.name.replace('/', '-')}"
        mark = f"{os.getpid()}-{step.name}"
        environment = dict(os.environ, GST_REGISTRY_1_0=f"{base}.registry", **{MARK: mark})
        shutil.copy(f"{self.folder}/registry", f"{base}.registry")
        command = list(step.command)
        if step.tests:
            environment["DECART_TEST_MEDIA"] = step.media or ""
            command += ["--event-stream-output-path", f"{base}.events", "--event-stream-version", "0"]
        begun = time.monotonic()
        status, step.processor_time = self.run_process(command, environment, f"{base}.log", step.limit)
        step.took = time.monotonic() - begun
        if step.tests:
            step.results = swift_results(f"{base}.events", step, status, f"{base}.log")
        else:
            step.results = script_results(step, status, f"{base}.log")
        left = left_overs(mark)
        if left:
            step.results.append(Result("not ok", f"{step.name} leaves nothing running", "; ".join(left)))
        os.remove(f"{base}.registry")

    def run_process(self, command, environment, log, limit):
        """The exit status (negative: the signal, None: timeout) and the CPU seconds of the process and its children."""
        with open(log, "wb") as output:
            # A session of its own: a signal to the group reaches whatever the step started.
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                     env=environment, cwd=REPO, start_new_session=True)
        with self.lock:
            self.groups.add(child.pid)
            if self.is_ended:
                os.killpg(child.pid, signal.SIGKILL)
        timed_out, ended = threading.Event(), threading.Event()

        def watch():
            for seconds, number in ((limit, signal.SIGTERM), (10, signal.SIGKILL)):
                if ended.wait(seconds):
                    return
                timed_out.set()
                kill_group(child.pid, number)

        watchdog = threading.Thread(target=watch)
        watchdog.start()
        # The process stays a zombie while it may still be signalled: its id must not go to another process meanwhile.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        ended.set()
        watchdog.join()
        with self.lock:
            self.groups.discard(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        return None if timed_out.is_set() else child.returncode, usage.ru_utime + usage.ru_stime

    def end(self):
        with self.lock:
            self.is_ended = True
            for group in self.groups:
                kill_group(group, signal.SIGKILL)


def kill_group(group, number):
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def left_overs(mark):
    """Kills the processes that have the step's mark in their environment, and names them."""
    for wait in (0, 0.2, 0.8):
        # A process that is about to end may do so.
        time.sleep(wait)
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"{MARK}={mark}".encode() not in file.read().split(b"\0"):
                        continue
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    found.append((int(pid), file.read().replace(b"\0", b" ").decode(errors="replace")[:120]))
            except OSError:
                continue
        if not found:
            return []
    for pid, _ in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return [f"{pid} {command}" for pid, command in found]


# --- What a step found -------------------------------------------------------------------------------------------------

def one_line(text, length=400):
    return " ".join(text.split())[:length]


def last_line(log):
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return one_line(lines[-1], 200) if lines else "no output"


def ending(status, limit, log):
    """How a process ended, for a test that it left without a result."""
    if status is None:
        return f"timeout after {limit} s"
    if status < 0:
        return f"the process ended by {signal.Signals(-status).name}, its last line: {last_line(log)}"
    return f"the process ended with status {status}, its last line: {last_line(log)}"


def swift_results(events, step, status, log):
    """From Swift Testing's event stream: the xUnit file has no tests that did not end."""
    tests, how_it_ended = step.tests, ending(status, step.limit, log)
    begun, seconds, issues, skipped = {}, {}, {}, {}
    try:
        stream = open(events, encoding="utf-8", errors="replace")
    except OSError:
        stream = []
    for line in stream:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # A crash may truncate the last line.
        payload = record.get("payload", {})
        if record.get("kind") == "test":
            continue
        # "Target.Suite/function()/File.swift:12:6", or a suite, or nothing.
        test, kind = payload.get("testID") or "", payload.get("kind")
        name = test.rsplit("/", 1)[0]
        instant = payload.get("instant", {}).get("absolute", 0)
        text = "; ".join(message.get("text", "") for message in payload.get("messages", []))
        if kind == "testStarted":
            begun[name] = instant
        elif kind == "testEnded":
            seconds[name] = instant - begun.get(name, instant)
        elif kind == "testSkipped":
            reason = "; ".join(comment for comment in payload.get("_comments", []) if comment)
            skipped[name] = reason or text
        elif kind == "issueRecorded" and not payload.get("issue", {}).get("isKnown"):
            issues.setdefault(name if name in tests else test, []).append(text)
    results = []
    for test in tests:
        if test in issues:
            results.append(Result("not ok", test, one_line("; ".join(issues[test])), seconds.get(test, 0)))
        elif test in skipped:
            results.append(Result("skip", test, one_line(skipped[test])))
        elif test in seconds:
            results.append(Result("ok", test, seconds=seconds[test]))
        else:
            what = "did not end" if test in begun else "did not start"
            results.append(Result("not ok", test, f"{what}: {how_it_ended}"))
    for test in issues.keys() - set(tests):
        results.append(Result("not ok", test or "outside of any test", one_line("; ".join(issues[test]))))
    if status != 0 and all(result.outcome != "not ok" for result in results):
        results.append(Result("not ok", "the run as a whole", how_it_ended))
    return results


def script_results(step, status, log):
    results = []
    with open(log, encoding="utf-8", errors="replace") as file:
        for line in file:
            if match := re.match(r"(ok|not ok|skip) (.*)", line):
                # The name and the reason stay together: names have colons of their own.
                results.append(Result(match[1], one_line(match[2])))
    failed = any(result.outcome == "not ok" for result in results)
    if status is None or (status != 0 and not failed):
        results.append(Result("not ok", step.name, ending(status, step.limit, log)))
    elif not results:
        results.append(Result("not ok", step.name, "it checked nothing"))
    return results


# --- All of them -------------------------------------------------------------------------------------------------------

def run_all(steps, jobs, runner):
    """Three phases; in each, the longest step starts first. A step of a busy lane waits."""
    for phase, at_once in [
        ([step for step in steps if not step.timed and not step.alone], jobs),
        ([step for step in steps if step.timed], min(3, jobs)),
        ([step for step in steps if step.alone], 1),
    ]:
        run_phase(sorted(phase, key=lambda step: -step.expected), at_once, runner)


def run_phase(waiting, at_once, runner):
    condition = threading.Condition()
    running = []

    def next_step():
        lanes = {step.lane for step in running if step.lane}
        return next((step for step in waiting if step.lane not in lanes), None)

    def perform(step):
        try:
            runner.run(step)
        except Exception as error:  # The runner's own fault is a failure of this step.
            step.results.append(Result("not ok", step.name, f"{type(error).__name__}: {error}"))
        with condition:
            show(step)
            running.remove(step)
            condition.notify()

    with condition:
        while waiting and not runner.is_ended:
            step = next_step() if len(running) < at_once else None
            if step is None:
                condition.wait()
                continue
            waiting.remove(step)
            running.append(step)
            threading.Thread(target=perform, args=[step]).start()
        while running:
            condition.wait()


def show(step):
    count = {outcome: sum(result.outcome == outcome for result in step.results) for outcome in ("ok", "not ok", "skip")}
    print(f"{step.name:46} {count['ok']:4} ok {count['not ok']:4} not ok {count['skip']:3} skipped "
          f"{step.took:5.0f} s {step.processor_time:5.0f} s CPU", flush=True)
    for result in step.results:
        if result.outcome != "ok":
            print(f"    {result}", flush=True)


def write_junit(steps, path):
    root = xml.Element("testsuites")
    for step in steps:
        suite = xml.SubElement(
            root, "testsuite", name=step.name, tests=str(len(step.results)), time=f"{step.took:.3f}",
            failures=str(sum(result.outcome == "not ok" for result in step.results)),
            skipped=str(sum(result.outcome == "skip" for result in step.results)))
        for result in step.results:
            scope, _, name = result.name.rpartition("/") if step.tests else (step.name, "", result.name)
            case = xml.SubElement(suite, "testcase", classname=scope, name=name, time=f"{result.seconds:.3f}")
            if result.outcome != "ok":
                # XML has no control characters.
                why = "".join(letter for letter in result.why if letter.isprintable())
                xml.SubElement(case, "failure" if result.outcome == "not ok" else "skipped", message=why)
    xml.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=5 * len(os.sched_getaffinity(0)) // 2)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()

    steps = [*swift_steps(listed_tests()), *script_steps(options.folder)]
    if options.words:
        steps = [step for step in steps if any(word in step.name for word in options.words)]
    elif options.quick:
        steps = [step for step in steps if is_quick(step)]
    if not steps:
        sys.exit("run_tests.py: no step has such a name")

    runner = Runner(options.folder)

    def interrupted(number, _):
        runner.end()
        os._exit(128 + number)

    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    # Filled once; each step gets a copy.
    subprocess.run(["gst-inspect-1.0", "fakesink"], env=dict(os.environ, GST_REGISTRY_1_0=f"{options.folder}/registry"),
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120, check=True)
    run_all(steps, max(1, options.jobs), runner)
    write_junit(steps, f"{options.folder}/junit.xml")

    results = [result for step in steps for result in step.results]
    failed = [result for result in results if result.outcome == "not ok"]
    skipped = [result for result in results if result.outcome == "skip"]
    print()
    for title, some in [(f"Failed (logs in {options.folder}):", failed), ("Skipped:", skipped)]:
        if some:
            print(title, *(f"  {result.name}" + (f": {result.why}" if result.why else "") for result in some), sep="\n")
    with open(f"{options.folder}/summary", "w", encoding="utf-8") as file:
        passed = len(results) - len(failed) - len(skipped)
        print(f"{passed} passed, {len(failed)} failed" + (f", {len(skipped)} skipped" if skipped else ""), file=file)
    sys.exit(1 if failed or len(failed) + len(skipped) == len(results) else 0)


if __name__ == "__main__":
    main()
