#!/usr/bin/python3
"""Runs the subjects of scripts/verify one after the other, and compares the figures that their programs print.

    run_verification.py [--list] [--repeat N] [SUBJECT...]

A program prints "ok NAME", "not ok NAME: why" and "skip NAME: why", and "measured NAME: VALUE UNIT <= BOUND" (or >=).
Figures are repeated. docs/VERIFIED.md has one line for each figure: its bound, in how many runs it was within it, and its
median; the table before is compared with. A subject that runs replaces its own section there.
"""

import argparse
import collections
import dataclasses
import datetime
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = f"{REPO}/docs/VERIFIED.md"
FOLDER = f"{REPO}/.build/verify"
SYSTEM = f"{REPO}/Tests/System"
PYTHON = os.environ.get("DECART_TEST_PYTHON", "/usr/bin/python3")
FIRST_GENERATION = os.environ.get("DECART_TEST_FIRST_GENERATION_PYTHON", PYTHON)
RUNNER = [f"{REPO}/.build/release/gst-decartPackageTests.xctest", "--testing-library", "swift-testing", "--no-parallel"]
FAULTS = f"{SYSTEM}/Faults/check_faults.py"
NETWORKS = ("network", "quality", "short queue", "500 kbit/s")
LIMIT = 5400  # s, for a program
FIGURE = re.compile(r"measured (.+): (-?[\d.e+-]+) (.*?) ?([<>]=) (-?[\d.e+-]+)$")


@dataclasses.dataclass
class Subject:
    what: str
    commands: list
    # Whether its programs measure, so that they are repeated.
    repeats: bool = True


def swift(tests, media="room"):
    return ["env", f"DECART_TEST_MEDIA={media}", *RUNNER, "--filter", tests]


def checks(*names):
    return [[f"{SYSTEM}/Host/{name}"] for name in names]


SUBJECTS = {
    "faults": Subject("the fault table: recovery times, gaps, growth over reconnects", [[FAULTS, "--without", *NETWORKS]]),
    "networks": Subject("frames on emulated networks, connection-quality, queues on narrow links", [[FAULTS, *NETWORKS]]),
    "libwebrtc": Subject("latency, lost frames, freezes and throughput beside libwebrtc on emulated networks",
                         [[PYTHON, f"{SYSTEM}/Network/bench_network.py"]], repeats=False),
    "elements": Subject("latency, lip sync, frame rates, gaps of the elements, in a room and on a direct connection",
                        [swift(r"^DecartElementsTests\.(?!ElementTests/CycleTests)", media) for media in ("room", "direct")]),
    "transport": Subject("the transport and signalling in real time", [swift(
        r"^(WebRTCTransport|ICE|StandInServer|Network|Signalling|MediaSecurity|ConnectionCheck|DecartProtocol)Tests\."
        r"(?!Transport/CycleTests)")]),
    "growth": Subject("memory, threads and descriptors over many sessions", [
        *(swift(r"^DecartElementsTests\.ElementTests/CycleTests", media) for media in ("room", "direct")),
        swift(r"^WebRTCTransportTests\.Transport/CycleTests"), *checks("check_manager.py", "check_connections.py")], repeats=False),
    "cpu": Subject("half of the CPU that a session needs", [[f"{SYSTEM}/Host/measure_cpu.py"]]),
    "host": Subject("the checks in host programs, with all their cases and figures", checks(
        "check_camera.py", "check_commands.py", "check_contract.py", "check_differential.py", "check_examples.py", "check_exit.py",
        "check_gl.py", "check_limits.py", "check_live_view.py", "check_logs.py", "check_metrics.py", "check_network.py",
        "check_secrets.py", "check_stats.py"), repeats=False),
    "field": Subject("situations that users of other projects have reported, and random operations of an application",
                     [[f"{SYSTEM}/Field/{name}"] for name in ("check_field.py", "check_images.py")], repeats=False),
    "recipes": Subject("the commands of docs/RECIPES.md", checks("check_recipes.py"), repeats=False),
    "browser": Subject("the stand-in's page, and Chromium and Firefox as peers",
                       [*checks("check_web.py", "check_room_page.py", "check_firefox.py"), [FAULTS, "browser"]]),
    "peers": Subject("webrtcbin, aiortc, LiveKit's and Decart's SDK; foreign HTTP, WebSocket, TLS and proxies", [
        [PYTHON, f"{SYSTEM}/Peers/check_encoded_peers.py"], [PYTHON, f"{SYSTEM}/Peers/check_judges.py"],
        [PYTHON, f"{SYSTEM}/Peers/check_rooms.py"], [PYTHON, f"{SYSTEM}/Peers/check_sdk.py"],
        [FIRST_GENERATION, f"{SYSTEM}/Peers/check_first_generation.py"], [f"{SYSTEM}/Peers/check_models.py"]], repeats=False),
    "packages": Subject("the packages in fresh systems of Debian 12 and 13, the example in Rust, the container file, and the "
                        "source package built by Debian 13 without a network", [[f"{SYSTEM}/Packages/{name}"] for name in (
                            "check_packages.py", "check_swift_package.py", "rust_example.py", "container_file.py",
                            "source_package.py")], repeats=False),
    "sanitizers": Subject("AddressSanitizer and ThreadSanitizer", [[f"{REPO}/scripts/sanitize"]], repeats=False),
    "fuzzers": Subject("libFuzzer on all input from outside, a minute for each target",
                       [[f"{REPO}/Tests/Tools/Fuzz/run.sh"]], repeats=False),
}


class Outcome:
    """What the programs of a subject printed, over all rounds."""

    def __init__(self):
        self.figures = collections.OrderedDict()  # name: (unit, relation, bound, values)
        self.passed = 0
        self.failures = []
        self.seconds = 0.0

    def run(self, command, name):
        begun = time.monotonic()
        log = f"{FOLDER}/{name}.log"
        with open(log, "w", encoding="utf-8") as output:
            try:
                status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                        cwd=REPO, timeout=LIMIT, check=False).returncode
            except subprocess.TimeoutExpired:
                status = f"timeout after {LIMIT} s"
        self.seconds += time.monotonic() - begun
        failed = len(self.failures)
        with open(log, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self.read(" ".join(line.split()))
        if status and len(self.failures) == failed:
            self.failures.append(f"{' '.join(command)[-80:]} ended with {status}, see {log}")

    def read(self, line):
        if match := FIGURE.match(line):
            name, value, unit, relation, bound = match.groups()
            *_, values = self.figures.setdefault(name, (unit, relation, float(bound), []))
            values.append(float(value))
        elif line.startswith("ok ") or re.match(r"✔ Test .* passed after", line):
            self.passed += 1
        elif line.startswith("not ok ") or re.match(r"✘ Test .* recorded an issue", line):
            self.failures.append(line.removeprefix("not ok ")[:300])


def within(relation, bound, values):
    return sum(value <= bound if relation == "<=" else value >= bound for value in values)


def rows(outcome, earlier):
    for name, (unit, relation, bound, values) in outcome.figures.items():
        kept = within(relation, bound, values)
        last = earlier.get(name, "–")
        spread = f" ({min(values):g}–{max(values):g})" if len(values) > 1 else ""
        yield (f"| {name} | {relation} {bound:g} {unit} | {kept} of {len(values)} | {statistics.median(values):.4g}{spread} "
               f"| {last} |")


def sections():
    """The page's sections by subject."""
    try:
        with open(PAGE, encoding="utf-8") as file:
            parts = re.split(r"^## (\w+)\n", file.read(), flags=re.MULTILINE)
    except FileNotFoundError:
        return {}
    return dict(zip(parts[1::2], parts[2::2]))


def medians(section):
    """The medians of a section's table by name."""
    return {cells[1].strip(): cells[4].split("(")[0].strip() for line in section.splitlines()
            if len(cells := line.split("|")) == 7 and not cells[1].startswith((" figure", "---"))}


def write_section(name, subject, outcome):
    def git(*words):
        return subprocess.run(["git", "-C", REPO, *words], capture_output=True, text=True, check=False).stdout.strip()

    kept = sections()
    lines = [f"`scripts/verify {name}`: {subject.what}. {datetime.date.today()}, commit {git('rev-parse', '--short', 'HEAD')}"
             f"{' with changes' if git('status', '--porcelain', '--untracked-files=no') else ''}; {outcome.passed} checks "
             f"passed, {len(outcome.failures)} failed, {outcome.seconds / 60:.0f} minutes."]
    lines += ["", *(f"- failed: {failure}" for failure in outcome.failures)] if outcome.failures else []
    if outcome.figures:
        lines += ["", "| figure | bound | within | median (range) | before |", "|---|---|---|---|---|",
                  *rows(outcome, medians(kept.get(name, "")))]
    kept[name] = "\n" + "\n".join(lines) + "\n\n"
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write("# Verified\n\nWritten by `scripts/verify`. A figure is repeated; *within* counts the runs in which it "
                   "kept its bound, *before* is the median of the table before.\n\n")
        file.write("".join(f"## {name}\n{kept[name]}" for name in SUBJECTS if name in kept).rstrip() + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT")
    options = parser.parse_args()
    if options.list:
        for name, subject in SUBJECTS.items():
            print(f"{name:12} {subject.what}")
        return
    if unknown := set(options.subjects) - SUBJECTS.keys():
        sys.exit(f"no such subject: {', '.join(sorted(unknown))}; the subjects: {', '.join(SUBJECTS)}")
    os.makedirs(FOLDER, exist_ok=True)
    outcomes = []
    for name, subject in SUBJECTS.items():
        if options.subjects and name not in options.subjects:
            continue
        outcome = Outcome()
        for repetition in range(options.repeat if subject.repeats else 1):
            for number, command in enumerate(subject.commands, 1):
                print(f"{datetime.datetime.now():%H:%M} {name}, run {repetition + 1}: {' '.join(command)[-90:]}", flush=True)
                with tempfile.TemporaryDirectory(prefix="decart-verify-") as folder:
                    os.environ["GST_REGISTRY_1_0"] = f"{folder}/registry"
                    outcome.run(command, f"{name}-{number}-{repetition + 1}")
        outcomes.append(outcome)
        # After each subject: what was measured stays, whatever happens to the next one.
        write_section(name, subject, outcome)
        outside = [row for row in rows(outcome, {}) if not re.search(r"\| (\d+) of \1 \|", row)]
        print(*outside, *(f"not ok {failure}" for failure in outcome.failures), sep="\n", flush=True)

    failures = sum(len(outcome.failures) for outcome in outcomes)
    missed = sum(2 * within(relation, bound, values) < len(values)
                 for outcome in outcomes for _, relation, bound, values in outcome.figures.values())
    print(f"{sum(outcome.passed for outcome in outcomes)} passed, {failures} failed; "
          f"{missed} of {sum(len(outcome.figures) for outcome in outcomes)} figures missed their bound in most runs")
    sys.exit(1 if failures or missed else 0)


if __name__ == "__main__":
    main()
