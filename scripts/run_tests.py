#!/usr/bin/python3
"""Run the steps of scripts/test, several at once, and count what passed.

    run_tests.py --folder DIR [--quick] [--swift] [--jobs N] [WORD...]

A step is a process: Swift tests, or a script that prints "ok NAME", "not ok NAME: why" and "skip NAME: why". With words,
only the steps whose name contains one of them run. With --swift, only Swift tests run, without the element suites, and
one after the other in each process: Swift 6.0 starts all at once, and their time limits then count the wait for a thread.

Most steps wait for real time, so several of them run side by side; none asserts how fast it was. Each step has a time
limit. A process that outlives its step is killed and counts as a failure. If a test process crashes, that is a failure
which names the tests that ran, and the tests without a result run again in a second process, one after the other. DIR
gets a log for each step and junit.xml.
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
    # Set for Swift tests: those of the step, and the media transport (Tests/DecartElementsTests/Support/MediaWay.swift).
    tests: list = dataclasses.field(default_factory=list)
    media: str = ""
    # Part of --quick.
    is_quick: bool = False
    results: list = dataclasses.field(default_factory=list)
    took: float = 0.0
    processor_time: float = 0.0


# --- The steps ---------------------------------------------------------------------------------------------------------

LIMIT = 900  # s, for a step: a hang, on any machine
# Suites of these parents run one after the other, so each has a process of its own.
SERIAL = ("ElementTests", "Simulation", "Transport")
# The element suites run with sessions in a room and with direct connections.
WAYS = {"DecartElementsTests": ("room", "direct")}
# Comments with which tests disable themselves on purpose (MediaWay.swift, Measure.swift): the summary does not list them.
LEFT_OUT = ("the transport makes no difference", "only rooms have it", "scripts/verify runs it")


def listed_tests():
    """Names of all Swift tests: "Target.Suite/function()"."""
    output = subprocess.run([RUNNER, "--testing-library", "swift-testing", "--list-tests"], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=120, check=True).stdout
    tests = [line for line in output.splitlines() if re.fullmatch(r"\w+\..*\)", line)]
    if not tests:
        sys.exit("run_tests.py: the test runner lists no test")
    return tests


def suite_of(test):
    """The suite that decides on a test's step: "ElementTests/AudioTests", "Transport/CloseTests", or "" for the others."""
    parts = test.split(".", 1)[1].split("/")
    return "/".join(parts[:2]) if parts[0] in SERIAL and len(parts) > 2 else ""


def swift_command(names, *options):
    """`names`: a regular expression for the begin of the tests' names."""
    return [RUNNER, "--testing-library", "swift-testing", *options, "--filter", f"^({names})"]


def swift_steps(tests, *options):
    groups = {}
    for test in tests:
        groups.setdefault((test.split(".")[0], suite_of(test)), []).append(test)
    # Excludes the names of the suites too: a suite that the filter chooses brings its tests.
    others = "".join(f"(?!{parent}(?:/|$))" for parent in SERIAL)
    for (target, suite), own in sorted(groups.items(), key=lambda group: -len(group[1])):
        command = swift_command(rf"{target}\.{suite}/" if suite else rf"{target}\.{others}", *options)
        for way in WAYS.get(target, ("",)):
            name = "/".join(filter(None, (target + (f"-{way}" if way else ""), suite.split("/")[-1])))
            yield Step(name, command, own, way,
                       is_quick=target not in WAYS or (suite.endswith("/StartTests") and way == "room"))


def script_steps():
    # The fault rows, which run side by side themselves, take longest.
    yield Step("Faults", [f"{REPO}/Tests/System/Faults/check_faults.py"])
    for name, variable, script in [
        ("Rooms", "DECART_TEST_PYTHON", "check_rooms.py"), ("SDK", "DECART_TEST_PYTHON", "check_sdk.py"),
        ("EncodedPeers", "DECART_TEST_PYTHON", "check_encoded_peers.py"),
        ("Messages", "DECART_TEST_PYTHON", "check_messages.py"), ("Judges", "DECART_TEST_PYTHON", "check_judges.py"),
        ("FirstGeneration", "DECART_TEST_FIRST_GENERATION_PYTHON", "check_first_generation.py"),
    ]:
        python = os.environ.get(variable)
        yield Step(name, [python, f"{REPO}/Tests/System/Peers/{script}"] if python else [])
    for where in ("Tests/System/Field", "Tests/System/Host", "Tests/System/Packages", "Tests/Tools", "scripts"):
        for file in sorted(os.listdir(f"{REPO}/{where}")):
            path, name = f"{REPO}/{where}/{file}", os.path.splitext(file)[0]
            if name.startswith("check_") and os.access(path, os.X_OK):
                yield Step(name, [path], is_quick=where == "scripts")


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
        begun = time.monotonic()
        if step.tests:
            environment["DECART_TEST_MEDIA"] = step.media
            step.results = self.run_swift(step, step.command, step.tests, environment, base)
        else:
            status = self.run_process(step, step.command, environment, f"{base}.log")
            step.results = script_results(step, status, f"{base}.log")
        step.took = time.monotonic() - begun
        left = left_overs(mark)
        if left:
            step.results.append(Result("not ok", f"{step.name} leaves nothing running", "; ".join(left)))
        os.remove(f"{base}.registry")

    def run_swift(self, step, command, tests, environment, base, tries=2):
        events, log = f"{base}.events", f"{base}.log"
        command = command + ["--event-stream-output-path", events, "--event-stream-version", "0"]
        # A crash leaves its backtrace in the log. Frames only: the other sections name memory contents.
        environment = dict(environment, SWIFT_BACKTRACE="enable=yes,interactive=no,color=no,threads=crashed,images=none,"
                                                        "registers=none,limit=32,timeout=60s")
        status = self.run_process(step, command, environment, log)
        results, running, waiting = swift_results(events, tests, status, log)
        if running or waiting:
            names = ", ".join(running) or "no test"
            results.append(Result("not ok", f"{step.name}: the process", f"{ending(status, log)}; it ran {names}"))
            if tries > 1 and not self.is_ended:
                rest = running + waiting
                again = swift_command("|".join(map(re.escape, rest)), "--no-parallel")
                return results + self.run_swift(step, again, rest, environment, f"{base}-again", tries - 1)
            results += [Result("not ok", test, "it has no result") for test in running + waiting]
        elif status != 0 and all(result.outcome != "not ok" for result in results):
            results.append(Result("not ok", f"{step.name}: the process", ending(status, log)))
        return results

    def run_process(self, step, command, environment, log):
        """The exit status (negative: the signal, None: timeout). Adds the process's CPU time to the step's."""
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
            for seconds, number in ((LIMIT, signal.SIGTERM), (10, signal.SIGKILL)):
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
        step.processor_time += usage.ru_utime + usage.ru_stime
        return None if timed_out.is_set() else child.returncode

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

def one_line(text, length=1000):
    return " ".join(text.split())[:length]


def last_line(log):
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return one_line(lines[-1], 200) if lines else "no output"


def crash(log):
    """The innermost frames of a crash that the Swift runtime wrote into the log, in one line."""
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read().rpartition("*** Program crashed: ")[2]
    frames = re.findall(r"^ *\d+ (?:\[\w+\] )*(?: *0x[0-9a-f]+ )?(.*)$", text, re.MULTILINE)
    return one_line(f"{text.partition(' ***')[0]} in {' < '.join(frames)}", 1000) if frames else ""


def ending(status, log):
    """How a process ended that left a test without a result."""
    if status is None:
        return f"timeout after {LIMIT} s"
    if status < 0:
        return f"it ended by {signal.Signals(-status).name}, {crash(log) or f'its last line: {last_line(log)}'}"
    return f"it ended with status {status}, its last line: {last_line(log)}"


def swift_results(events, tests, status, log):
    """The results, the tests that ran when the process ended, and those that had not begun. From Swift Testing's event
    stream: the xUnit file has no tests that did not end."""
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
    results, running, waiting = [], [], []
    for test in tests:
        if test in issues:
            results.append(Result("not ok", test, one_line("; ".join(issues[test])), seconds.get(test, 0)))
        elif test in skipped:
            if not skipped[test].endswith(LEFT_OUT):
                results.append(Result("skip", test, one_line(skipped[test])))
        elif test in seconds:
            results.append(Result("ok", test, seconds=seconds[test]))
        else:
            (running if test in begun else waiting).append(test)
    for test in issues.keys() - set(tests):
        results.append(Result("not ok", test or "outside of any test", one_line("; ".join(issues[test]))))
    return results, running, waiting


def script_results(step, status, log):
    results = []
    with open(log, encoding="utf-8", errors="replace") as file:
        for line in file:
            if match := re.match(r"(ok|not ok|skip) (.*)", line):
                # The name and the reason stay together: names have colons of their own.
                results.append(Result(match[1], one_line(match[2])))
    failed = any(result.outcome == "not ok" for result in results)
    if status is None or (status != 0 and not failed):
        results.append(Result("not ok", step.name, ending(status, log)))
    elif not results:
        results.append(Result("not ok", step.name, "it checked nothing"))
    return results


# --- All of them -------------------------------------------------------------------------------------------------------

def run_all(steps, jobs, runner):
    """Starts the steps in their order, in which the longest ones come first."""
    waiting = list(steps)
    condition = threading.Condition()
    running = []

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
            if len(running) >= jobs:
                condition.wait()
                continue
            step = waiting.pop(0)
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
    parser.add_argument("--swift", action="store_true")
    parser.add_argument("--jobs", type=int, default=2 * len(os.sched_getaffinity(0)))
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()

    if options.swift:
        steps = [step for step in swift_steps(listed_tests(), "--no-parallel") if not step.media]
    else:
        steps = [*script_steps(), *swift_steps(listed_tests())]
    if options.words:
        steps = [step for step in steps if any(word in step.name for word in options.words)]
    elif options.quick:
        steps = [step for step in steps if step.is_quick]
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
