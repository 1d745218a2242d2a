"""Rows for load: many reconnects, a stalled network and service."""

import signal
import time

from session import VERIFYING, long, row

MIB = 1 << 20


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
        run.standin.request("POST", "/control/close?code=1011")
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
