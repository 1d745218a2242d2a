#!/usr/bin/python3
"""Build the packages, install them in fresh systems of Debian 12 and 13, and type the documents' lines there.

    check_packages.py                  what scripts/test checks: debian/rules, and pytest's fixture with the existing build
    DECART_VERIFY=1 check_packages.py  also the packages

Prints "ok NAME", "not ok NAME: why" or "skip NAME: why". The packages need root, debootstrap and Debian's mirror.
.build/chroots keeps the base systems for a week and the downloaded packages. Each command runs in namespaces of its own, which end with their processes and mounts; only installations have a network
besides loopback.
"""

import contextlib
import glob
import hashlib
import importlib.machinery
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Host"))
from checks import RELEASE, REPO, VERIFYING, Problem, Results, measured, output_of, read, swift_sources, write  # noqa: E402

CACHE = f"{REPO}/.build/chroots"
RESULTS = f"{REPO}/.build/packages"
MIRROR = "http://deb.debian.org/debian"
RELEASES = {"bookworm": "Debian 12", "trixie": "Debian 13"}
OURS = ("gstreamer1.0-decart", "decart-check", "decart-standin")
DOCUMENTED = ("gstreamer1.0-decart", "decart-standin")
# What the README's line installs with apt's default settings, beside a minimal Debian.
PACKAGES, MEGABYTES = 320, 800
FRAMES, SECONDS = 100, 15
PYTEST_SECONDS = 60
REGISTRIES = 20
# The folder where the commands are typed.
HOME = "/home"
HANG = 300  # s, for commands that are timed
report = Results("packages")


def documents_module():
    loader = importlib.machinery.SourceFileLoader("documents", f"{REPO}/debian/documents")
    sys.dont_write_bytecode = True
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("documents", loader))
    loader.exec_module(module)
    return module


DOCUMENTS = documents_module()


class Failed(Exception):
    """The system cannot be checked further."""


class Unreachable(Failed):
    """Debian's mirror does not answer, which says nothing about the packages."""


# --- A system ----------------------------------------------------------------------------------------------------------

# $1: the folder, $2: the folder of downloaded packages, $3: the command, $4: the home of its user. The mounts are in a namespace of their own.
ENTER = """
set -e
mount -t proc proc "$1/proc"
if [ -n "$2" ]; then mount --bind "$2" "$1/var/cache/apt/archives"; else ip link set lo up; fi
exec chroot "$1" /usr/bin/env -i HOME=$4 LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \\
    DEBIAN_FRONTEND=noninteractive bash -c "$3"
"""


class System:
    def __init__(self, release, folder):
        self.release, self.folder = release, folder
        subprocess.run(["tar", "-C", folder, "-xf", base_system(release)], check=True, timeout=120)
        for path, text in [
            ("usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n"),
            # The README's lines are a user's, who is not root and answers yes.
            ("usr/local/bin/sudo", '#!/bin/sh\nexec "$@"\n'),
            ("etc/apt/apt.conf.d/99check", 'APT::Install-Recommends "false";\nAPT::Get::Assume-Yes "true";\n'
             'Dpkg::Use-Pty "false";\nAPT::Keep-Downloaded-Packages "true";\nAPT::Sandbox::User "root";\n'
             'Binary::apt::APT::Keep-Downloaded-Packages "true";\n'),
        ]:
            write(f"{folder}/{path}", text)
            os.chmod(f"{folder}/{path}", 0o755)
        shutil.copy("/etc/resolv.conf", f"{folder}/etc/resolv.conf")

    def run(self, command, network=False, limit=60, where=HOME):
        """Runs a command and returns its status and its output."""
        archives = f"{CACHE}/archives-{self.release}" if network else ""
        if archives:
            os.makedirs(f"{archives}/partial", exist_ok=True)
        spaces = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--ipc"]
        child = subprocess.Popen(
            ["unshare", *spaces, *([] if network else ["--net"]), "bash", "-c", ENTER, "enter", self.folder, archives,
             f"cd {where}\n{command}", HOME],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        try:
            output, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return None, f"not done within {limit} s"
        return child.returncode, output

    def must(self, command, **options):
        status, output = self.run(command, **options)
        if status != 0:
            raise Failed(f"{self.release}: {command.splitlines()[0]}: status {status}: {output[-300:]}")
        return output

    def files(self):
        """All files of the system but logs, caches of apt, and temporary ones."""
        found = set()
        for where, folders, files in os.walk(self.folder):
            inside = where[len(self.folder):]
            if inside == "":
                folders[:] = [name for name in folders if name not in ("proc", "sys", "dev", "run", "tmp", HOME[1:])]
            elif inside == "/var":
                folders[:] = [name for name in folders if name not in ("log", "cache", "tmp")]
            elif inside == "/var/lib":
                folders[:] = [name for name in folders if name != "apt"]
            found.update(f"{inside}/{name}" for name in [*folders, *files])
        return found


def base_system(release):
    """A tar archive of a minimal Debian, at most a week old."""
    archive = f"{CACHE}/{release}.tar"
    if not os.path.exists(archive) or time.time() - os.path.getmtime(archive) > 7 * 86400:
        os.makedirs(CACHE, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            # The mounts of a run that is ended do not stay in the folder.
            result = subprocess.run(["unshare", "--mount", "--propagation", "private", "debootstrap", "--variant=minbase",
                                     release, f"{folder}/system", MIRROR], capture_output=True, text=True, timeout=400)
            if result.returncode != 0 and re.search("Failed getting release file|Couldn't download", result.stdout):
                raise Unreachable(f"{MIRROR} does not answer")
            if result.returncode != 0:
                raise Failed(f"debootstrap {release}: {(result.stdout + result.stderr)[-300:]}")
            subprocess.run(["tar", "-C", f"{folder}/system", "-cf", f"{folder}/tar", "."], check=True, timeout=120)
            os.rename(f"{folder}/tar", archive)
    return archive


def in_fresh_system(name, perform, report=report):
    """Calls `perform` with a folder for a system."""
    if os.geteuid() != 0 or not shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin"):
        report.skip(f"{name}: needs root and debootstrap")
        sys.exit()
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    with tempfile.TemporaryDirectory(prefix="decart-system-") as folder:
        os.chmod(folder, 0o755)
        try:
            perform(folder)
        except Unreachable as error:
            report.skip(f"{name}: {error}")
        except (Failed, Problem, subprocess.SubprocessError) as error:
            report(name, error)
    sys.exit(report.failed)


# --- What is checked ---------------------------------------------------------------------------------------------------

def readme_lines():
    """The two blocks of commands in the README's section "Install packages": the installation, and the first use."""
    section = re.search(r"^## Install packages$(.*?)^## ", read(f"{REPO}/README.md"), re.M | re.S)
    blocks = re.findall(r"^```sh\n(.*?)^```$", section[1] if section else "", re.M | re.S)
    if len(blocks) != 2:
        raise Failed(f"the README's section \"Install packages\" has {len(blocks)} blocks of commands instead of 2")
    return blocks


def transformed_frames(video):
    """How many frames of the file are new, grey and not black: neither an input frame nor a fallback frame is so."""
    player = subprocess.Popen(
        ["gst-launch-1.0", "-q", "filesrc", f"location={video}", "!", "avidemux", "!", "jpegdec", "!", "videoconvert",
         "!", "video/x-raw,format=I420", "!", "y4menc", "!", "fdsink"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    header = re.match(rb"YUV4MPEG2 .*\bW(\d+) H(\d+) ", player.stdout.readline())
    if not header:
        player.kill()
        player.wait(10)
        return 0
    luma = int(header[1]) * int(header[2])
    chroma = luma // 2
    count, last = 0, None
    while player.stdout.readline() == b"FRAME\n" and len(frame := player.stdout.read(luma + chroma)) == luma + chroma:
        colour = frame[luma:].translate(None, bytes(range(122, 135)))
        digest = hashlib.sha1(frame).digest()
        if len(colour) < chroma / 1000 and max(frame[:luma]) > 60 and digest != last:
            count += 1
        last = digest
    player.wait(10)
    return count


def check_weight(system, title, install):
    """How many packages the README's line installs, and how large they are, with Recommends as apt's default has them."""
    _, output = system.run(install.replace("apt install", "apt-get -o APT::Install-Recommends=true "
                                           "-o APT::Get::Assume-Yes=false --assume-no install"), network=True)
    count = re.search(r"(\d+) newly installed", output)
    size = re.search(r"After this operation, ([\d,.]+) ([kMG])B of additional", output)
    if not count or not size:
        return report(f"{title}: apt says what it would install", output[-300:])
    megabytes = float(size[1].replace(",", "")) * {"k": 0.001, "M": 1, "G": 1000}[size[2]]
    measured(f"packages: {title}: packages with apt's default settings", int(count[1]), "packages", at_most=PACKAGES)
    measured(f"packages: {title}: size with apt's default settings", megabytes, "MB", at_most=MEGABYTES)


def check_use(system, title, debs, commit):
    """The README's lines: frames within the time, nothing of Swift, and nothing left after a purge."""
    install, use = readme_lines()
    for deb in debs:
        shutil.copy(deb, f"{system.folder}{HOME}")
    report(f"{title}: no Swift before the installation",
          glob.glob(f"{system.folder}/usr/**/*swift*", recursive=True))
    system.must("apt-get -qq update", network=True, limit=120)
    check_weight(system, title, install)
    system.must(install, network=True, limit=300)
    system.must("apt-get -qq install ./decart-check_*.deb", network=True, limit=120)
    before = system.files()
    walked = time.monotonic()
    status, output = system.run(f"set -e\n{use}", limit=HANG)
    seconds = time.monotonic() - walked
    report(f"{title}: the README's lines run", status and output[-300:])
    count = transformed_frames(f"{system.folder}{HOME}/noir.avi")
    report(f"{title}: the README's lines leave transformed frames", "" if count else "none")
    # A busy machine sends fewer frames.
    measured(f"packages: {title}: transformed frames of the README's lines", count, "frames", at_least=FRAMES)
    measured(f"packages: {title}: README's lines, from the end of the installation", seconds, "s", at_most=SECONDS)
    recommended = system.must("dpkg-query -W -f '${Package}\\n' | grep -E 'gstreamer1.0-(plugins-bad|plugins-ugly|libav)' || true")
    report(f"{title}: no recommended package was needed", recommended)
    linked = system.must("ldd /usr/bin/decart-standin /usr/lib/*/gstreamer-1.0/libgstdecart.so")
    report(f"{title}: nothing links to Swift, and all libraries are found",
          "; ".join(re.findall(r".*(?:swift|Foundation|not found).*", linked)))
    status, inspected = system.run("gst-inspect-1.0 --no-colors decart; decart-standin --version")
    version = re.search(r'DECART_VERSION "(.*)"', open(f"{REPO}/Sources/CRelease/include/CRelease.h").read())[1]
    wanted = [f"gst-decart {version}, commit {commit}", f"decart-standin {version}, commit {commit}"]
    report(f"{title}: plugin and stand-in name version and commit", [text for text in wanted if text not in inspected])
    report(f"{title}: gst-inspect-1.0 shows a release date",
          "" if re.search(r"Source release date +\d{4}-\d\d-\d\d$", inspected, re.M) else inspected)

    shutil.copy(f"{REPO}/debian/tests/session", f"{system.folder}{HOME}")
    status, output = system.run("./session", limit=HANG)
    report(f"{title}: debian/tests/session", status and output[-400:])

    owned = set(system.must(f"dpkg -L {' '.join(OURS)}").split())
    scripts = [name for name in before if re.fullmatch(rf"/var/lib/dpkg/info/({'|'.join(map(re.escape, OURS))})\."
                                                       r"(preinst|postinst|prerm|postrm|config|triggers)", name)]
    report(f"{title}: the packages have no scripts", scripts)
    system.must(f"apt-get purge {' '.join(OURS)}", limit=120)
    after = system.files()
    lost = {name for name in before - after if not name.startswith("/var/lib/dpkg/") and name not in owned}
    added = {name for name in after - before if not name.startswith("/var/lib/dpkg/")}
    left = {name for name in after if "decart" in name}
    report(f"{title}: a purge removes the packages' files and no other", sorted(lost | added | left)[:5])
    report(f"{title}: dpkg knows no package of ours after the purge",
          system.must(f"dpkg-query -W {' '.join(OURS)} 2>/dev/null || true"))


# --- The blocks of the documents ----------------------------------------------------------------------------------------

PAGES = ("README.md", "docs/ENCODED.md", "docs/GUIDE.md", "docs/RECIPES.md")
# What apt installs with README's line and its default settings, Recommends among them.
RECOMMENDED = "gstreamer1.0-plugins-ugly gstreamer1.0-libav"
# Seconds that a block has; most have no end.
BLOCK = 8
LACKS = re.compile(r'no element "([\w-]+)"|([\w./-]+): (?:command not found|bad interpreter)|Namespace (\w+) not available|cannot execute: required file|'
                   r"No module named '(\w+)'")
# Debian's packages, as the pages write their names.
NAMED = re.compile(r"`((?:gstreamer1\.0|gir1\.2|lib|python3)-[\w.+-]+|ffmpeg|nginx|janus|nftables|python3|pipewire|wireplumber)`")
STANDIN = "decart-standin >/tmp/standin.log 2>&1 &\nuntil grep -qs 'listening on' /tmp/standin.log; do sleep 0.1; done\n"


def blocks_of(page):
    """Line and text of each block of commands as a user of the packages types it, without the commands marked "not run"."""
    content = DOCUMENTS.without_env(read(f"{REPO}/{page}"))
    for match in re.finditer(r"^```sh( \S[^\n]*)?\n(.*?)^```$", content, re.M | re.S):
        above = content[:match.start()].rstrip("\n").rpartition("\n")[2]
        if "not run" in above:
            continue
        lines = [line for line in match[2].splitlines() if not re.search(r"#.*\bnot run\b", line)]
        text = re.sub(r"(?<![\w/.-])(?:\./)?(pipelines/[\w./-]+\.py)", rf"{DOCUMENTS.INSTALLED}/\1", "\n".join(lines))
        # There is no display.
        text = text.replace("autovideosink", "fakesink").replace("ffplay ", "ffplay -nodisp ")
        if text.strip():
            yield content.count("\n", 0, match.start()) + 2, text


def type_block(system, text):
    """What the block lacks in the system, and its first ERROR if it has one."""
    start = "" if re.search(r"^decart-standin\b", text, re.M) else STANDIN
    write(f"{system.folder}{HOME}/block.sh", f"{start}export DECART_BASE_URL=ws://127.0.0.1:9001 DECART_API_KEY=x\n{text}\n")
    _, output = system.run(f"timeout -s INT -k 5 {BLOCK} bash block.sh 2>&1; true", limit=HANG)
    lacks = sorted({next(filter(None, found.groups()), found[0]) for found in LACKS.finditer(output)})
    error = re.search(r"^ERROR: .*", output, re.M)
    return lacks, error[0] if error else ""


def check_blocks(system, title):
    """Each block of README, ENCODED, GUIDE and RECIPES runs with what README installs, or its page names the packages that it
    needs: with these it does. A block alone, without its server or its file, may fail otherwise."""
    system.must(f"apt-get -qq install {RECOMMENDED}", network=True, limit=300)
    for page in PAGES:
        found = [(line, text, *type_block(system, text)) for line, text in blocks_of(page)]
        lacking = [(line, text, lacks) for line, text, lacks, _ in found if lacks]
        report(f"{title}: {page} has blocks", "" if found else "none", f"{len(found)}, {len(lacking)} need further packages")
        if lacking:
            named = sorted(set(NAMED.findall(read(f"{REPO}/{page}"))))
            for package in named:
                system.run(f"apt-get -qq install {package}", network=True, limit=300)
        after = [(line, *type_block(system, text)) for line, text, _ in lacking]
        report(f"{title}: {page} names the packages that its blocks need", "; ".join(
            f"line {line}: {', '.join(lacks)}" for line, lacks, _ in after if lacks))
        # Recipes whose parts are several blocks are run together by check_recipes.py.
        if page != "docs/RECIPES.md":
            errors = [(line, error) for line, _, lacks, error in found if error and not lacks]
            errors += [(line, error) for line, lacks, error in after if error and not lacks]
            report(f"{title}: the blocks of {page} run", "; ".join(f"line {line}: {error}" for line, error in errors))


def own_tests():
    """The commands of docs/FAULTS.md for pytest, and its sample."""
    section = re.search(r"^## In your own tests$(.*)", read(f"{REPO}/docs/FAULTS.md"), re.M | re.S)
    lines = re.search(r"^```sh\n(.*?)^```$", section[1] if section else "", re.M | re.S)
    sample = re.search(r"^```py\n(.*?)^```$", section[1] if section else "", re.M | re.S)
    if not lines or not sample:
        raise Failed("docs/FAULTS.md has no commands or no sample for pytest")
    return lines[1], sample[1]


def job_problems():
    """Lines of docs/FAULTS.md that a job to copy does not have."""
    install, *others = own_tests()[0].strip().split("\n")
    for path in sorted(glob.glob(f"{REPO}/pipelines/pytest/*.yml")) or ["no job"]:
        job = read(path)
        yield from (f"{os.path.basename(path)}: {line}" for line in [install.removeprefix("apt install "), *others]
                    if not re.search(rf"^ +- (run: )?(apt-get install -y (git )?)?{re.escape(line)}$", job, re.M))


def check_wheel(system, title):
    """The lines of docs/FAULTS.md for pytest, with its sample, and without the packages of this project."""
    lines, sample = own_tests()
    install, use = lines.split("\n", 1)
    system.must("apt-get -qq update", network=True, limit=120)
    system.must(install, network=True, limit=300)
    for wheel in glob.glob(f"{RESULTS}/*.whl"):
        shutil.copy(wheel, f"{system.folder}{HOME}")
    write(f"{system.folder}{HOME}/test_pipeline.py", sample)
    shutil.copy(f"{REPO}/pipelines/pytest/test_sample.py", f"{system.folder}{HOME}")
    begun = time.monotonic()
    status, output = system.run(f"set -e\n{use}", limit=HANG)
    seconds = time.monotonic() - begun
    count = len(re.findall(r"^def test_", sample, re.M))
    report(f"{title}: pip and pytest with the wheel",
          "" if status == 0 and f"{count} passed" in output else f"status {status}: {output[-400:]}")
    measured(f"packages: {title}: pip and pytest with the wheel", seconds, "s", at_most=PYTEST_SECONDS)
    status, output = system.run("venv/bin/python -m pytest test_sample.py", limit=HANG)
    report(f"{title}: the sample tests of pipelines/pytest", "" if status == 0 and "3 passed" in output else output[-400:])
    broken = system.must("sed 's/\"grey\"/\"mosaic\"/' test_pipeline.py >test_broken.py\n"
                         "venv/bin/python -m pytest -k transformed test_broken.py || test $? = 1")
    report(f"{title}: pytest fails if the look is another one", "" if "1 failed" in broken else broken[-300:])


def check_mirror(system, title):
    """Which `mirror` an application gets beside gst-plugins-bad, in fresh registries; half of them with the plugin
    installed again after gst-plugins-bad, so that the files are in another order in the directory."""
    system.must("apt-get -qq install ./gstreamer1.0-decart_*.deb gstreamer1.0-tools gstreamer1.0-plugins-bad",
                network=True, limit=400)
    own = system.must("dirname /usr/lib/*/gst-decart/gstreamer-1.0/libgstdecart.so").strip()
    wrong = {"with": [], "without": []}
    inspect = "gst-inspect-1.0 --no-colors"
    for turn in range(2):
        if turn:
            system.must("dpkg -i gstreamer1.0-decart_*.deb", limit=120)
        output = system.must(
            f"""folder=$(mktemp -d)
            look() {{
                GST_REGISTRY_1_0=$folder/$1 {inspect} mirror 2>&1 | sed -n "s/^ *Filename */$1 /p"
            }}
            for number in $(seq {REGISTRIES // 2}); do
                (look without-$number) & (. /usr/share/gst-decart/env.sh; look with-$number) & wait
            done""", limit=300)
        for way, file in (("with", f"{own}/libgstdecart.so"), ("without", "libgstgeometrictransform.so")):
            lines = re.findall(rf"^{way}-\d+ (.*)$", output, re.M)
            wrong[way] += [line for line in lines if not line.endswith(file)]
            wrong[way] += ["missing"] * (REGISTRIES // 2 - len(lines))
    report(f"{title}: with the folder on the path, mirror is ours in {REGISTRIES} fresh registries", wrong["with"])
    report(f"{title}: without it, mirror is that of gst-plugins-bad in {REGISTRIES} fresh registries", wrong["without"])

    def names(output):
        return sorted(re.findall(r"^  (\w+): ", output, re.M))

    every = ["decartmirror", "decartsrc", "decarttransform", "mirror"]
    plain = names(system.must(f"{inspect} decart"))
    report(f"{title}: in GStreamer's folder, only the name mirror is left out", plain if plain != every[:3] else "")
    source = ". /usr/share/gst-decart/env.sh; export G_DEBUG=fatal-criticals"
    complete = system.must(f"{source}; {inspect} decart")
    report(f"{title}: the plugin on the path is complete",
          "" if names(complete) == every and f"{own}/libgstdecart.so" in complete else complete)
    use = system.must(f"{source}; export GST_DEBUG=GST_PLUGIN_LOADING:4\n"
                      "gst-launch-1.0 videotestsrc num-buffers=2 ! mirror ! decartmirror ! fakesink 2>&1")
    loaded = set(re.findall(r'plugin "(\S*libgstdecart\.so)" loaded', use))
    report(f"{title}: a process that meets both files loads one", loaded if loaded != {f"{own}/libgstdecart.so"} else "")
    system.must(". /usr/share/gst-decart/env.sh; gst-inspect-1.0 mirror")
    again = system.must("touch /usr/lib/*/gstreamer-1.0/libgstgeometrictransform.so\n"
                        f". /usr/share/gst-decart/env.sh; {inspect} mirror")
    report(f"{title}: mirror stays ours after an upgrade of gst-plugins-bad",
          "" if f"{own}/libgstdecart.so" in again else again)
    shell = system.must(f"{inspect} mirror; (. /usr/share/gst-decart/env.sh; {inspect} mirror); {inspect} mirror")
    files = [os.path.basename(name) for name in re.findall(r"^ *Filename +(\S+)", shell, re.M)]
    report(f"{title}: shells with and without the path do not change each other's mirror",
          files if files != ["libgstgeometrictransform.so", "libgstdecart.so", "libgstgeometrictransform.so"] else "")


def hardening_problems(path):
    """What the ELF file lacks."""
    def readelf(option):
        return output_of("readelf", option, "--wide", path)

    wanted = {"BIND_NOW": r"FLAGS.*BIND_NOW", "RELRO": r"GNU_RELRO", "PIE": r"Type: *DYN"}
    found = readelf("-d") + readelf("-l") + readelf("-h")
    return [f"{os.path.basename(path)}: {name}" for name, pattern in wanted.items() if not re.search(pattern, found)]


def tree_problems(documents, folder):
    """Pages that a tree of documents lacks, and dead links of its pages."""
    pages = [os.path.relpath(path, folder) for path in glob.glob(f"{folder}/**/*.md", recursive=True)]
    yield from (page for page in os.listdir(f"{REPO}/docs") if page.endswith(".md") and f"docs/{page}" not in pages)
    yield from (f"{page}: {link}" for page in pages for link in documents.dead_links(folder, page))


def check_contents(debs):
    """What the packages contain beside the programs."""
    fields = {name: output_of("dpkg-deb", "-f", deb, name).strip()
              for deb in debs if "gstreamer1.0-decart" in deb for name in ("GStreamer-Elements", "Homepage", "Section")}
    report("the package names its elements", "" if fields["GStreamer-Elements"] == "decartmirror, decartsrc, decarttransform"
          else fields["GStreamer-Elements"] or "no field")
    report("the package has a section and a homepage", [name for name, value in fields.items() if not value])
    symbols = glob.glob(f"{RESULTS}/debug/*-dbgsym_*.deb")
    report("each package has its symbols in another one", f"{len(symbols)} packages" if len(symbols) != len(debs) else "")
    with tempfile.TemporaryDirectory() as folder:
        for deb in debs:
            subprocess.run(["dpkg-deb", "--extract", deb, folder], check=True, timeout=60)
        programs = glob.glob(f"{folder}/usr/bin/*") + glob.glob(f"{folder}/usr/lib/*/gstreamer-1.0/*.so")
        report("plugin and programs are hardened", [problem for path in programs for problem in hardening_problems(path)]
              or len(programs) != 3 and programs)
        for package in DOCUMENTED:
            tree = f"{folder}/usr/share/doc/{package}"
            report(f"the documents of {package} are complete, without a dead link", list(tree_problems(DOCUMENTS, tree)))
        report("licences", [package for package in OURS if not os.path.exists(f"{folder}/usr/share/doc/{package}/copyright")])
    for wheel in glob.glob(f"{RESULTS}/*.whl"):
        names = zipfile.ZipFile(wheel).namelist()
        report("the wheel has licences", [name for name in ("LICENSE", "copyright")
                                          if not any(path.endswith(f"/{name}") for path in names)])


def check_repeated():
    """Another run gives the same files."""
    def digests():
        return {os.path.basename(path): hashlib.sha256(open(path, "rb").read()).hexdigest()
                for path in glob.glob(f"{RESULTS}/**", recursive=True) if re.search(r"\.(deb|whl|gz)$", path)}

    first = digests()
    subprocess.run([f"{REPO}/scripts/package"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=900)
    second = digests()
    report("two runs of scripts/package give the same files",
          [name for name in {*first, *second} if first.get(name) != second.get(name)])


def check_files(debs):
    lint = subprocess.run(["lintian", "--fail-on", "error", *debs], capture_output=True, text=True, timeout=200)
    report("lintian finds no error", "" if lint.returncode == 0 else
          "; ".join(re.findall(r"^E: .*", lint.stdout, re.M)) or lint.stderr)
    listed = set()
    for deb in debs:
        contents = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True, timeout=60).stdout
        names = subprocess.run(["tar", "-t"], input=contents, capture_output=True, check=True, timeout=60).stdout
        listed |= {name[2:].rstrip("/") for name in names.decode().splitlines()} - {""}
    names = output_of("tar", "-tzf", *glob.glob(f"{RESULTS}/*.tar.gz"))
    report("the tarball has the same files", sorted(listed ^ {name.rstrip("/") for name in names.splitlines()}))


def check_documents():
    """The trees of debian/documents, and the paths in them that are named."""
    with tempfile.TemporaryDirectory() as folder:
        DOCUMENTS.copy(folder)
        report("the packages' documents are complete, without a dead link", list(tree_problems(DOCUMENTS, folder)))
        named = set()
        for text in (*map(read, glob.glob(f"{REPO}/docs/man/*")), *swift_sources("Sources", "Tools")):
            named |= set(re.findall(r"/usr/share/doc/([\w.-]+)((?:/[\w.-]+)*)", text.replace("\\-", "-")))
        report("the documents that help and manual pages name are in the packages", sorted(
            package + path for package, path in named
            if package not in DOCUMENTED or not os.path.exists(folder + path.rstrip(".")))
            if len(named) > 2 else ["found no path"])
    report("no outside Swift package is needed", re.findall(r"\.package\(.*", read(f"{REPO}/Package.swift")))


def check_without_packages():
    """What debian/rules installs is there, and the fixture of pipelines/pytest works with the existing build."""
    rules = read(f"{REPO}/debian/rules")
    built = set(re.findall(r"\$\(RELEASE\)/(\w\S*)", rules))
    report("debian/rules installs programs and plugin", sorted({"decart-check", "decart-standin", "libgstdecart.so"} ^ built))
    report("what debian/rules installs is built", sorted(name for name in built if not os.path.exists(f"{RELEASE}/{name}")))
    check_documents()
    report("each program has a manual page",
          sorted(name for name in built if not name.endswith(".so") and not glob.glob(f"{REPO}/docs/man/{name}*.1")))
    shell = read(f"{REPO}/debian/env.sh.in").replace("@folder@", "/folder")
    shell = subprocess.run(["sh", "-n"], input=shell, capture_output=True, text=True)
    report("debian/env.sh.in is a shell script", shell.stderr)

    report("the jobs of pipelines/pytest type the lines of docs/FAULTS.md", list(job_problems()))

    pythons = [python for python in (sys.executable, shutil.which("python3"), os.environ.get("DECART_TEST_PYTHON"))
               if python and subprocess.run([python, "-c", "import pytest"], capture_output=True).returncode == 0]
    if not pythons:
        report.skip("the fixture for pytest: pytest is not installed")
        return
    with tempfile.TemporaryDirectory(prefix="decart-pytest-") as folder:
        # As the wheel has it.
        shutil.copytree(f"{REPO}/pipelines/pytest", f"{folder}/wheel")
        for name, place in (("decart-standin", "bin"), ("libgstdecart.so", "gstreamer-1.0")):
            os.makedirs(f"{folder}/wheel/decart_standin/{place}")
            os.symlink(f"{RELEASE}/{name}", f"{folder}/wheel/decart_standin/{place}/{name}")
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("GST_PLUGIN") and name not in ("DECART_STANDIN", "DECART_API_KEY")}
        environment["PYTHONPATH"] = f"{folder}/wheel"
        sample = read(f"{REPO}/pipelines/pytest/test_sample.py")
        # Its negative twin: the look is another one.
        write(f"{folder}/test_broken.py", sample.replace('["mosaic"] >= 20', '["mosaic"] < 0'))
        for name, path, wanted in (("the sample tests of pipelines/pytest", f"{folder}/wheel/test_sample.py", "3 passed"),
                                   ("pytest fails if the look is another one", f"{folder}/test_broken.py", "1 failed")):
            try:
                done = subprocess.run([pythons[0], "-m", "pytest", "-p", "decart_standin.plugin", "-p", "no:cacheprovider",
                                       *(["-k", "looks"] if wanted == "1 failed" else []), path],
                                      cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG)
                report(name, "" if wanted in done.stdout else (done.stdout + done.stderr)[-400:])
            except subprocess.TimeoutExpired as error:
                report(name, error)


def main():
    check_without_packages()
    if not VERIFYING:
        sys.exit(report.failed)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    lacking = [tool for tool in ("debootstrap", "lintian", "dpkg-buildpackage", "unshare", "gst-launch-1.0")
               if not shutil.which(tool)]
    if os.geteuid() != 0 or lacking:
        report.skip("not root" if os.geteuid() else f"missing: {', '.join(lacking)}")
        return
    # The folders are removed then too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    commit = output_of("bash", "-c", "set -euo pipefail; source scripts/lib.sh; commit_name", cwd=REPO).strip()
    built = subprocess.run([f"{REPO}/scripts/package"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    report("scripts/package builds them", built.returncode and (built.stdout + built.stderr)[-300:])
    debs = sorted(glob.glob(f"{RESULTS}/*.deb"))
    if built.returncode or not debs:
        sys.exit(1)
    check_files(debs)
    check_contents(debs)
    check_repeated()
    for release, title in RELEASES.items():
        with contextlib.ExitStack() as stack:
            def make_system():
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"decart-{release}-"))
                os.chmod(folder, 0o755)
                return System(release, folder)

            try:
                if release == "bookworm":
                    check_wheel(make_system(), title)
                system = make_system()
                check_use(system, title, debs, commit)
                if release == "bookworm":
                    other = make_system()
                    for deb in debs:
                        shutil.copy(deb, f"{other.folder}{HOME}")
                    other.must("apt-get -qq update", network=True, limit=120)
                    other.must(readme_lines()[0], network=True, limit=300)
                    check_blocks(other, title)
                if release == "bookworm":
                    check_mirror(system, title)
            except Unreachable as error:
                report.skip(f"{title}: {error}")
            except (Failed, subprocess.SubprocessError) as error:
                report(title, error)
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
