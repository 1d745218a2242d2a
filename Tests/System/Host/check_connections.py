#!/usr/bin/python3
"""Connections that end in every way, against the stand-in and against a client of ours: no descriptor is left open, and memory
stays level.

The client is decart-check --record, which opens a connection to a server for each that it accepts; what it keeps of one is a
few lines of its recording. scripts/test makes some hundred connections; under scripts/verify each kind of end has 10,000.

Prints "ok NAME" or "not ok NAME: why", and for scripts/verify the growth. Uses loopback only.
"""

import base64
import concurrent.futures
import contextlib
import hashlib
import http.client
import itertools
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

from certificates import Certificates
from checks import RELEASE, STANDIN, VERIFYING, Problem, Results, clean_environment, measured, wait_until

COUNT = 10_000 if VERIFYING else 12  # connections of each kind
WARM_UP = 2_000 if VERIFYING else 20
TOGETHER = 6
LIMIT = 30  # s, for every wait
KEY = "permanent-key-4f1d9c"
UPGRADE = ("GET {target} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
STREAM = f"/v1/stream?api_key={KEY}&model=lucy-2.6"
CLOSE = b"\x88\x82\0\0\0\0\x03\xe8"


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def drain(connection):
    """Reads to the end, however that is."""
    with contextlib.suppress(OSError):
        while connection.recv(65536):
            pass


class Process:
    """Descriptors and memory of a process."""

    def __init__(self, pid):
        self.pid = pid

    @property
    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    @property
    def memory(self):
        """kB"""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


# --- Ends by a client ------------------------------------------------------------------------------------------------------

class Client:
    def __init__(self, port, secure, authority):
        self.port, self.secure = port, secure
        self.trust = ssl.create_default_context(cafile=authority)
        self.distrust = ssl.create_default_context()

    def plain(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT)

    def raw(self):
        return socket.create_connection(("127.0.0.1", self.secure), timeout=LIMIT)

    def tls(self):
        return self.trust.wrap_socket(self.raw(), server_hostname="localhost", suppress_ragged_eofs=False)

    def upgrade(self, connection):
        connection.sendall(UPGRADE.format(target=STREAM).encode())
        answer = b""
        while b"session_id" not in answer:
            part = connection.recv(65536)
            if not part:
                raise Problem(f"no session: {answer}")
            answer += part
        return connection

    def nothing(self):
        self.plain().close()

    def nothing_reset(self):
        reset(self.plain())

    def head_cut(self):
        with self.plain() as connection:
            connection.sendall(b"POST /v1/client/tokens HTTP/1.1\r\nHo")

    def body_cut(self):
        with self.plain() as connection:
            connection.sendall(b"POST /v1/client/tokens HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")

    def answer(self):
        with self.plain() as connection:
            connection.sendall(f"POST /v1/client/tokens HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {KEY}\r\n\r\n".encode())
            drain(connection)

    def answer_not_read(self):
        connection = self.plain()
        connection.sendall(f"POST /v1/client/tokens HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {KEY}\r\n\r\n".encode())
        reset(connection)

    def close_handshake(self):
        with self.upgrade(self.plain()) as connection:
            connection.sendall(CLOSE)
            drain(connection)

    def frame_cut(self):
        with self.upgrade(self.plain()) as connection:
            connection.sendall(b"\x81\xfe\x10\0\0\0\0\0cut")

    def session_reset(self):
        reset(self.upgrade(self.plain()))

    def violation(self):
        with self.upgrade(self.plain()) as connection:
            connection.sendall(b"\xf1\x80\0\0\0\0")
            drain(connection)

    def hello_cut(self):
        with self.raw() as connection:
            connection.sendall(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(40))

    def no_tls(self):
        with self.raw() as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            drain(connection)

    def alert(self):
        with contextlib.suppress(ssl.SSLError), self.raw() as connection:
            self.distrust.wrap_socket(connection, server_hostname="localhost").close()

    def tls_close_handshake(self):
        with self.upgrade(self.tls()) as connection:
            connection.sendall(CLOSE)
            drain(connection)

    def no_close_notify(self):
        connection = self.upgrade(self.tls())
        socket.socket(fileno=connection.detach()).close()

    def tls_session_reset(self):
        connection = self.upgrade(self.tls())
        reset(socket.socket(fileno=connection.detach()))


PLAIN_ENDS = ["nothing", "nothing_reset", "head_cut", "body_cut", "answer", "answer_not_read", "close_handshake", "frame_cut",
              "session_reset", "violation"]
TLS_ENDS = ["hello_cut", "no_tls", "alert", "tls_close_handshake", "no_close_notify", "tls_session_reset"]


# --- Ends by a server ------------------------------------------------------------------------------------------------------

class Server:
    """Ends its connections in every way, one after the other."""

    ENDS = ("at once", "reset at once", "after the hello", "no TLS", "alert", "before the answer", "head cut", "no HTTP", "refused",
            "body cut", "open, then the end", "open, then reset", "frame cut", "violation", "close")

    def __init__(self, certificates):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.good, self.bad = (self.context(certificates, name) for name in ("good", "host"))
        self.ends = itertools.cycle(self.ENDS)
        for _ in range(2 * TOGETHER):
            threading.Thread(target=self.accept, daemon=True).start()

    @staticmethod
    def context(certificates, name):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.path(name), certificates.path(name, "key"))
        return context

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            connection.settimeout(LIMIT)
            with contextlib.suppress(OSError), connection:
                self.end(connection, next(self.ends))

    def end(self, connection, end):
        if end == "at once":
            return
        if end == "reset at once":
            return reset(connection)
        if end in ("after the hello", "no TLS"):
            connection.recv(65536)
            return connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" if end == "no TLS" else b"\x16\x03\x03\0\x80cut")
        with (self.bad if end == "alert" else self.good).wrap_socket(connection, server_side=True) as tls:
            request = b""
            while not request.endswith(b"\r\n\r\n"):
                part = tls.recv(65536)
                if not part:
                    return
                request += part
            self.answer(tls, end, request)

    def answer(self, tls, end, request):
        key = request.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        opened = b"HTTP/1.1 101 Open\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        tls.sendall({
            "before the answer": b"", "head cut": opened[:30], "no HTTP": b"220 mail.test ESMTP\r\n",
            "refused": b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno", "body cut": b"HTTP/1.1 401 No\r\nContent-Length: 9\r\n\r\nno",
            "open, then the end": opened, "open, then reset": opened, "frame cut": opened + b"\x81\x7e\x10\0cut",
            "violation": opened + b"\xf1\0", "close": opened + b"\x88\x02\x03\xf5"}[end])
        if end == "open, then reset":
            reset(socket.socket(fileno=tls.detach()))
        elif end in ("violation", "close"):
            drain(tls)
        elif end != "frame cut":
            # close_notify
            with contextlib.suppress(OSError):
                tls.unwrap()


def relayed(host, port, target):
    """A connection through our client, until it ends."""
    with socket.create_connection((host, port), timeout=LIMIT) as connection:
        connection.sendall(UPGRADE.format(target=target).encode())
        drain(connection)


# --- The checks ------------------------------------------------------------------------------------------------------------

def settled(process):
    """The number of descriptors if it stays the same for longer than the end of a connection may take, or else None."""
    before = process.descriptors
    time.sleep(0.7)
    return before if process.descriptors == before else None


def level(report, name, process, work, rounds, allowed, settle=lambda: None):
    """Performs the work a number of times, after a warm-up. `allowed`: growth of memory, kB."""
    def perform(count):
        with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
            for result in pool.map(lambda _: work(), range(count)):
                assert result is None
        settle()

    perform(WARM_UP)
    # Threads that begin with the first connections have theirs.
    before = wait_until("connections to end", lambda: settled(process), LIMIT)
    memory = process.memory
    perform(rounds)
    after = wait_until("connections to end", lambda: settled(process), LIMIT)
    if after > before:
        raise Problem(f"{before} descriptors became {after}")
    report(name)
    if VERIFYING:
        measured(f"connections: {name}: growth over {rounds}", process.memory - memory, "kB", at_most=allowed)


def check_standin(report, certificates):
    files = ["--tls-cert", certificates.path("good"), "--tls-key", certificates.path("good", "key")]
    with contextlib.ExitStack() as stack:
        servers = []
        for options in ([], files):
            process = subprocess.Popen([STANDIN, "--port", "0", "--control", "0", "--quiet", *options], text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            stack.callback(process.kill)
            ports = [int(process.stdout.readline().rpartition(":")[2].strip("/\n ")) for _ in range(2)]
            servers.append((process, *ports))
        client = Client(servers[0][1], servers[1][1], certificates.path("ca"))
        for (process, _, control), names in zip(servers, (PLAIN_ENDS, TLS_ENDS)):
            def forget(control=control):
                # It keeps a record of each session.
                connection = http.client.HTTPConnection("127.0.0.1", control, timeout=LIMIT)
                connection.request("DELETE", "/control/sessions")
                connection.getresponse().read()
                connection.close()

            # All in one where nothing is measured.
            for some in [[name] for name in names] if VERIFYING else [names]:
                ends, name = itertools.cycle(some), f"stand-in: {', '.join(some).replace('_', ' ')}"
                report.perform(name, level, report, name, Process(process.pid),
                               lambda ends=ends: getattr(client, next(ends))(), COUNT * len(some), 2048, forget)


def check_client(report, certificates, folder):
    server = Server(certificates)
    process = subprocess.Popen(
        [os.path.join(RELEASE, "decart-check"), "--record", f"{folder}/recording.jsonl", "--base-url",
         f"wss://localhost:{server.port}", "--ca-file", certificates.path("ca")], text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**clean_environment(folder), "DECART_API_KEY": KEY})
    try:
        line = process.stdout.readline()
        while line and "base-url=" not in line:
            line = process.stdout.readline()
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        host, _, port = words["base-url"].removeprefix("ws://").partition(":")
        target = f"/v1/stream?api_key={words['api-key']}&model=lucy-2.6"
        count = COUNT * len(Server.ENDS)
        # Half a kilobyte of recording each.
        level(report, "client: every end by a server", Process(process.pid), lambda: relayed(host, int(port), target), count,
              2048 + count // 2)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(LIMIT)


def main():
    report = Results("connections")
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder, "localhost", "127.0.0.1")
        report.perform("stand-in", check_standin, report, certificates)
        report.perform("client", check_client, report, certificates, folder)
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
