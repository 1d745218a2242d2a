"""Starts the built stand-in for a check."""

import os
import subprocess


def start_standin(release, *options):
    """Returns the process and its URL, once it listens. The caller ends the process."""
    process = subprocess.Popen([os.path.join(release, "decart-standin"), "--port", "0", *options],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        for word in line.split():
            if word.startswith("ws://"):
                return process, word.rstrip(".,")
    raise RuntimeError("the stand-in names no address")


class ControlledStandIn:
    """The built stand-in with its control endpoint, and with `--web` its page. The caller closes it."""

    def __init__(self, release, *options):
        self.process = subprocess.Popen(
            [os.path.join(release, "decart-standin"), "--port", "0", "--control", "0", "--quiet", *options],
            stdout=subprocess.PIPE, text=True)
        self.url, self.control = self.address(), self.address()
        self.page = self.address() if "--web" in options else None

    def address(self):
        """The last word of the next line."""
        return self.process.stdout.readline().split()[-1]

    def close(self):
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()
