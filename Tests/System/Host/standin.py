"""Starts the built stand-in for a check."""

import contextlib
import json
import subprocess
import urllib.request

from checks import STANDIN, end_process


def start_standin(*options, port=0, **more):
    """Returns the process and its URL, once it listens. The caller ends the process."""
    process = subprocess.Popen([STANDIN, "--port", str(port), *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               **{"stderr": subprocess.DEVNULL, "text": True, **more})
    line = process.stdout.readline().split()
    if not line:
        end_process(process)
        raise RuntimeError("the stand-in does not start")
    return process, line[-1]


def tell(control, path, body=b"", method="POST"):
    """Sends a request to a control endpoint, and returns the text of the answer."""
    request = urllib.request.Request(f"{control}/control/{path}", data=body, method=method)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read().decode()


def sessions(control):
    return json.loads(tell(control, "sessions", None, "GET"))["sessions"]


@contextlib.contextmanager
def running_standin(*options, **more):
    """The URL of a stand-in, which ends with the block."""
    process, url = start_standin(*options, **more)
    try:
        yield url
    finally:
        end_process(process)


class ControlledStandIn:
    """The built stand-in with its control endpoint, and with `--web` its page. It ends with the block, or by `close`."""

    def __init__(self, *options):
        self.process, self.url = start_standin("--control", "0", "--quiet", *options, stderr=None)
        self.control = self.address()
        self.page = self.address() if "--web" in options else None

    def address(self):
        """The last word of the next line."""
        return self.process.stdout.readline().split()[-1]

    def close(self):
        end_process(self.process)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
