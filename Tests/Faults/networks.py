"""Rows of the network matrix, 30 s each on a link of its own, and the narrow link that the encoder must follow."""

import time

import netlab
from session import row

# str0m's presets (netem/src/config.rs): delay and jitter each way (s), mean loss and burst (packets), rate (bit/s), queue
# (bytes). Then the share of pictures that must come back, and the longest time to connect (s).
PRESETS = {
    "clean": (dict(), 0.999, 2),
    "wifi": (dict(delay=.005, jitter=.002, loss=.01, burst=2, rate=100e6, queue=200_000), 0.99, None),
    "wifi lossy": (dict(delay=.015, jitter=.010, loss=.05, burst=2, rate=50e6, queue=100_000), 0.95, None),
    "cellular": (dict(delay=.050, jitter=.015, loss=.02, burst=2, rate=30e6, queue=100_000), 0.97, 4),
    "wifi congested": (dict(delay=.010, jitter=.020, loss=.09, burst=2, rate=5e6, queue=30_000), 0.80, None),
    "congested": (dict(delay=.080, jitter=.040, loss=.09, burst=2, rate=10e6, queue=50_000), 0.80, None),
}


def preset(name):
    link, share, connect = PRESETS[name]

    def body(run):
        run.network(link=link, seed=7)
        client = run.start()
        if connect:
            run.measure("connected", run.connected_in, connect)
        else:
            run.note(f"connected in {run.connected_in:.2f} s")
        before, since = client.stats(), time.monotonic()
        time.sleep(30)
        until, after = time.monotonic(), client.stats()
        sent = after["frames-sent"] - before["frames-sent"]
        shown = sum(frame.is_new and since <= frame.time < until for frame in client.frames)
        run.expect(sent > 100, f"only {sent} pictures sent")
        run.expect(shown >= share * sent, f"{shown} of {sent} pictures came back: {shown / max(sent, 1):.1%}, "
                   f"promised {share:.1%}")
        run.detail = [before, after, run.standin.sessions()]
        run.note(f"{shown} of {sent} pictures ({shown / max(sent, 1):.1%}, promised {share:.1%})")
        run.expect(not client.all("warning"), f"warnings: {[w['text'][:80] for w in client.all('warning')]}")
        run.dialled(1)
        run.finish()
    return body


for _name in PRESETS:
    row(f"network {_name}", 38, f"30 s of the preset {_name}")(preset(_name))


@row("500 kbit/s", 90, "the link is throttled to 500 kbit/s for 30 s, then free again")
def narrow(run):
    capacity, highest = 500_000, 2_500_000
    # Room for 1.6 s at that rate: what keeps the queue short is the sender, not the queue.
    run.network(link=dict(delay=.02, queue=100_000), seed=7)
    # Noise takes whatever rate is allowed.
    client = run.start("pattern=snow", f"max-bitrate={highest}", look=None)
    session = client.session()

    def target():
        return client.stats()["target-bitrate"]

    client.wait(25, "a full rate", lambda: None if target() < 0.9 * highest else True)
    run.lab.link.set(rate=capacity)
    since = time.monotonic()
    seen = []
    while time.monotonic() - since < 30:
        seen.append((time.monotonic() - since, target()))
        time.sleep(0.25)
    under = next((at for at, rate in seen if rate <= 1.1 * capacity), 99)
    run.measure("target within 1.1 of the capacity", under, 5 - 1)  # the bound itself has no slack
    later = [rate for at, rate in seen if at >= 5]
    queues = [one["up_wait"] for one in run.lab.link.seen if since + 5 <= one["t"] <= since + 30]
    run.expect(max(queues) < 0.4, f"queueing up to {max(queues) * 1000:.0f} ms after 5 s")
    share = sorted(later)[len(later) // 2] / capacity
    run.note(f"afterwards target {min(later) / 1000:.0f} to {max(later) / 1000:.0f} kbit/s (median {share:.2f} of the "
             f"capacity), queueing at most {max(queues) * 1000:.0f} ms")
    run.lab.link.set(rate=0)
    released = time.monotonic()
    back = None
    while time.monotonic() - released < 30:
        if target() >= 0.8 * highest:
            back = time.monotonic() - released
            break
        time.sleep(0.25)
    run.expect(back is not None, f"30 s after the release the target is {target() / 1000:.0f} kbit/s")
    if back is not None:
        run.measure("80 % of the maximum after the release", back, 30)
    run.expect(client.session() == session and not client.all("warning"), "a reconnect")
    run.dialled(1)
    run.finish(gaps=False)
