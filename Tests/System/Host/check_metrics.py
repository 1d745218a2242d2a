#!/usr/bin/python3
"""Checks the example of metrics: exporter, alert rules, health check and systemd unit.

    check_metrics.py            two sessions against a stand-in, promtool's checks, systemd-analyze verify
    check_metrics.py --full     also: Prometheus scrapes 16 sessions for a minute; the stand-in is killed, an alert fires;
                                the stand-in returns, the alert heals. Prints a table. So does DECART_VERIFY=1

Prints "ok NAME", "not ok NAME: why" or "skip NAME: why". Uses loopback only.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from checks import (
    PLUGIN, REPO, VERIFYING, Problem, Results, clean_environment, end_process, measured, output_of, processor_time, read,
    wait_until as wait, write)
from standin import start_standin

EXAMPLE = os.path.join(REPO, "pipelines", "examples", "metrics")
LIMIT = 60  # s, for every wait
SESSIONS = 16
MINUTE = 60  # s, for --full

report = Results("metrics")


def tool(name, *command, **options):
    """Reports whether a command succeeds."""
    result = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, timeout=200, check=False, **options)
    output = result.stdout + result.stderr
    report(name, "" if result.returncode == 0 else output or f"status {result.returncode}")


def fetch(url):
    with urllib.request.urlopen(url, timeout=LIMIT) as response:
        return response.read().decode()


def parse(text):
    """{(metric, labels): value} of an exposition; labels are a frozenset of (name, value)."""
    values = {}
    for line in text.splitlines():
        if match := re.match(r"(\w+)(?:\{(.*)\})? (\S+)$", line):
            values[match[1], frozenset(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))] = float(match[3])
    return values


def series(values, name, **labels):
    return [value for (metric, found), value in values.items() if metric == name and labels.items() <= dict(found).items()]


class Run:
    """A stand-in and an exporter with sessions, whose watchdog reports go to a socket of ours."""

    def __init__(self, folder, sessions, options="", *more):
        self.folder = folder
        self.sessions = sessions
        self.processes = []
        self.url = self.start_standin()
        self.watchdog = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.watchdog.bind(os.path.join(folder, "notify"))
        self.watchdog.setblocking(False)
        environment = {**clean_environment(folder), "DECART_API_KEY": "x", "NOTIFY_SOCKET": os.path.join(folder, "notify")}
        self.log = os.path.join(folder, "exporter.log")
        with open(self.log, "wb") as log:
            self.exporter = subprocess.Popen(
                [os.path.join(EXAMPLE, "exporter.py"), "--sessions", str(sessions), "--port", "0", "--base-url", self.url,
                 "--options", f"model=any width=320 height=176 framerate=10 {options}", *more],
                stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True, env=environment)
        self.processes.append(self.exporter)
        self.address = self.exporter.stdout.readline().strip()
        if not self.address:
            raise Problem(f"the exporter does not start: {self.errors()}")

    def start_standin(self, port=0):
        self.standin, url = start_standin("--quiet", "--control", "0", port=port)
        self.processes.append(self.standin)
        self.control = self.standin.stdout.readline().split()[-1]
        return url

    def ticks(self):
        """Seconds that the stand-in has billed."""
        return sum(session["ticks"] for session in json.loads(fetch(f"{self.control}/control/sessions"))["sessions"])

    def errors(self):
        return read(self.log)[-400:]

    def metrics(self):
        return parse(fetch(f"{self.address}/metrics"))

    def generating(self):
        return sum(series(self.metrics(), "decart_state", state="generating"))

    def reports(self):
        found = []
        while True:
            try:
                found.append(self.watchdog.recv(200).decode())
            except BlockingIOError:
                return found

    def close(self):
        for process in reversed(self.processes):
            end_process(process)
        self.watchdog.close()


# --- In the suite -----------------------------------------------------------------------------------------------------

def dashboard():
    """The expressions of the dashboard."""
    panels = json.loads(read(os.path.join(EXAMPLE, "dashboard.json")))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def check_files():
    # YAML takes JSON.
    rules = [{"record": f"panel_{number}", "expr": expression} for number, expression in enumerate(dashboard())]
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
        file.flush()
        tool("promtool takes the expressions of the dashboard", "promtool", "check", "rules", file.name)
    tool("promtool check rules", "promtool", "check", "rules", "alerts.yml")
    tool("promtool test rules", "promtool", "test", "rules", "alerts_test.yml")
    tool("promtool check config", "promtool", "check", "config", "prometheus.yml")
    if shutil.which("systemd-analyze"):
        tool("systemd-analyze verify", "systemd-analyze", "verify", "./decart-graph.service")
        template = re.search(r"^```ini\n(.*?)^```$", read(os.path.join(REPO, "docs", "GUIDE.md")), re.M | re.S)[1]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "decart@front.service")
            write(path, template)
            tool("systemd-analyze verify: the template unit of docs/GUIDE.md", "systemd-analyze", "verify", path)
    else:
        report.skip("systemd-analyze verify: not installed")
    check_kubernetes()


def check_kubernetes():
    """The schemas of Kubernetes take its files, whose probes and options exporter.py has."""
    names = ("kubernetes.yml", "kubernetes-autoscaler.yml", "Containerfile")
    texts = [read(os.path.join(EXAMPLE, name)) for name in names]
    manual = output_of(os.path.join(EXAMPLE, "exporter.py"), "--help")
    used = set(re.findall(r"^ *- (--[\w-]+)=", texts[0], re.M)) | set(re.findall(r'"(--[\w-]+)"', texts[2]))
    report("exporter.py has the options of the pod", [option for option in used if f"  {option} " not in manual] or not used and "none")
    probes = re.findall(r"httpGet: \{path: (\S+),", texts[0])
    report("the probes ask /health", "" if probes == ["/health"] * 2 else probes)
    if not (python := os.environ.get("DECART_TEST_PYTHON")):
        report.skip("kubernetes-validate: no virtual environment")
        return
    validate = [python, "-m", "kubernetes_validate", "--strict"]
    tool("kubernetes-validate takes the files", *validate, *names[:2])
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write(texts[0].replace("livenessProbe", "livelinessProbe"))
        file.flush()
        wrong = subprocess.run([*validate, file.name], capture_output=True, text=True, timeout=200, check=False)
    report("it refuses another field", "" if wrong.returncode and "livelinessProbe" in wrong.stderr + wrong.stdout else wrong.stdout)


def check_refusal():
    """Nothing is sent to a service that bills it unless it is named."""
    result = subprocess.run([os.path.join(EXAMPLE, "exporter.py"), "--base-url", "wss://192.0.2.1", "--source", ""],
                            capture_output=True, text=True, timeout=LIMIT, check=False)
    report("no test pattern goes to another machine", "" if result.returncode == 2 and "--source" in result.stderr
           else f"status {result.returncode}: {result.stderr}")


def check_exporter(folder):
    with contextlib.closing(Run(folder, 2)) as run:
        wait("two sessions", lambda: run.generating() == 2)
        first = run.metrics()
        counters = ("decart_frames_in_total", "decart_frames_sent_total", "decart_frames_received_total",
                    "decart_sent_bytes_total", "decart_encode_seconds_total")

        def stuck(values):
            return [name for name in counters if len(series(values, name)) != 2
                    or not all(new > old for new, old in zip(series(values, name), series(first, name)))]

        def lacking(values):
            """Metrics that do not name the codec of both sessions yet."""
            return [name for name in ("decart_frames_received_total", "decart_target_bytes_per_second", "decart_connect_seconds")
                    if len(series(values, name, codec="H264") + series(values, name, codec="VP8")) != 2]

        end = time.monotonic() + LIMIT
        while stuck(values := parse(text := fetch(f"{run.address}/metrics"))) + lacking(values) and time.monotonic() < end:
            time.sleep(0.2)
        tool("promtool check metrics", "promtool", "check", "metrics", input=text)
        report("each session has one state", "" if [sum(series(values, "decart_state", session=session))
                                                    for session in ("0", "1")] == [1, 1] else "not one")
        report("the counters of both sessions rise", stuck(values) or "")
        report("the label codec names the codec", lacking(values) or "")
        used = set(re.findall(r"decart_\w+", read(os.path.join(EXAMPLE, "alerts.yml"))))
        # No receiver report may have arrived yet.
        exported = {name for name, _ in values} | set(re.findall(r"^# TYPE (\w+)", text, re.M))
        used |= set(re.findall(r"decart_\w+", " ".join(dashboard())))
        used |= set(re.findall(r"seriesQuery: '(\w+)", read(os.path.join(EXAMPLE, "kubernetes-autoscaler.yml"))))
        report("alerts, dashboard and autoscaler use metrics that exist", sorted(used - exported) or "")
        quality = [dict(labels)["quality"] for name, labels in values if name == "decart_connection_quality"]
        report("each session has one quality", "" if len(quality) == 2 else quality or "none")
        manual = set(re.findall(r"`(decart_\w+)`", read(os.path.join(EXAMPLE, "README.md"))))
        report("README.md lists metrics that exist", sorted(manual - exported) or "")
        report("/health responds", "" if fetch(f"{run.address}/health") == "healthy\n" else "not healthy")
        reports, end = run.reports(), time.monotonic() + LIMIT
        while "WATCHDOG=1" not in reports and time.monotonic() < end:
            time.sleep(0.2)
            reports += run.reports()
        report("the watchdog gets its reports", "" if reports[:1] == ["READY=1"] and "WATCHDOG=1" in reports else reports)
        run.exporter.send_signal(signal.SIGTERM)
        status = run.exporter.wait(timeout=LIMIT)
        report("the exporter ends on SIGTERM", "" if status == 0 else f"status {status}: {run.errors()}")


def check_error(folder):
    """A session that fails: nothing listens at its URL."""
    with contextlib.closing(Run(folder, 1, "base-url=ws://127.0.0.1:9 max-retries=0")) as run:
        wait("the error", lambda: series(run.metrics(), "decart_state", state="error") == [1])
        found = [dict(labels).get("code") for name, labels in run.metrics() if name == "decart_last_error_code"]
        report("the code of the ERROR is a metric", "" if found == ["NETWORK_ERROR"] else found or "none")
        wait("status 503 of /health", lambda: is_unhealthy(run))
        report("a session that has ended with an error fails the health check")


def is_unhealthy(run):
    try:
        return not fetch(f"{run.address}/health")
    except urllib.error.HTTPError as error:
        return error.code == 503


def check_source(folder):
    """A source that fails after some frames."""
    source = "videotestsrc is-live=true ! video/x-raw,width=320,height=176,framerate=10/1 ! identity error-after=60"
    with contextlib.closing(Run(folder, 1, "", "--source", source)) as run:
        wait("frames", lambda: sum(series(run.metrics(), "decart_frames_out_total")) > 0)
        wait("status 503 of /health", lambda: is_unhealthy(run))
        report("a source that fails fails the health check")


# --- In full ----------------------------------------------------------------------------------------------------------

class Prometheus:
    def __init__(self, folder, run):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        text = read(os.path.join(EXAMPLE, "prometheus.yml")).replace("127.0.0.1:9464", run.address.removeprefix("http://"))
        text = text.replace("alerts.yml", os.path.join(EXAMPLE, "alerts.yml"))
        # Scrapes each second, to time what happens.
        text = re.sub(r"_interval: 5s", "_interval: 1s", text)
        path = os.path.join(folder, "prometheus.yml")
        write(path, text)
        self.address = f"http://127.0.0.1:{port}"
        with open(os.path.join(folder, "prometheus.log"), "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={folder}/tsdb",
                 f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        run.processes.append(self.process)
        wait("Prometheus", self.is_ready)

    def is_ready(self):
        try:
            return fetch(f"{self.address}/-/ready")
        except (urllib.error.URLError, ConnectionError):
            return False

    def query(self, expression):
        answer = json.loads(fetch(f"{self.address}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))
        return [result["value"][1] if "value" in result else [value for _, value in result["values"]]
                for result in answer["data"]["result"]]

    def firing(self):
        alerts = json.loads(fetch(f"{self.address}/api/v1/alerts"))["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


def check_full(folder):
    rows = []
    with contextlib.closing(Run(folder, SESSIONS, "max-retry-delay=2")) as run:
        prometheus = Prometheus(folder, run)
        wait("all sessions", lambda: run.generating() == SESSIONS, 60)
        wait("the first scrape", lambda: prometheus.query('up{job="decart"}'))
        begun, used = time.monotonic(), processor_time(run.exporter)
        before = run.metrics()
        time.sleep(MINUTE)
        seconds, used = time.monotonic() - begun, processor_time(run.exporter) - used
        after, ticks = run.metrics(), run.ticks()
        measured("metrics: billed seconds of all sessions beside the stand-in's ticks",
                 abs(sum(series(after, "decart_generation_seconds_total")) - ticks), "s", at_most=SESSIONS)
        size = len(fetch(f"{run.address}/metrics"))
        durations = [float(value) for value in prometheus.query('scrape_duration_seconds{job="decart"}[1m]')[0]]
        ups = prometheus.query('up{job="decart"}[1m]')[0]
        received = [new - old for new, old in zip(series(after, "decart_frames_received_total"),
                                                  series(before, "decart_frames_received_total"))]
        rows += [
            ("sessions, 320x176 at 10 frames a second", str(SESSIONS)),
            ("scrapes in the last minute, failed", f"{len(ups)}, {ups.count('0')}"),
            ("duration of a scrape, ms: median (largest)",
             f"{statistics.median(durations) * 1000:.1f} ({max(durations) * 1000:.1f})"),
            ("series, size of a scrape", f"{len(after)}, {size / 1024:.0f} KiB"),
            ("frames received by a session, per second: smallest–largest",
             f"{min(received) / seconds:.1f}–{max(received) / seconds:.1f}"),
            ("CPU time of the exporter with its sessions, seconds a minute", f"{used / seconds * 60:.1f}"),
        ]
        report(f"{SESSIONS} sessions are scraped for a minute", "" if ups and "0" not in ups else ups)
        measured("metrics: scrapes in a minute", len(ups), "scrapes", at_least=51)
        measured("metrics: received by the slowest session", min(received) / seconds, "frames/s", at_least=9)
        report("no alert fires", sorted(prometheus.firing()) or "")

        run.standin.kill()
        run.standin.wait()
        killed = time.monotonic()
        wait("the alert", lambda: "DecartServiceDown" in prometheus.firing(), 3 * LIMIT)
        rows.append(("stand-in killed until DecartServiceDown fires (`for: 10s`)", f"{time.monotonic() - killed:.1f} s"))
        report("an alert fires when the stand-in is killed")
        healthy = fetch(f"{run.address}/-/healthy") == "healthy\n"
        report("the graph stays healthy meanwhile", "" if healthy else "not healthy")
        run.start_standin(run.url.rpartition(":")[2])
        started = time.monotonic()
        wait("all sessions again", lambda: run.generating() == SESSIONS, 60)
        rows.append(("stand-in started until all sessions generate", f"{time.monotonic() - started:.1f} s"))
        wait("the end of the alert", lambda: "DecartServiceDown" not in prometheus.firing(), 60)
        rows.append(("stand-in started until the alert has ended", f"{time.monotonic() - started:.1f} s"))
        report("the alert heals when the stand-in returns")
        final = run.metrics()
        fallen = [key[0] for key, value in after.items() if key[0].endswith("_total") and final.get(key, 0) < value]
        report("no counter falls", sorted(set(fallen)) or "")
        reconnects = series(final, "decart_reconnects_total")
        report("each session counts one reconnect", "" if set(reconnects) == {1} else reconnects)
    print("\n| | |\n|---|---|")
    for row in rows:
        print(f"| {row[0]} | {row[1]} |")


def check_stall(folder):
    """With fallback=none an outage stops the frames, as a graph that hangs would."""
    with contextlib.closing(Run(folder, 2, "fallback=none")) as run:
        wait("two sessions", lambda: run.generating() == 2)
        run.standin.kill()
        run.standin.wait()
        wait("status 503 of /health", lambda: is_unhealthy(run))
        run.reports()
        time.sleep(3)
        report("a graph without frames fails the health check", run.reports() and "the watchdog still gets reports")


def main():
    report.require(PLUGIN)
    # The interpreter of the example, with the packages of the system.
    modules = subprocess.run(["/usr/bin/python3", "-c", "import gi, prometheus_client"], capture_output=True, check=False)
    missing = ["python3-gi or python3-prometheus-client"] if modules.returncode != 0 else []
    missing += [name for name in ("prometheus", "promtool") if not shutil.which(name)]
    if missing:
        report.skip(f"not installed: {', '.join(missing)}")
        return
    check_files()
    check_refusal()
    with tempfile.TemporaryDirectory(prefix="decart-metrics-") as folder:
        full = [check_stall, check_full] if VERIFYING or "--full" in sys.argv[1:] else []
        for part in [check_exporter, check_error, check_source, *full]:
            report.perform("runs", part, tempfile.mkdtemp(dir=folder))
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
