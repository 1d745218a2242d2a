"""Rows in which Chromium judges ICE restarts: as a client of the stand-in, and as the service of our element. They run
under scripts/verify only, because they take a browser's CPU."""

import json
import os
import shutil
import subprocess
import time

import netlab
from session import REPO, Client, Failed, Skipped, StandIn, row

PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "browser_peer.py")
PYTHON = os.environ.get("DECART_TEST_PYTHON", os.path.join(REPO, ".build", "venv", "bin", "python"))


def start(run, namespace, *arguments):
    if not shutil.which("chromium"):
        raise Skipped("chromium is not installed")
    with open(os.path.join(run.folder, "browser.log"), "ab") as log:
        return run.lab.start(namespace, [PYTHON, PEER, *arguments], stdout=subprocess.PIPE, stderr=log, text=True)


@row("browser restarts ICE", 30, "Chromium, a client of the stand-in, restarts ICE twice", measures=True)
def browser_restarts(run):
    run.network()
    run.standin = StandIn(run, "--allow-browser")
    browser = start(run, run.lab.client, "client",
                    f"ws://{netlab.SERVER}:{netlab.PORT}/v1/stream?api_key=x&model=lucy-restyle-2")
    out, _ = browser.communicate(timeout=60)
    if not out:
        raise Failed("Chromium did not finish")
    report = json.loads(out)
    rounds = report["rounds"]
    run.note(f"frames decoded: {[each['frames'] for each in rounds]}")
    run.expect(len({each["ufrag"] for each in rounds}) == 3 and len({each["remote"] for each in rounds}) == 3,
               f"credentials were not renewed: {rounds}")
    run.expect(len({each["fingerprint"] for each in rounds}) == 1, "the certificate changed")
    run.expect(all(each["dtls"] == "connected" for each in rounds), f"DTLS: {rounds}")
    run.expect(all(max(each["pixel"]) - min(each["pixel"]) < 12 for each in rounds), f"a frame is not grey: {rounds}")
    # Twenty frames a second for 3 s, but for those that wait for a restart.
    run.expect(all(after["frames"] - before["frames"] > 50 for before, after in zip(rounds, rounds[1:])),
               f"frames were lost: {[each['frames'] for each in rounds]}")
    run.expect(report["ended"] is None and report["state"] in ("connected", "completed"), f"{report}")
    sessions = run.standin.sessions
    run.expect(len(sessions) == 1, f"{len(sessions)} sessions")


@row("browser answers an ICE restart", 40, "our element restarts ICE with Chromium as the service", measures=True)
def browser_answers(run):
    run.network()
    service = start(run, run.lab.server, "service", netlab.SERVER, str(netlab.PORT))
    if service.stdout.readline().strip() != "listening":
        raise Failed("Chromium did not start")
    run.client = client = Client(run)
    first = client.frame(seconds=20)
    time.sleep(2)
    session, since = client.session(), time.monotonic()
    run.lab.drop("meta l4proto udp")
    time.sleep(4)
    run.lab.heal()
    healed = time.monotonic()
    # Chromium's own congestion control sends little after such an outage.
    run.measure("frames after the return", client.frame(healed).time - healed, 5)
    time.sleep(4)
    run.expect(client.session() == session, "another session")
    run.expect(len([each for each in client.frames if each.is_new and each.time > healed]) > 10, "too few frames")
    service.kill()
    offers = [json.loads(line) for line in service.stdout.read().splitlines()]
    run.note(f"{len(offers)} offers")
    run.expect(len(offers) >= 2, "no ICE restart was offered")
    run.expect(len({each["ufrag"] for each in offers}) == len(offers), "an offer repeats its credentials")
    run.expect(len({each["fingerprint"] for each in offers}) == 1, "the certificate changed")
    run.expect(first.time < since, "no frame before the fault")
    run.dialled(1)
