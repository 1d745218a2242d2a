"""A peer of this folder in a process of its own."""

import json
import os
import queue
import subprocess
import sys
import threading

LIMIT = 90  # s, for every wait


class PeerProcess:
    def __init__(self, script, *arguments, environment=None, python=sys.executable):
        self.process = subprocess.Popen(
            [python, os.path.join(os.path.dirname(os.path.abspath(__file__)), script), *arguments,
             "--lifetime", str(4 * LIMIT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment)
        self.stats = queue.Queue()
        self.state = "new"
        self.errors = []

    def start(self, handle):
        """Passes on what it says of descriptions, candidates, frames and errors. Keeps statistics, state and errors."""
        threading.Thread(target=self.read, args=(handle,), daemon=True).start()

    def read(self, handle):
        for line in self.process.stdout:
            message = json.loads(line)
            if message["type"] == "stats":
                self.stats.put(message)
            elif message["type"] == "state":
                self.state = message["connectionState"]
            elif message["type"] == "error":
                self.errors.append(message["message"])
                handle(message)
            else:
                handle(message)

    def send(self, message):
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
        except (BrokenPipeError, ValueError):
            pass

    def request_stats(self):
        self.send({"type": "stats"})
        return self.stats.get(timeout=LIMIT)

    def quit(self):
        self.send({"type": "quit"})
        try:
            return self.process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "killed"


def near(colour, wanted):
    return colour is not None and all(abs(one - other) < 25 for one, other in zip(colour, wanted))
