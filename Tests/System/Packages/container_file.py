#!/usr/bin/python3
"""Does what the container files say in fresh systems of Debian 13, and runs a session by their entry points.

For scripts/verify, with the packages that check_packages.py has built. Prints "ok NAME", "not ok NAME: why" or "skip NAME:
why". Needs root, debootstrap and Debian's mirror.
"""

import glob
import json
import os
import re
import shutil

from check_packages import HOME, RELEASE, REPO, RESULTS, Failed, System, in_fresh_system, read, report

# A session of the exporter's entry point with a stand-in, as the image's user: /health and the metrics, until it generates.
EXPORTER = """
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
# A session of decart-check with the stand-in of the image, once it listens.
STANDIN = """
setpriv --reuid {user} --regid {group} --clear-groups env {environment} {entry} --quiet &
for attempt in $(seq 60); do
    DECART_API_KEY=x {home}/decart-check --base-url ws://127.0.0.1:9001 && break
    sleep 1
done
"""
# Folder of the file, the program that is not in the image, the session, and what it prints.
FILES = [
    ("pipelines/examples/metrics", "decart-standin", EXPORTER, "^generates healthy"),
    ("pipelines/pytest", "decart-check", STANDIN, "^Everything that was tried works"),
]


def steps(folder):
    """(instruction, rest of the line) of the folder's file."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", read(f"{folder}/Containerfile"), flags=re.M))
    return [tuple(line.split(None, 1)) for line in text.splitlines()]


def build(system, place):
    """Returns the values of the instructions that the entry point needs."""
    found = {}
    for instruction, text in steps(place):
        found[instruction] = text
        if instruction == "COPY":
            *sources, target = text.split()
            for source in sources:
                paths = glob.glob(f"{place}/{source}") or glob.glob(f"{RESULTS}/{source}")
                if len(paths) != 1:
                    raise Failed(f"COPY {source}: {len(paths)} files")
                shutil.copy(paths[0], system.folder + target)
        elif instruction == "RUN":
            system.must(text, network=True, limit=600, where="/")
    return found


def check(folder):
    for number, (place, program, session, wanted) in enumerate(FILES):
        os.mkdir(f"{folder}/{number}")
        system = System("trixie", f"{folder}/{number}")
        found = build(system, f"{REPO}/{place}")
        name = f"Containerfile of {place}"
        report(f"{name}: its lines run in Debian 13", "" if ":trixie" in found["FROM"] else found["FROM"])
        shutil.copy(f"{RELEASE}/{program}", system.folder + HOME)
        user, group = found["USER"].split(":")
        output = system.must(session.format(home=HOME, user=user, group=group, environment=found["ENV"],
                                            entry=" ".join(json.loads(found["ENTRYPOINT"]))), limit=120)
        report(f"{name}: its entry point runs a session", "" if re.search(wanted, output, re.M) else output[-400:])


if __name__ == "__main__":
    in_fresh_system("container files", check)
