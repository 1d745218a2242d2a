#!/usr/bin/python3
"""Chromium in the stand-in's rooms: a client with two connections, as livekit-client is one, written in room_client.js.

    check_room_page.py [WORD...]

Prints "ok NAME", "not ok NAME: why" or "skip NAME: why". Uses loopback only. Needs the package chromium. Runs under
scripts/verify (DECART_VERIFY=1), because it takes a browser's CPU, or with words: those rows whose name contains one.
"""

import http.server
import json
import os
import sys
import threading

import chromium
from checks import VERIFYING, Results, measured
from standin import StandIn

SIZE = (640, 352)
# Chromium sends no third layer of smaller frames.
LAYERS_SIZE = (960, 544)
LIMIT = 90  # s, for every wait
FULL = 2  # s
report = Results("room page")
CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "room_client.js")

# Name, codec, further options of the client, and those of the stand-in.
ROWS = [
    ("VP8", "vp8", {}, []),
    ("H.264", "h264", {}, []),
    ("VP9", "vp9", {}, []),
    ("a service of another codec", "vp8", {}, ["--server-codec", "h264"]),
    ("simulcast q;h;f", "vp8", {"simulcast": True}, []),
    ("simulcast of H.264", "h264", {"simulcast": True}, []),
    ("RED", "vp8", {"red": True}, []),
]
# How a generation comes back, and whether that is another stream.
RESTARTS = [("same", None), ("republish", True), ("new_sid", True), ("new_mid", None)]
SHOWS = "room.shown().then(each => String(each.size) === String([{size}]) && each.isGrey && each.full && each)"


class Page(http.server.BaseHTTPRequestHandler):
    """An empty page: browsers let one of this machine connect to this machine."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><body>")

    def log_message(self, *_):
        pass


def size(options):
    return LAYERS_SIZE if options.get("simulcast") else SIZE


def shows(browser, options):
    """Waits until frames of the full size and of the look's colour are on the screen."""
    try:
        return browser.until(SHOWS.format(size="%d, %d" % size(options)), LIMIT), ""
    except TimeoutError:
        return None, f"not shown: {browser.call('room.shown()')}"


def join(browser, standin, codec, options):
    browser.open(browser.page)
    browser.until("document.body && location.protocol === 'http:'")
    with open(CLIENT, encoding="utf-8") as file:
        script = file.read()
    url = f"{standin.url}/v1/stream?api_key=x&model=lucy-restyle-2&livekit_early_room_info=true"
    width, height = size(options)
    browser.call(f"({script})({json.dumps({'url': url, 'codec': codec, 'width': width, 'height': height, **options})})", LIMIT)


def row(browser, name, codec, options, words):
    standin = StandIn("--allow-browser", "--transport", "livekit", *words)
    try:
        join(browser, standin, codec, options)
        shown, why = shows(browser, options)
        report(f"{name}: the picture is there at its full size", why)
        if not shown:
            return
        returned = words[-1] if words else codec
        report(f"{name}: the codecs", "" if (shown["codec"], shown["sentCodec"]) == (f"video/{returned.upper()}", f"video/{codec.upper()}")
               else shown)
        measured(f"room page: {name}: full size after the offer", shown["full"] / 1000, "s", at_most=FULL)
        if options.get("simulcast"):
            report(f"{name}: three layers are offered", "" if sorted(shown["layers"]) == ["f", "h", "q"] else shown)
        if options.get("red"):
            heard = "room.shown().then(each => each.audioLevel > 0.01 && each)"
            sound = browser.until(heard, LIMIT)
            report(f"{name}: the tone returns", "" if sound["sentAudioCodec"] == "red" else sound)
    except (TimeoutError, RuntimeError) as error:
        report(name, f"{type(error).__name__}: {error}: {browser.call('window.room?.shown()')}")
    finally:
        standin.close()


def requests(browser):
    """A page may ask for client tokens and rooms to watch; without CORS a browser shows it no answer."""
    standin = StandIn("--transport", "livekit")
    try:
        browser.open(browser.page)
        browser.until("document.body && location.protocol === 'http:'")
        ask = ("fetch('{url}{path}', {{method: 'POST', headers: {{'x-api-key': 'x', 'content-type': 'application/json'}}, body: '{{}}'}})"
               ".then(async answer => [answer.status, await answer.text()]).catch(error => [0, String(error)])")
        url = standin.url.replace("ws", "http", 1)
        status, text = browser.call(ask.format(url=url, path="/v1/client/tokens"), LIMIT)
        report("a page gets a client token", "" if status == 200 and '"ek_' in text else f"{status}: {text}")
        status, text = browser.call(ask.format(url=url, path="/watch-stream/unknown"), LIMIT)
        report("a page reads why a room cannot be watched", "" if status == 404 and text else f"{status}: {text}")
    finally:
        standin.close()


def restarts(browser):
    """Each restart of the generation shows frames again, whichever way its output returns."""
    standin = StandIn("--allow-browser", "--transport", "livekit")
    try:
        join(browser, standin, "vp8", {})
        shown, why = shows(browser, {})
        if not shown:
            return report("the generation restarts", why)
        for output, is_other in RESTARTS:
            before = browser.call("room.shown()")
            ended = standin.sessions[-1]
            standin.inject(f"generation_restart:at=0,delay=1,output={output}")
            # The count of another stream's frames begins anew.
            other = "" if is_other is None else f" && each.ssrc !== {before['ssrc']}"
            again = (f"room.shown().then(each => each.size[0] === {SIZE[0]} && each.isGrey && each.closed === undefined{other}"
                     f" && (each.ssrc !== {before['ssrc']} || each.frames > {before['frames']} + 40) && each.frames > 20 && each)")
            try:
                after = browser.until(again, LIMIT)
                report(f"the generation restarts as {output}: shown again",
                       after.get("error", ""))
            except TimeoutError:
                report(f"the generation restarts as {output}: shown again",
                       f"{browser.call('room.shown()')} after {before}, {ended}")
    finally:
        standin.close()


def main():
    words = sys.argv[1:]
    if not VERIFYING and not words:
        return report.skip("a room in a browser: scripts/verify runs it, because it takes a browser's CPU")
    if not chromium.PROGRAM:
        return report.skip("a room in a browser: chromium is not installed")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = chromium.Chromium()
    browser.page = f"http://127.0.0.1:{server.server_port}/"
    try:
        for name, codec, options, standin in ROWS:
            if not words or any(word in name for word in words):
                row(browser, name, codec, options, standin)
        for name, body in (("generation restarts", restarts), ("requests", requests)):
            if not words or any(word in name for word in words):
                body(browser)
    except Exception as error:
        report("a room in a browser", f"{type(error).__name__}: {error}")
    finally:
        browser.close()
        server.shutdown()
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
