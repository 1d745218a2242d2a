#!/usr/bin/python3
"""Does what pipelines/examples/metrics/Containerfile says in a fresh Debian 13, and runs a session by its entry point.

For scripts/verify, with the packages that check_packages.py has built. Prints "ok NAME", "not ok NAME: why" or "skip NAME:
why". Needs root, debootstrap and Debian's mirror.
"""

import glob
import json
import re
import shutil

from check_packages import HOME, RELEASE, REPO, RESULTS, Failed, System, in_fresh_system, read, report

EXAMPLE = f"{REPO}/pipelines/examples/metrics"
# A session of the entry point with a stand-in, as the image's user: /health and the metrics, until it generates.
SESSION = """
{home}/decart-standin --quiet &
DECART_API_KEY=x setpriv --reuid {user} --regid {group} --clear-groups env {environment} {entry} --base-url ws://127.0.0.1:9001 &
python3 - <<'END'
import time, urllib.request
def get(path):
    try:
        return urllib.request.urlopen("http://127.0.0.1:9464" + path, timeout=5).read().decode()
    except OSError:
        return ""
end = time.monotonic() + 60
while 'state="generating"}} 1.0' not in get("/metrics") and time.monotonic() < end:
    time.sleep(0.5)
print("generates" if 'state="generating"}} 1.0' in get("/metrics") else "does not generate", get("/health"))
END
"""


def steps():
    """(instruction, rest of the line) of the file."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", read(f"{EXAMPLE}/Containerfile"), flags=re.M))
    return [tuple(line.split(None, 1)) for line in text.splitlines()]


def build(system):
    """Returns the values of the instructions that the entry point needs."""
    found = {}
    for instruction, text in steps():
        found[instruction] = text
        if instruction == "COPY":
            *sources, target = text.split()
            for source in sources:
                paths = glob.glob(f"{EXAMPLE}/{source}") or glob.glob(f"{RESULTS}/{source}")
                if len(paths) != 1:
                    raise Failed(f"COPY {source}: {len(paths)} files")
                shutil.copy(paths[0], system.folder + target)
        elif instruction == "RUN":
            system.must(text, network=True, limit=600, where="/")
    return found


def check(folder):
    system = System("trixie", folder)
    found = build(system)
    report("Containerfile: its lines run in Debian 13", "" if ":trixie" in found["FROM"] else found["FROM"])
    shutil.copy(f"{RELEASE}/decart-standin", folder + HOME)
    user, group = found["USER"].split(":")
    output = system.must(SESSION.format(home=HOME, user=user, group=group, environment=found["ENV"],
                                        entry=" ".join(json.loads(found["ENTRYPOINT"]))), limit=120)
    report("Containerfile: the entry point generates, and is healthy",
                         "" if "generates healthy" in output else output[-400:])


if __name__ == "__main__":
    in_fresh_system("Containerfile", check)
