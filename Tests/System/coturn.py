"""coturn as STUN and TURN server of a check."""

import contextlib
import os
import shutil
import socket
import time

INSTALLED = shutil.which("turnserver")
# RFC 8489: the type, no attributes, the magic cookie; a transaction ID follows.
BINDING_REQUEST = b"\x00\x01\x00\x00\x21\x12\xa4\x42"


def command(folder, address, user, *options):
    """The command of a server on port 3478. `user` is NAME:PASSWORD; its files are in `folder`."""
    return [INSTALLED, "-n", "-L", address, "-E", address, "-p", "3478", "--min-port", "50000", "--max-port", "50200",
            "--relay-threads", "1", "-a", "-u", user, "-r", "example.org", "--no-cli", "--no-dtls", "--no-rfc5780", "-l", "stdout",
            "--pidfile", os.path.join(folder, "turn.pid"), "-b", os.path.join(folder, "turn.db"), *options]


def wait(address, seconds=60):
    """Waits until the server answers. It listens before: creating its database takes 44 calls of fsync."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, contextlib.suppress(OSError):
            client.settimeout(0.2)
            client.connect((address, 3478))
            client.send(BINDING_REQUEST + os.urandom(12))
            client.recv(1500)
            return
        time.sleep(0.05)
    raise RuntimeError("the TURN server does not answer")
