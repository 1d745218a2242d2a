"""What the checks share: where the build is, one line for each result, and a pipeline's surroundings."""

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
RELEASE = os.path.abspath(os.environ.get("DECART_RELEASE", os.path.join(REPO, ".build", "release")))
PLUGIN = os.path.join(RELEASE, "libgstdecart.so")
STANDIN = os.path.join(RELEASE, "decart-standin")
NAMESPACES = ["unshare", *(["--user", "--map-root-user"] if os.geteuid() else []), "--net", "--pid", "--fork",
              "--kill-child", "--mount-proc", "--"]
# With the loopback interface.
NAMESPACES_UP = [*NAMESPACES, "bash", "-c", 'ip link set lo up && exec "$@"', "bash"]
# scripts/verify runs this process. Checks that only measure run then.
VERIFYING = bool(os.environ.get("DECART_VERIFY"))


def measured(name, value, unit, at_most=None, at_least=None):
    """Prints a figure and its bound, which scripts/verify compares: repeatedly, on an idle machine. scripts/test runs wherever
    a developer is, beside other work, so no figure makes a check fail. Returns whether it is within the bound."""
    relation, bound = ("<=", at_most) if at_least is None else (">=", at_least)
    print(f"measured {name}: {value:.4g} {unit} {relation} {bound:g}", flush=True)
    return value <= bound if at_least is None else value >= bound


class Problem(Exception):
    """Makes a check fail; its text is the whole reason."""


class Results:
    """Prints "ok TOPIC: NAME", "ok TOPIC: NAME: figures", "not ok TOPIC: NAME: why" or "skip TOPIC: why"."""

    def __init__(self, topic):
        self.topic = topic
        self.failed = False

    def __call__(self, name, why="", figures=""):
        self.failed = self.failed or bool(why)
        end = f": {figures}" if figures else ""
        if why:
            why = "; ".join(map(str, why)) if isinstance(why, list) else str(why)
            end = f": {' '.join(why.split())[:600]}"
        # A single write, because several threads print.
        print(f"{'not ok' if why else 'ok'} {self.topic}: {name}{end}\n", end="", flush=True)

    def skip(self, why):
        print(f"skip {self.topic}: {why}\n", end="", flush=True)

    def require(self, *files):
        """Ends this process if one of the built files is missing."""
        for file in files:
            if not os.path.exists(file):
                self(os.path.basename(file), f"{file} does not exist")
                sys.exit(1)

    def perform(self, name, part, *arguments):
        """Runs a part, which prints its results itself. An exception must not hide the other parts."""
        try:
            part(*arguments)
        except Exception as error:
            self(name, error if isinstance(error, Problem) else f"{type(error).__name__}: {error}")


def lacking(*programs):
    """Programs that are not installed, or the permission to create namespaces."""
    missing = [program for program in ("unshare", "ip", *programs) if not shutil.which(program)]
    if not missing and subprocess.run([*NAMESPACES_UP, "true"], capture_output=True, check=False).returncode:
        missing = ["permission to create namespaces"]
    return ", ".join(missing)


def read(path):
    """The text of a file."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def swift_sources(*folders):
    """The text of each Swift file in folders of the repository."""
    for folder in folders:
        for path, _, files in os.walk(f"{REPO}/{folder}"):
            yield from (read(f"{path}/{file}") for file in sorted(files) if file.endswith(".swift"))


def output_of(*command, **options):
    """What a program prints that must end well."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, **options).stdout


def compile_c(source, program, *options, packages=("gstreamer-1.0",)):
    """Returns the path of the program."""
    flags = output_of("pkg-config", "--cflags", "--libs", *packages).split()
    subprocess.run(["cc", "-std=gnu11", *options, "-o", program, source, *flags], check=True)
    return program


def system_path(folder):
    """A value for GST_PLUGIN_SYSTEM_PATH_1_0, in the order of pipelines/env.sh, which explains it. A folder below `folder` then
    contains only the plugin."""
    system = output_of("pkg-config", "--variable=pluginsdir", "gstreamer-1.0").strip()
    folders = []
    for name, file in (("plugins-bad", os.path.join(system, "libgstgeometrictransform.so")), ("plugins", PLUGIN)):
        folders.append(os.path.join(folder, name))
        os.makedirs(folders[-1], exist_ok=True)
        # Several threads of a check may share a folder.
        with contextlib.suppress(FileExistsError):
            os.symlink(file, os.path.join(folders[-1], os.path.basename(file)))
    return ":".join([*folders, system])


def registry(folder):
    """A value for GST_REGISTRY_1_0: a file in `folder`. It begins as the registry that scripts/test has filled, as a scan of
    all plugins takes seconds."""
    path, filled = os.path.join(folder, "registry"), os.environ.get("GST_REGISTRY_1_0", "")
    if os.environ.get("DECART_TEST_RUN") and os.path.exists(filled) and not os.path.exists(path):
        # Complete at once, since a process of another thread may read it.
        copy = f"{path}.{threading.get_ident()}"
        shutil.copy(filled, copy)
        os.replace(copy, path)
    return path


def gstreamer(folder, base=()):
    """Environment variables for GStreamer with the plugin, added to `base`. Their files are in `folder`."""
    return dict(base, GST_REGISTRY_1_0=registry(folder), GST_PLUGIN_SYSTEM_PATH_1_0=system_path(folder))


def clean_environment(folder):
    """Our environment without a developer's settings for GStreamer and the element."""
    return gstreamer(folder, {name: value for name, value in os.environ.items() if not name.startswith(("GST_", "DECART_"))})


def wait_until(what, condition, seconds=60):
    """The first true value of the condition."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise Problem(f"waited {seconds} s for {what}")
        time.sleep(0.05)
    return found


def start_xvfb(size, log=subprocess.DEVNULL):
    """Returns the process and its display, empty if it fails. It chooses a free display and writes its number when the display
    is ready. Without -noreset it resets when its last client disconnects, at which moment the next client may connect."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", f"{size}x24", "-noreset", "-nolisten", "tcp"],
        pass_fds=[writing], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    os.close(writing)
    with os.fdopen(reading) as file:
        return process, file.readline().strip()


def processor_time(process):
    """Seconds."""
    fields = read(f"/proc/{process.pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end_process(process, seconds=60):
    """Terminates a process, and kills it if that takes long. Returns its status."""
    process.terminate()
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
