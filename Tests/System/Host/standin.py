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
