"""A headless Chromium with one page, driven by its debugging protocol over a pipe."""

import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium")
# What Chromium says about an expression whose page is replaced before its value is known.
GONE = "Inspected target navigated or closed"


class Chromium:
    def __init__(self, *options):
        self.folder = tempfile.mkdtemp(prefix="decart-chromium-")
        self.numbers = itertools.count(1)
        self.rest = b""
        # Events by method, for the caller.
        self.events = []
        to_child, self.writer = os.pipe()
        self.reader, from_child = os.pipe()
        # Chromium reads descriptor 3 and writes descriptor 4.
        script = f'exec 3<&{to_child} 4>&{from_child}; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "chromium", PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", "--no-first-run", "--disable-features=WebRtcHideLocalIpsWithMdns",
             "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", "--autoplay-policy=no-user-gesture-required",
             f"--user-data-dir={self.folder}", *options, "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(to_child, from_child))
        os.close(to_child)
        os.close(from_child)
        self.session = None
        targets = self.command("Target.getTargets")["targetInfos"]
        page = next(each for each in targets if each["type"] == "page")
        self.session = self.command("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")

    def command(self, method, timeout=180, **parameters):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self, deadline):
        while b"\0" not in self.rest:
            if not select.select([self.reader], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            data = os.read(self.reader, 1 << 20)
            if not data:
                raise RuntimeError("Chromium has ended")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, url):
        """Returns when the page before is gone, so that nothing is asked of that one."""
        self.call("window.isLeft = true")
        self.command("Page.navigate", url=url)
        self.until("!window.isLeft")

    def call(self, expression, timeout=180):
        """The value of a JavaScript expression; waits for a promise."""
        result = self.command("Runtime.evaluate", timeout=timeout, expression=expression, awaitPromise=True, returnByValue=True,
                              userGesture=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:500])
        return result["result"].get("value")

    def until(self, expression, seconds=90):
        """Waits until the expression is true, and returns it; raises TimeoutError. A page may be replaced meanwhile."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if value := self.call(expression):
                    return value
            except RuntimeError as error:
                if GONE not in str(error):
                    raise
            if time.monotonic() > deadline:
                raise TimeoutError(f"not true within {seconds} s: {expression}")
            time.sleep(0.05)

    def console_errors(self):
        """Errors and warnings of the console, and exceptions, so far."""
        self.call("0")
        found = []
        for event in self.events:
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(parameters["exceptionDetails"])[:300])
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(parameters["args"])[:300])
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        return found

    def requested_hosts(self):
        """Hosts and ports of all requests so far."""
        urls = [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        urls += [event["params"]["url"] for event in self.events if event["method"] == "Network.webSocketCreated"]
        return {url.split("/")[2] for url in urls if "://" in url}

    def view(self, width, height, dark=False):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        # Scrollbars take a part of the width here, but not on a small screen.
        self.command("Emulation.setScrollbarsHidden", hidden=True)
        self.command("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.writer)
        os.close(self.reader)
        shutil.rmtree(self.folder, ignore_errors=True)
