#!/usr/bin/python3
"""Checks the control endpoint of the stand-in with a real pipeline: wait, record, journal, reset, restart.

Prints "ok NAME" or "not ok NAME: why". Uses loopback only.
"""

import concurrent.futures
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from checks import NAMESPACES_UP, Results, end_process, gstreamer, lacking, measured
from standin import ControlledStandIn, start_standin, tell

LIMIT = 60  # s, for every wait
report = Results("control")


class StandIn(ControlledStandIn):
    def ask(self, path, method="GET", body=None, status=200, timeout=2 * LIMIT):
        """The JSON of the answer, which has this status."""
        request = urllib.request.Request(self.control + path, data=body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                got, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            got, text = error.code, error.read()
        if got != status:
            raise AssertionError(f"{method} {path}: HTTP {got}: {text[:300]}")
        return json.loads(text)

    def wait(self, status=200, **conditions):
        return self.ask(f"/control/wait?{urllib.parse.urlencode(conditions)}", status=status)["session"]


@contextlib.contextmanager
def pipeline(server, prompt, buffers=-1):
    process = subprocess.Popen(
        ["gst-launch-1.0", "-q", "videotestsrc", "is-live=true", f"num-buffers={buffers}", "!",
         "video/x-raw,width=320,height=176,framerate=20/1", "!", "decarttransform", f"base-url={server.url}", "api-key=secret-key",
         f"prompt={prompt}", "transport=webrtc", "!", "fakesink", "sync=false"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        end_process(process)


def observe():
    with StandIn() as server:
        health = server.ask("/health")
        report("health", "" if health["status"] == "ok" and health["port"] == int(server.url.rsplit(":", 1)[1]) else health)
        begun = time.monotonic()
        late = server.wait(status=408, state="open", timeout=0.3)
        took = time.monotonic() - begun
        report("a wait ends at its timeout", "" if late is None and took >= 0.3 else f"{late} after {took:.2f} s")
        measured("control: a wait with a timeout of 0.3 s", took, "s", at_most=5)
        with pipeline(server, "lego secret"):
            record = server.wait(state="generating", look="lego", frames=20, timeout=LIMIT)
            expected = {"look": "mosaic", "transport": "webrtc", "width": 1280, "height": 704, "codec": "VP8", "prompts": 1,
                        "refusals": 0, "malformed": 0, "offered_before_state": False, "model": "lucy-restyle-2"}
            wrong = {key: record.get(key) for key, value in expected.items() if record.get(key) != value}
            report("the record has the session's facts", wrong)
            report("frames are counted by look", "" if record["frames_by_look"].get("mosaic", 0) >= 20 else record["frames_by_look"])
            # Bitrates exist from the second measurement on.
            deadline = time.monotonic() + LIMIT
            while not (record["bitrate_in"] and record["bitrate_out"]) and time.monotonic() < deadline:
                record = server.wait(session=record["id"], frames=record["frames_out"] + 5, timeout=LIMIT)
            report("bitrates are measured", "" if record["bitrate_in"] and record["bitrate_out"] else record)
        ended = server.wait(session=record["id"], state="closed", timeout=LIMIT)
        entries = server.ask(f"/control/journal?session={record['id']}")["entries"]
        kinds = [each["type"] for each in entries]
        report("the journal has the session from its opening to its end",
               "" if {"opened", "prompt", "prompt_ack", "offer", "answer", "generation_started", "closed"} <= set(kinds) else kinds)
        text = json.dumps([server.ask("/control/sessions"), entries])
        found = [word for word in ("secret", "ice-pwd:a", "sha-256") if word in text]
        passwords = [each for each in entries if "ice-pwd" in json.dumps(each) and "<redacted>" not in json.dumps(each)]
        report("neither records nor journal have a secret", found or passwords)
        report("times of the journal rise",
               "" if sorted(each["at_ms"] for each in entries) == [each["at_ms"] for each in entries] else entries)
        measured("control: the journal's last time beyond the age of the session", entries[-1]["at_ms"] - ended["age_ms"], "ms",
                 at_most=1000)
        forgotten = server.ask("/control/sessions", "DELETE")
        report("ended sessions are forgotten", "" if forgotten == {"forgotten": 1, "open": 0}
               and not server.ask("/control/sessions")["sessions"] and not server.ask("/control/journal")["entries"] else forgotten)
        error = server.ask("/control/wait?frames=many", status=400)["error"]
        report("a mistake is explained in JSON", "" if "frames" in error else error)
    with StandIn("--show-prompts") as server, pipeline(server, "noir words"):
        record = server.wait(prompt="noir words", look="noir", timeout=LIMIT)
        report("--show-prompts shows prompts", "" if record["prompt_texts"] == ["noir words"] else record)


def restart():
    with StandIn() as server, pipeline(server, "lego"):
        first = server.wait(state="generating", frames=10, timeout=LIMIT)
        tell(server.control, "faults", b"refuse:for=1")
        tell(server.control, f"close?session={first['id']}&code=1012")
        server.wait(session=first["id"], state="closed", timeout=LIMIT)
        second = server.wait(state="generating", frames=10, timeout=LIMIT)
        report("the pipeline came back after the restart", "" if second["number"] > first["number"] else [first, second])


def listen_beside_others():
    """Runs in namespaces of its own, where the kernel selects one of three ports. Others have two of them at ::1."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w", encoding="ascii") as ports:
        ports.write("50000 50002")
    with contextlib.ExitStack() as others:
        for port in (50001, 50002):
            others.enter_context(socket.socket(socket.AF_INET6)).bind(("::1", port))
        process, url = start_standin(stderr=None)
        end_process(process)
        print(url)


def select_port():
    if missing := lacking():
        return report.skip(f"no {missing}")
    run = subprocess.run([*NAMESPACES_UP, sys.executable, __file__, "--listen"], capture_output=True, text=True, timeout=LIMIT,
                         stdin=subprocess.DEVNULL, check=False)
    report("--port 0 selects a port that is free at 127.0.0.1 and ::1",
           "" if run.stdout.strip() == "ws://127.0.0.1:50000" else run.stdout + run.stderr)


def main():
    if sys.argv[1:] == ["--listen"]:
        return listen_beside_others()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(gstreamer(folder))
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(report.perform, ("sessions are observed", "the service restarts", "the port"),
                          (observe, restart, select_port)))
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
