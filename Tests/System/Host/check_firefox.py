#!/usr/bin/python3
"""Checks the stand-in with Firefox as a client: prompt, video in both directions, and two ICE restarts.

The page (browser_client.js) posts its report, so that Firefox needs no driver. Runs in a network namespace without a way
out. Prints "ok NAME", "not ok NAME: why" or "skip NAME: why".
"""

import contextlib
import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from checks import Results, read
from standin import StandIn

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Peers"))
from check_rooms import ADDRESS, LIMIT, enter_namespace  # noqa: E402

PREFERENCES = {"media.peerconnection.ice.obfuscate_host_addresses": False, "media.autoplay.default": 0}
PAGE = """<!DOCTYPE html><title>client</title><script>
const client = %s;
const post = report => fetch('/', {method: 'POST', body: JSON.stringify(report)});
client(%s).then(post, error => post({error: `${error}`}));
</script>"""


def serve(page, reports):
    """Serves the page, and puts what it posts into the queue. Returns the server."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self, body):
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.answer(page.encode() if self.path == "/" else b"")

        def do_POST(self):
            reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer(b"")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@contextlib.contextmanager
def firefox(url):
    with tempfile.TemporaryDirectory(prefix="decart-firefox-", ignore_cleanup_errors=True) as profile:
        with open(os.path.join(profile, "user.js"), "w", encoding="utf-8") as file:
            file.writelines(f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items())
        process = subprocess.Popen(["firefox-esr", "--headless", "--no-remote", "--profile", profile, url],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, "HOME": profile}, start_new_session=True)
        try:
            yield
        finally:
            # Its other processes may outlive it for a moment, which scripts/test would notice.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            end = time.monotonic() + LIMIT
            with contextlib.suppress(ProcessLookupError):
                while time.monotonic() < end:
                    os.killpg(process.pid, signal.SIGKILL)
                    time.sleep(0.05)


def problem(report, sessions):
    rounds = report.get("rounds", [])
    if report.get("ended") is not None or len(rounds) != 3 or report["state"] not in ("connected", "completed"):
        return f"{report}"
    if len({each["ufrag"] for each in rounds}) < 3 or len({each["remote"] for each in rounds}) < 3:
        return f"credentials were not renewed: {rounds}"
    if len({each["fingerprint"] for each in rounds}) != 1 or any(each["dtls"] != "connected" for each in rounds):
        return f"DTLS: {rounds}"
    if any(max(each["pixel"]) - min(each["pixel"]) > 12 for each in rounds):
        return f"a frame is not grey: {rounds}"
    return "" if len(sessions) == 1 and sessions[0]["codec"] else f"sessions: {sessions}"


def main():
    report = Results("firefox")
    if not shutil.which("firefox-esr"):
        return report.skip("firefox-esr is not installed")
    if (trouble := enter_namespace()):
        return report.skip(f"no network namespace: {trouble}")
    # A page gets the address of the default route only.
    subprocess.run(["ip", "route", "add", "default", "dev", "room0"], check=True)
    standin = StandIn("--host", ADDRESS, "--allow-browser")
    reports = queue.Queue()
    try:
        options = {"url": f"{standin.url}/v1/stream?api_key=x&model=lucy-restyle-2", "pause": 0}
        client = read(os.path.join(os.path.dirname(os.path.abspath(__file__)), "browser_client.js"))
        server = serve(PAGE % (client, json.dumps(options)), reports)
        with firefox(f"http://127.0.0.1:{server.server_port}/"):
            posted = reports.get(timeout=2 * LIMIT)
            why = problem(posted, standin.sessions)
    except queue.Empty:
        why = f"the page does not report within {2 * LIMIT} s"
    finally:
        standin.close()
    report("video, a prompt and two ICE restarts", why)
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
