"""Rows for load and ordering: many prompts, many reconnects, a stalled network, fresh keys, `disconnect`."""

import signal
import socket
import threading
import time

import netlab
from session import VERIFYING, StandIn, long, row

MIB = 1 << 20


@row("many prompts", 75, "1,000 prompts at 20/s, the service closes the WebSocket three times meanwhile")
def prompts(run):
    client = run.start("max-retries=-1")
    since, count = time.monotonic(), long(1000, 200)
    client.send("prompts", count=count, rate=20)
    for closes, at in enumerate(long((10, 22, 36), (2, 5, 8)), 1):
        time.sleep(max(0, at - (time.monotonic() - since)))
        run.standin.control("POST", "close?code=1012")
        # Each close ends a session, not an attempt.
        client.wait(20, f"session {closes + 1}", lambda closes=closes: True if client.state().get("connected") and len(
            {message["session-id"] for message in client.all("decart-state") if message["connected"]}) > closes else None)
    client.message("prompts", since, 60)
    requested = {message["id"]: message["text"] for message in client.all("request", since)}
    client.wait(25, "a result for each prompt", lambda: True if len(
        {message["id"] for message in client.all("decart-prompt-result", since)}) >= len(requested) else None)
    time.sleep(2)
    results = client.all("decart-prompt-result", since)
    result_ids = [message["id"] for message in results]
    run.expect(len(requested) == count, f"{len(requested)} requests")
    run.expect(sorted(result_ids) == sorted(requested),
               f"{len(result_ids)} results for {len(set(result_ids))} of {len(requested)} requests")
    run.expect(all(requested.get(message["id"]) == message["text"] for message in results),
               "a result of another prompt")
    accepted = [message for message in results if message["accepted"]]
    refused = {message["error"] for message in results if not message["accepted"]}
    run.expect(accepted and accepted[-1]["text"] == f"noir {count - 1}", "the last one was not acknowledged")
    slowest = max(message["milliseconds"] for message in accepted) / 1000
    run.note(f"{len(accepted)} acknowledged, {count - len(accepted)} reported otherwise "
             f"({'; '.join(sorted(map(str, refused))) or 'none'}), each once; slowest {slowest:.1f} s")
    run.finish(dials=4)


def settle(run):
    """Waits until the session is connected and older ones are gone, then returns the memory figures."""
    client = run.client
    client.wait(15, "a session", lambda: True if client.state().get("connected") else None)
    time.sleep(4)
    return client.memory()


def threads(figures):
    """Counts the threads that are no workers of Dispatch."""
    return sum(not name.startswith("-qos.") for name in figures["thread-names"])


@row("many reconnects", 320, "200 reconnects within one PLAYING, the service closes after each first frame")
def reconnects(run):
    client = run.start("max-retries=-1", "max-retry-delay=1")

    def sessions():
        return len({message["session-id"] for message in client.all("decart-state") if message["connected"]})

    def until(count, seconds):
        run.standin.faults("close_1011_at_connected")
        run.standin.control("POST", "close?code=1011")
        client.wait(seconds, f"session {count}", lambda: True if sessions() >= count else None)
        run.standin.faults()

    # Measure after a warm-up: one-time allocations are done, and the arenas fit a reconnect.
    held, numbers = [], long((21, 81, 141, 201), (5, 12))
    for number in numbers:
        until(number, 150)
        held.append(settle(run))
    before, after = held[0], held[-1]
    # GLib keeps the idle threads of its pool, in which GStreamer's tasks run, for 15 s. Dispatch keeps as many workers
    # as were once busy together while each gets work within 5 s, as it does here: their number has a bound of its own.
    idle = time.monotonic() + 60
    while (threads(after) > threads(before) or after["fds"] > before["fds"]) and time.monotonic() < idle:
        time.sleep(1)
        after = client.memory()
    count = sessions()
    run.expect(count >= numbers[-1], f"{count} sessions")
    run.expect(after["fds"] <= before["fds"], f"fds grew from {before['fds']} to {after['fds']}")
    workers = len(after["thread-names"]) - threads(after)
    run.expect(threads(after) <= threads(before),
               f"threads grew from {before['thread-names']} to {after['thread-names']}")
    if VERIFYING:
        run.measure("workers of Dispatch", workers, 5, "threads")
        slope = (after["used"] - before["used"]) / (count - numbers[0]) / 1024
        run.measure("memory in use", slope, 4, "KiB a reconnect")
        # Only an upper bound, no measure of leaks: arenas may fill less well than at the start.
        run.measure("RSS", (after["rss"] - before["rss"]) / MIB, 16, "MiB more")
    run.note(f"after {numbers[0] - 1} and {count - 1}: fds {before['fds']} and {after['fds']}, threads {before['threads']} and "
             f"{after['threads']}; in use {', '.join(format(one['used'] / MIB, '.2f') for one in held)} MiB, RSS "
             f"{', '.join(format(one['rss'] / MIB, '.1f') for one in held)} MiB")
    run.finish()


def stalled(stall, resume):
    def body(run):
        client = run.start("max-retries=-1")
        time.sleep(long(3, 0))
        session, before = client.session(), client.memory()
        since = time.monotonic()
        stall(run)
        most = before["rss"]
        while time.monotonic() - since < long(60, 15):
            time.sleep(long(5, 1))
            most = max(most, client.memory()["rss"])
        resume(run)
        healed = time.monotonic()
        if VERIFYING:
            run.measure("new session after the return", run.recovered(since, session, 30) - healed, 17)
        else:
            # The session may have outlived so short a time.
            run.client.frame(healed, kinds="n", what="frame of the acknowledged prompt")
        run.measure("RSS while stalled", (most - before["rss"]) / MIB, 16, "MiB more")
        run.finish()
    return body


row("stalled network", 85, "no packet passes for 60 s: memory stays bounded")(
    stalled(lambda run: run.lab.drop(), lambda run: run.lab.heal()))
row("stalled service", 85, "the service is stopped (SIGSTOP) for 60 s, its sockets open: memory stays bounded")(
    stalled(lambda run: run.standin.process.send_signal(signal.SIGSTOP),
            lambda run: run.standin.process.send_signal(signal.SIGCONT)))


def accepting_keys(used):
    """Options for a stand-in that refuses the keys used so far. It accepts several: an attempt before it listens uses one."""
    return [word for number in range(used + 1, used + 21) for word in ("--api-key", f"key-{number}")]


def restart_with_next_keys(run, client, used):
    """Restarts the stand-in twice. Each one would refuse the keys of its predecessor permanently."""
    for _ in range(2):
        session, since, options = client.session(), time.monotonic(), accepting_keys(used())
        run.standin.kill()
        run.standin.start(*options)
        run.recovered(since, session, 12)


@row("fresh key by signal", 14, "request-api-key: the service accepts each key once")
def key_signal(run):
    run.network()
    run.standin = StandIn(run, *accepting_keys(0))
    client = run.start("keys", "max-retries=-1")
    restart_with_next_keys(run, client, lambda: len(client.all("key")))
    run.expect(len(client.all("key")) == run.lab.dials(), f"{len(client.all('key'))} keys for {run.lab.dials()} dials")
    run.finish()


class Backend:
    """A user's backend, which returns a new key for each POST; it records the requests, so that rows can check them."""

    def __init__(self, run, port=8080):
        self.requests = []
        with netlab.inside(run.lab.client):
            self.listener = socket.create_server(("127.0.0.1", port))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        run.open_labs.callback(self.close)

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                try:
                    head = b""
                    while b"\r\n\r\n" not in head and (chunk := connection.recv(65536)):
                        head += chunk
                    self.requests.append(head.decode(errors="replace"))
                    body = '{"apiKey":"key-%d","expiresAt":"2099-01-01T00:00:00Z"}' % len(self.requests)
                    connection.sendall(("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                                        f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
                except OSError:
                    pass

    def close(self):
        # `close` alone does not wake `accept`.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)


@row("fresh key by URL", 14, "api-key-url: a POST for each attempt, the service accepts each key once")
def key_url(run):
    run.network()
    backend = Backend(run)
    run.standin = StandIn(run, *accepting_keys(0))
    client = run.start("api-key-url=http://127.0.0.1:8080/key", 'api-key-headers="headers,X-Password=swordfish"')
    restart_with_next_keys(run, client, lambda: len(backend.requests))
    posts = len(backend.requests)
    run.expect(posts == run.lab.dials(), f"{posts} requests for {run.lab.dials()} dials")
    run.expect(all(request.startswith("POST /key ") and "swordfish" in request for request in backend.requests),
               "not a POST with the password")
    run.finish()


@row("disconnect", 45,
     "the action signal disconnect, in a session and between two attempts: no dial follows; the action signal connect "
     "dials")
def disconnect(run):
    client = run.start()

    def off(what):
        since = time.monotonic()
        client.send("disconnect")
        client.message("decart-state", since, state="disconnected")
        time.sleep(0.5)
        dials = run.lab.dials()
        # The first retry would come after a second, the second one after two more.
        time.sleep(long(12, 4))
        run.expect(run.lab.dials() == dials, f"dialled after disconnect {what}")
        run.expect(client.state()["state"] == "disconnected", f"state is {client.state()['state']}")

    off("in a session")
    run.expect(all(one["state"] == "closed" for one in run.standin.sessions()), "the stand-in still has the session")
    session, since = client.session(), time.monotonic()
    client.send("connect")
    run.measure("new session", run.recovered(since, session, 10) - since, 2)
    since = time.monotonic()
    run.standin.kill()
    client.message("decart-state", since, state="reconnecting", seconds=5)
    time.sleep(2)
    off("between two attempts")
    run.finish()


@row("paused", 85, "PAUSED for a minute: no media flow in either direction, and the session is kept")
def paused(run):
    client = run.start()
    session = client.session()
    client.send("pause")
    time.sleep(long(60, 8))
    since = time.monotonic()
    client.send("play")
    run.measure("frames after PLAYING", client.wait(
        5, "new frame", lambda: next((one.time for one in client.frames if one.is_new and one.time > since), None))
        - since, 1)
    run.expect(client.session() == session and not client.all("warning"), "a reconnect")
    run.finish(dials=1, gaps=False)
