"""A camera for a check: a WebRTC peer in a process of its own, and a WHEP server in front of such peers."""

import http.server
import os
import queue
import re
import sys
import threading
import time

from checks import REPO

sys.path.append(f"{REPO}/Tests/System/Peers")
from peer_process import LIMIT, PeerProcess  # noqa: E402

COLOUR = (0x28, 0x78, 0xc8)


def peer_python():
    """The Python with aiortc, or None."""
    python = os.environ.get("DECART_TEST_PYTHON", os.path.join(REPO, ".build", "venv", "bin", "python"))
    return python if os.path.exists(python) else None


class Camera(PeerProcess):
    """A peer that answers one offer with video and, with `tone`, audio. A busy machine takes longer to start it than an
    element waits for an answer, so request its statistics before."""

    def __init__(self, *options, kind="aiortc", codec="h264"):
        super().__init__(f"{kind}_peer.py", "answer", codec, "--direction", "sendonly", "--size", "320x176", "--fps", "15",
                         "--address", "127.0.0.1", "--balanced", *options, python=peer_python())
        self.lines = queue.Queue()
        self.start(self.lines.put)

    def wait(self, kind):
        """The next line of this kind."""
        while (line := self.lines.get(timeout=LIMIT))["type"] != kind:
            if line["type"] == "error":
                raise RuntimeError(line["message"])
        return line

    def answer(self, offer):
        self.send({"type": "offer", "sdp": offer})
        return self.wait("answer")["sdp"]

    def hears(self, condition, seconds=60):
        """Waits for statistics that fulfil the condition; returns the last ones, or None."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            stats = self.request_stats()
            if condition(stats):
                return stats
            time.sleep(0.1)
        return None

    def candidates(self):
        """The candidates of a peer that trickles; None ends them."""
        while (line := self.wait("candidate")["candidate"]) is not None:
            yield line
        yield None

    def end(self):
        """Closes the connection as a camera does that is switched off."""
        self.send({"type": "quit"})

    def kill(self):
        self.process.kill()
        self.process.wait()


class WHEPServer:
    """Answers offers by `on_offer(number, offer)`, which returns a status, a status with body and header fields, or an
    answer. Records the requests. With `authorization`, requests need this header field."""

    authorization = None

    def __init__(self, on_offer):
        self.on_offer = on_offer
        self.requests = []
        self.changed = threading.Condition()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def respond(self, status, body="", **headers):
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name.replace("_", "-"), value)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body.encode())
                except OSError:
                    pass

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                with owner.changed:
                    owner.requests.append((self.command, self.path, dict(self.headers), body))
                    number = len(owner.offers())
                    owner.changed.notify_all()
                if owner.authorization and self.headers.get("Authorization") != owner.authorization:
                    return self.respond(401, WWW_Authenticate='Basic realm="camera"')
                if self.command != "POST":
                    return self.respond(204)
                if self.path.startswith("/moved"):
                    return self.respond(307, Location="/cameras/front/whep?key=canary-query")
                answer = owner.on_offer(number, body)
                if isinstance(answer, int):
                    return self.respond(answer)
                if isinstance(answer, tuple):
                    return self.respond(answer[0], answer[1], **answer[2])
                return self.respond(201, answer, Content_Type="application/sdp", ETag='"tag-1"',
                                    Location=f"../resources/{number}?secret=1")

            do_POST = do_PATCH = do_DELETE = handle_any

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def named(self, method):
        return [request for request in self.requests if request[0] == method]

    def offers(self):
        return [request for request in self.named("POST") if not request[1].startswith("/moved")]

    def wait(self, condition, seconds=60):
        with self.changed:
            return self.changed.wait_for(lambda: condition(self), seconds)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def codecs(sdp):
    """Encoding names of the video codecs."""
    return set(re.findall(r"^a=rtpmap:\d+ (H264|VP8|VP9)/90000\r?$", sdp, re.M))


def directions(sdp):
    """Kind and direction of each m-line."""
    return [(section.split(" ")[0], (re.findall(r"^a=(sendrecv|sendonly|recvonly|inactive)\r?$", section, re.M) or [""])[0])
            for section in re.split(r"^m=", sdp, flags=re.M)[1:]]
