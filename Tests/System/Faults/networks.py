"""Rows for the network matrix, which run 30 s each on a separate link, and for the throttled link that the encoder must
follow."""

import time

from session import long, row

# str0m's presets (netem/src/config.rs): delay and jitter each way (s), mean loss and burst (packets), rate (bit/s),
# queue (bytes). Then the share of frames that must return, and the maximum time to connect (s).
PRESETS = {
    "clean": (dict(), 0.999, 2),
    "wifi": (dict(delay=.005, jitter=.002, loss=.01, burst=2, rate=100e6, queue=200_000), 0.99, None),
    "wifi lossy": (dict(delay=.015, jitter=.010, loss=.05, burst=2, rate=50e6, queue=100_000), 0.95, None),
    "cellular": (dict(delay=.050, jitter=.015, loss=.02, burst=2, rate=30e6, queue=100_000), 0.97, 4),
    "wifi congested": (dict(delay=.010, jitter=.020, loss=.09, burst=2, rate=5e6, queue=30_000), 0.80, None),
    "congested": (dict(delay=.080, jitter=.040, loss=.09, burst=2, rate=10e6, queue=50_000), 0.80, None),
}


def losses(client, before, after, service, since, until):
    """Says where frames were lost: the counters of the interval, those of the service's whole session, and the gaps."""
    counters = {name: after[name] - before[name] for name in (
        "frames-received", "frames-late", "packets-lost", "nacks-sent", "nacks-received", "plis-sent", "plis-received")}
    times = [frame.time for frame in client.frames if frame.is_new and since <= frame.time < until]
    gaps = [f"{earlier - since:.1f} s: {(later - earlier) * 1000:.0f} ms"
            for earlier, later in zip([since, *times], [*times, until]) if later - earlier > 0.1]
    counted = ", ".join(f"{name} {value}" for name, value in counters.items())
    return (f"{counted}; service: {service['frames_in']} in, {service['frames_out']} out; gaps at "
            + (", ".join(gaps) or "none"))


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
        time.sleep(long(30, 5))
        until, after = time.monotonic(), client.stats()
        service = run.standin.sessions[-1]
        sent = after["frames-sent"] - before["frames-sent"]
        returned = sum(frame.is_new and since <= frame.time < until for frame in client.frames)
        run.expect(sent > 0 and returned > 0, f"{returned} of {sent} frames returned")
        # One frame may be in flight at the end.
        run.measure("frames returned", 100 * min(1, (returned + 1) / max(sent, 1)), 100 * share, "%", at_most=False)
        if returned + 1 < share * sent:
            run.note(losses(client, before, after, service, since, until))
        run.expect(not client.all("warning"), f"warnings: {[w['text'][:80] for w in client.all('warning')]}")
        run.finish(dials=1)
    return body


for _name in PRESETS:
    row(f"network {_name}", 38, f"the preset {_name}")(
        preset(_name))


# Networks and the verdict of `connection-quality` and `limiting-factor` on each.
QUALITIES = {
    "clean": (dict(), "excellent", "none"),
    "wifi": (dict(delay=.005, jitter=.002, loss=.004, rate=100e6, queue=200_000), "good", "loss"),
    "far": (dict(delay=.1), "good", "latency"),
    "satellite": (dict(delay=.3), "critical", "latency"),
    "cellular": (PRESETS["cellular"][0], "poor", "loss"),
    "lossy": (dict(delay=.01, loss=.12), "critical", "loss"),
    "2 Mbit/s": (dict(delay=.02, rate=2_000_000, queue=50_000), "poor", "bandwidth"),
    "500 kbit/s": (dict(delay=.02, rate=500_000, queue=50_000), "critical", "bandwidth"),
}


def quality(name):
    link, wanted, factor = QUALITIES[name]

    def body(run):
        run.network(link=link, seed=7)
        client = run.start(look=None)
        time.sleep(25)
        verdicts = [f"{one['quality']} {one['limiting-factor']}" for one in client.all("decart-quality")]
        run.note(", ".join(verdicts))
        run.measure(f"{wanted} {factor}", int(verdicts[-1:] == [f"{wanted} {factor}"]), 1, "verdict", at_most=False)
        run.finish(gaps=False)
    return body


for _name in QUALITIES:
    row(f"quality {_name}", 30, f"connection-quality on the network {_name}", measures=True)(quality(_name))


def narrow(pattern, highest):
    capacity = 500_000

    def body(run):
        # The queue holds 1.6 s at that rate, so only the sender can keep it short.
        run.network(link=dict(delay=.02, queue=100_000), seed=7)
        client = run.start(f"pattern={pattern}", f"max-bitrate={highest}", look=None)
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
        # This bound has no extra second of slack: 5 s are generous.
        under = next((at for at, rate in seen if 0 < rate <= 1.1 * capacity), 99)
        run.measure("target within 1.1 of the capacity", under, 5)
        later = [rate for at, rate in seen if at >= 5]
        queues = [(one["t"] - since, one["up_wait"]) for one in run.lab.link.seen if since <= one["t"] <= since + 30]
        # The queue must drain first: it holds 1.6 s of the detailed pattern when the link narrows, and the encoder
        # produces at least half of the link's capacity.
        long = [at for at, wait in queues if wait >= 0.4]
        drained = next((at for at, after in zip(long, long[1:] + [30]) if after - at >= 1), 30) if long else 0
        run.measure("queueing below 400 ms", drained, 7)
        waits = sorted(wait for at, wait in queues if at >= 8)
        usual = waits[len(waits) * 95 // 100]
        run.measure("queueing of 95 % of the packets, 8 s after the throttling and later", usual, 0.4)
        # The target probes upwards repeatedly, until a queue builds up.
        run.measure("highest target after 5 s", max(later) / 1000, 1.2 * capacity / 1000, "kbit/s")
        run.note(f"target {min(later) / 1000:.0f} to {max(later) / 1000:.0f} kbit/s after 5 s; queueing at most "
                 f"{max(wait for _, wait in queues) * 1000:.0f} ms, from 8 s on {usual * 1000:.0f} ms (95 %), {waits[-1] * 1000:.0f} ms")
        run.lab.link.set(rate=0)
        released = time.monotonic()
        back = None
        while back is None and time.monotonic() - released < 30:
            if target() >= 0.8 * highest:
                back = time.monotonic() - released
            time.sleep(0.25)
        if run.expect(back is not None, f"30 s after the release the target is {target() / 1000:.0f} kbit/s"):
            run.measure("80 % of the maximum after the release", back, 30)
        run.expect(client.session() == session and not client.all("warning"), "a reconnect")
        run.finish(dials=1, gaps=False)
    return body


def short_queue(bitrate):
    def body(run):
        # 12,000 bytes are ten packets.
        run.network(link=dict(delay=.01, rate=2 * bitrate, queue=12_000), seed=7)
        # Keyframes of 60 kB, and delta frames that fit into a packet.
        client = run.start("pattern=spokes", f"max-bitrate={bitrate}", f"min-bitrate={bitrate}", "codec=h264",
                           'encoder="x264enc tune=zerolatency speed-preset=ultrafast key-int-max=30 pass=quant '
                           'quantizer=20"', look=None)
        before, longest = client.stats(), 0
        until = time.monotonic() + 20
        while time.monotonic() < until:
            longest = max(longest, client.stats()["keyframe-send-delay"])
            time.sleep(0.5)
        after = client.stats()
        packets = after["packets-sent"] - before["packets-sent"]
        lost = after["remote-packets-lost"] - max(0, before["remote-packets-lost"])
        run.expect(packets > 1000, f"only {packets} packets sent")
        # The link is a process: when it pauses, the packets of some milliseconds reach the queue at once.
        run.measure("packets lost", 100 * lost / packets, 0.2, "%")
        run.measure("longest time for a keyframe to leave", longest / 1e6, 50, "ms", at_most=False)
        run.note(f"target {after['target-bitrate'] / 1000:.0f} kbit/s")
        run.finish(gaps=False)
    return body


row("short queue", 25, "a path of 2.5 Mbit/s whose queue holds 12,000 bytes, half of it as target, a keyframe of 60 kB each "
    "second", measures=True)(short_queue(1_250_000))
row("short queue, 5 Mbit/s", 25, "the same on a path of 5 Mbit/s", measures=True)(
    short_queue(2_500_000))
row("500 kbit/s", 90, "the link is throttled to 500 kbit/s for 30 s, then unlimited again; frames that the encoder "
    "can compress to that rate", measures=True)(narrow("pinwheel", 1_000_000))
row("500 kbit/s, detailed picture", 90, "the same, with detailed frames for which the encoder exceeds its "
    "target bitrate", measures=True)(narrow("smpte", 2_500_000))
