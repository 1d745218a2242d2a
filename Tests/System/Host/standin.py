"""Starts the built stand-in for a check: alone, or with its control port by the class that the wheel for pytest has."""

import contextlib
import os
import subprocess
import sys

from checks import REPO, STANDIN, end_process

sys.path.append(os.path.join(REPO, "pipelines", "pytest"))
os.environ["DECART_STANDIN"] = STANDIN
from decart_standin import StandIn  # noqa: E402, F401


def start_standin(*options, port=0, **more):
    """Returns the process and its URL, once it listens. The caller ends the process."""
    process = subprocess.Popen([STANDIN, "--port", str(port), *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               **{"stderr": subprocess.DEVNULL, "text": True, **more})
    line = process.stdout.readline().split()
    if not line:
        end_process(process)
        raise RuntimeError("the stand-in does not start")
    return process, line[-1]


@contextlib.contextmanager
def running_standin(*options, **more):
    """The URL of a stand-in, which ends with the block."""
    process, url = start_standin(*options, **more)
    try:
        yield url
    finally:
        end_process(process)
