#!/usr/bin/python3
"""Runs the commands of the documents' fenced sh blocks as a user types them.

Each block runs in a shell of its own in a copy of the repository, several blocks at once. A block that does not source
`pipelines/env.sh` gets it before, and a stand-in if it names port 9001 and starts none. A network namespace makes the
ports free, and a process namespace ends what a block leaves running. Windows open in Xvfb.

A pipeline gets an interrupt a second after the service generates (two with DECART_VERIFY=1). Until then it must have posted no ERROR and no
WARNING and have reached PLAYING, for which each of its sinks needs a buffer. After the interrupt EOS must arrive. A
stand-in in the foreground gets an interrupt when it listens.

A comment `# not run: why` excludes the command at whose end it is, or the block whose first line it is. A line
`<!-- not run: why -->` above a block excludes the block.

Prints "ok commands: PAGE: LINE: COMMAND", "not ok …: why" or "skip …: why". Arguments select pages by name.
"""

import concurrent.futures
import glob
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from checks import NAMESPACES, RELEASE, REPO, VERIFYING, Results, lacking, read, registry, start_xvfb

LIMIT = 240  # s, for a block
START = 60  # s, until the service generates
WATCHED = 2 if VERIFYING else 1  # s, between that and the interrupt
END = 45  # s, from the interrupt to the end
PREFIX = "check_commands: "
# By a sink or a source, on a busy machine.
TOO_SLOW = re.compile("A lot of buffers are being dropped|Can't record audio fast enough|computer is too slow")

DRIVER = """
exec 9>{folder}/results
ip link set lo up
_run() {{ /usr/bin/python3 {check} "$@"; }}
gst-launch-1.0() {{ _run --pipeline "$@"; }}
decart-standin() {{
    if [ "$BASHPID" = "$$" ]; then _run --standin "$@"; else exec "$(type -P decart-standin)" "$@"; fi
}}
curl() {{ command curl --fail-with-body --silent --show-error --max-time 60 "$@"; }}
_wait() {{
    for _attempt in $(seq 1 600); do
        grep -qs 'listening on' "$1" && return 0
        sleep 0.1
    done
    echo '{prefix}the stand-in does not listen'
    return 1
}}
"""


# --- The documents -------------------------------------------------------------------------------------------------------

class Command:
    def __init__(self, line, text):
        self.line = line
        self.text = text
        words = re.sub(r"\\\n\s*", "", re.sub(r"\s+#.*$", "", text)).strip()
        words = " ".join(words.split())
        self.name = words if len(words) <= 60 else words[:57] + "…"
        self.is_background = words.endswith("&")
        self.starts_standin = bool(re.search(r"(^|[;&|]\s*)decart-standin\b", words))
        self.comment = match[1] if (match := re.search(r"(?:^|\s)#(.*)$", text)) else ""


class Block:
    def __init__(self, page, commands):
        self.page = page
        self.commands = commands

    def name_of(self, command):
        return f"{self.page}: {command.line}: {command.name}"

    def has(self, text):
        return any(text in command.text for command in self.commands)


def is_complete(text):
    return not text.endswith("\\") and subprocess.run(["bash", "-n"], input=text, text=True,
                                                      capture_output=True).returncode == 0


def commands_of(first, lines):
    """The commands of a block that are not marked, and the marks."""
    commands, marks, text = [], [], ""
    for number, line in enumerate(lines, first):
        if not text and (not line.strip() or line.strip().startswith("#")):
            if "not run" in line and number == first:
                return [], [(number, line)]
            continue
        start = number if not text else start
        text += ("\n" if text else "") + line
        if is_complete(text):
            command = Command(start, text)
            if "not run" in command.comment:
                marks.append((start, command.comment))
            else:
                commands.append(command)
            text = ""
    if text:
        commands.append(Command(start, text))
    return commands, marks


def read_page(page):
    """Blocks and marks of a page."""
    blocks, marks = [], []
    content = read(os.path.join(REPO, page))
    for match in re.finditer(r"^( *)```(?:sh|bash|shell|console)\n(.*?)^ *```$", content, re.M | re.S):
        first = content.count("\n", 0, match.start()) + 2
        above = content[:match.start()].rstrip("\n").rpartition("\n")[2].strip()
        if above.startswith("<!--") and "not run" in above:
            marks.append((first - 2, above))
            continue
        lines = [line.removeprefix(match[1]) for line in match[2].splitlines()]
        commands, found = commands_of(first, lines)
        marks += found
        if commands:
            blocks.append(Block(page, commands))
    return blocks, marks


# --- A pipeline and a stand-in: what the functions of the driver run -----------------------------------------------------

class Watched:
    """A process whose output is copied to standard output while it is read."""

    def __init__(self, arguments):
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        errors="replace")
        self.lines = queue.Queue()
        threading.Thread(target=self.copy, daemon=True).start()

    def copy(self):
        for line in self.process.stdout:
            print(line, end="", flush=True)
            self.lines.put(line)
        self.lines.put(None)

    def until(self, seconds, look):
        """Calls `look` for each line until it returns true. Returns false after this time, and None at the end."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                line = self.lines.get(timeout=left)
            except queue.Empty:
                return False
            if line is None:
                return None
            if look(line):
                return True
        return False

    def interrupt(self, look=lambda line: False):
        """Ends the process; returns why that fails, or an empty text."""
        self.process.send_signal(signal.SIGINT)
        self.until(END, look)
        try:
            status = self.process.wait(timeout=END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "an interrupt does not end it"
        return f"status {status} after an interrupt" if status else ""


def run_pipeline(arguments):
    """`-e` lets an interrupt end the stream first, and `-m` prints the messages. The caps that `-v` prints are no proof:
    while one thread emits "deep-notify", GObject drops the same signal of another thread."""
    has_session = any(word in ("decarttransform", "decartsrc") for word in arguments)
    if "is-live=true" in arguments:
        # On a busy machine, the command's source may end before the first transformed frame. The interrupt ends it here.
        arguments = [re.sub(r"^num-buffers=(\d+)$", r"num-buffers=\g<1>0", argument) for argument in arguments]
    seen, problems = set(), []

    def look(line):
        if re.match(r"(ERROR|WARNING):", line) or re.search(r"(CRITICAL|WARNING) \*\*", line):
            problems.append(line.strip())
        for name, pattern in (("generating", r"decart-state.*\bstate=\(string\)generating"),
                              ("playing", r'"pipeline\d+" \(state-changed\): .*\bnew-state=\(GstState\)playing'),
                              ("EOS", r"^Got EOS")):
            if re.search(pattern, line):
                seen.add(name)
        return {"playing", *(["generating"] if has_session else [])} <= seen

    watched = Watched([shutil.which("gst-launch-1.0"), "-e", "-m", *arguments])
    reached = watched.until(START, look)
    if reached:
        watched.until(WATCHED, lambda line: look(line) and False)
    if watched.process.poll() is None and reached is not None:
        why = watched.interrupt(lambda line: look(line) and False)
    else:
        status = watched.process.wait()
        why = f"status {status}" if status else ""
    problems = [line for line in problems if not TOO_SLOW.search(line)]
    if problems:
        why = problems[0]
    elif not why and "playing" not in seen:
        why = f"a sink has no buffer within {START} s"
    elif not why and has_session and "generating" not in seen:
        why = f"no transformed frames within {START} s"
    elif not why and "EOS" not in seen:
        why = "an interrupt does not end the stream"
    for argument in arguments:
        path = argument.partition("location=")[2]
        if not why and path and "%" not in path and not (os.path.exists(path) and os.path.getsize(path)):
            why = f"{path} is empty"
    return why


def run_standin(arguments):
    watched = Watched([shutil.which("decart-standin"), *arguments])
    said = []
    if not watched.until(START, lambda line: said.append(line.strip()) or "listening on" in line):
        watched.process.kill()
        return f"it does not listen: {said[0] if said else 'no output'}"
    return watched.interrupt()


# --- Blocks --------------------------------------------------------------------------------------------------------------

def script_of(block, folder):
    """A shell script with the block's commands as they are, each with a log of its own."""
    script = DRIVER.format(folder=shlex.quote(folder), check=shlex.quote(os.path.abspath(__file__)), prefix=PREFIX)
    if not block.has("pipelines/env.sh"):
        script += "source pipelines/env.sh\n"
    if block.has("9001") and not any(command.starts_standin for command in block.commands):
        script += f"decart-standin >{shlex.quote(folder)}/standin.log 2>&1 &\n_wait {shlex.quote(folder)}/standin.log\n"
    for number, command in enumerate(block.commands):
        log = shlex.quote(f"{folder}/{number}.log")
        script += f"exec >{log} 2>&1\n{command.text}\n"
        if command.is_background and command.starts_standin:
            script += f"_wait {log}\n"
        script += 'printf "%s\\n" "$?" >&9\n'
    return script


def reason(log):
    try:
        with open(log, errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
    except OSError:
        return "no output"
    found = [line.removeprefix(PREFIX) for line in lines if line.startswith(PREFIX)]
    return " | ".join(found or lines[-2:])[:300] or "no output"


def run_block(block, work, environment):
    """Runs a block; returns the name of each of its commands, and why it failed."""
    folder = tempfile.mkdtemp(dir=work)
    process = subprocess.Popen([*NAMESPACES, "bash", "-c", script_of(block, folder)],
                               cwd=os.path.join(work, "repo"), env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    try:
        results = read(f"{folder}/results").split()
    except OSError:
        results = []
    ends = [f"status {status}" if status != "0" else "" for status in results]
    ends += (len(block.commands) - len(ends)) * [f"not ended after {LIMIT} s, or the shell ended"]
    return [(block.name_of(command), end and f"{end}: {reason(f'{folder}/{number}.log')}")
            for number, (command, end) in enumerate(zip(block.commands, ends))]


def prepare(work, display):
    """Copies what the commands need, fills a registry, and returns the environment."""
    copy = os.path.join(work, "repo")
    for name in ("pipelines", "scripts", "docs"):
        shutil.copytree(os.path.join(REPO, name), os.path.join(copy, name))
    os.makedirs(os.path.join(copy, ".build"))
    os.symlink(RELEASE, os.path.join(copy, ".build", "release"))
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("GST_", "DECART_")) and name not in ("WAYLAND_DISPLAY", "DISPLAY", "BASH_ENV")}
    # The mark by which scripts/run_tests.py finds left processes.
    environment.update({name: value for name, value in os.environ.items() if name.startswith(("DECART_TEST_", "DECART_VERIFY"))})
    environment.update(DISPLAY=f":{display}", GST_REGISTRY_1_0=registry(work), HOME=work)
    subprocess.run(["bash", "-c", "source pipelines/env.sh && gst-inspect-1.0 decarttransform"], cwd=copy,
                   env=environment, stdout=subprocess.DEVNULL, check=True, timeout=200)
    return environment


def main():
    if sys.argv[1:2] in (["--pipeline"], ["--standin"]):
        why = (run_pipeline if sys.argv[1] == "--pipeline" else run_standin)(sys.argv[2:])
        if why:
            print(f"{PREFIX}{why}")
        return 1 if why else 0
    report = Results("commands")
    if missing := lacking("Xvfb", "curl"):
        return report.skip(f"no {missing}")
    pages = ["README.md", "pipelines/README.md", "scripts/README.md",
             *sorted(os.path.relpath(page, REPO) for page in glob.glob(f"{REPO}/docs/*.md"))]
    blocks = []
    for page in pages:
        found, marks = read_page(page)
        if not sys.argv[1:] or any(word in page for word in sys.argv[1:]):
            blocks += found
            for line, comment in marks:
                if not re.search(r"\bnot run\b[^:]*: *\S", comment):
                    report(f"{page}: {line}", f"the mark gives no reason: {comment.strip()}")
    work = tempfile.mkdtemp(prefix="decart-commands-")
    with open(os.path.join(work, "xvfb.log"), "wb") as log:
        xvfb, display = start_xvfb("1280x800", log)
    try:
        if not display:
            report("Xvfb starts", reason(os.path.join(work, "xvfb.log")))
            return True
        environment = prepare(work, display)
        with concurrent.futures.ThreadPoolExecutor(max_workers=2 if VERIFYING else 3) as pool:
            for results in pool.map(lambda block: run_block(block, work, environment), blocks):
                for name, why in results:
                    report(name, why)
    finally:
        xvfb.terminate()
        xvfb.wait()
        if not os.environ.get("DECART_KEEP"):
            shutil.rmtree(work, ignore_errors=True)
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
