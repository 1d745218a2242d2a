"""Rows for sessions that end by their token, and for accounts whose sessions are all in use."""

import base64
import collections
import statistics
import subprocess
import threading
import time

import netlab
from session import Client, StandIn, row

RENEWALS = 2
# s, of a session, and how long before its end the next one begins: a busy machine needs seconds to connect.
LENGTH, BEFORE = 20, 14
FLEET = 600  # s
# s: longer than the time between two dials of an element that waits; docs/GUIDE.md has it.
RESTART = 7
INTERVAL = 1 / 30
URL = f"http://{netlab.SERVER}:{netlab.PORT}/v1/client/tokens"
# The stand-in stands in for the backend too: it issues client tokens.
KEYS = (f"api-key-url={URL}", 'api-key-headers="headers,X-API-KEY=(string)x"')


def new_frames(client):
    return [frame for frame in list(client.frames) if frame.is_new]


def gap_around(frames, moment):
    """The longest time between two new frames around a takeover, s."""
    near = [frame.time for frame in frames if moment - 1.5 <= frame.time <= moment + 1.5]
    gap, begin = max(((after - before, before) for before, after in zip(near, near[1:])), default=(3.0, moment))
    return gap, begin - moment


def renewed(transport):
    def body(run):
        client = run.start(f"transport={transport}", f"renew-before={BEFORE}", *KEYS,
                           standin=("--transport", transport, "--max-session-duration", str(LENGTH)))
        sessions = [client.session()]
        for number in range(RENEWALS):
            # The prompt set during the overlap or beside it has one result, whichever session reports it.
            since = time.monotonic()
            result = client.prompt(f"noir {number}")
            run.expect(result["accepted"], f"the prompt was not accepted: {result}")
            client.message("decart-session-renewed", since, LENGTH + 6)
            time.sleep(1.6)
            sessions.append(client.session())
        renewals = client.all("decart-session-renewed")
        places = [gap_around(new_frames(client), message["t"]) for message in renewals]
        gaps = [gap for gap, _ in places]
        run.note("without a new frame: " + ", ".join(f"{gap * 1000:.0f}" for gap in gaps) + " ms; renewed within "
                 + ", ".join(f"{message['seconds']:.2f}" for message in renewals) + " s; long ones begin at "
                 + ", ".join(f"{begin * 1000:.0f}" for gap, begin in places if gap > INTERVAL + 0.020) + " ms")
        run.measure("longest time without a new frame", max(gaps), 2 * INTERVAL + 0.035)
        run.measure("longest time without a new frame, median", statistics.median(gaps), INTERVAL + 0.020)
        run.expect(len(set(sessions)) == len(sessions), f"session ids repeat: {sessions}")
        states = {message["state"] for message in client.all("decart-state", client.frame().time + 0.5)}
        run.expect(states <= {"connected", "generating"}, f"states: {states}")
        run.expect(not client.all("warning"), f"warnings: {[w['text'] for w in client.all('warning')]}")
        last = client.frame(time.monotonic(), kinds="ncr")
        run.expect(last.kind != "c", "the last session does not show the latest prompt")
        stats = client.stats()
        run.expect(stats["renewals"] == len(renewals), f"stats count {stats['renewals']} renewals")
        run.expect(stats["reconnects"] == 0, f"{stats['reconnects']} reconnects")
        run.finish()
    return body


for _transport in ("webrtc", "livekit"):
    row(f"F28 renewal, {_transport}", 6 + RENEWALS * (LENGTH - BEFORE),
        f"a token permits {LENGTH} s; the next session takes over before ({_transport})",
        older="verify" if _transport == "livekit" else "")(renewed(_transport))


@row("F28 renewal, prompt", 18, "a prompt is set while two sessions overlap for 4 s")
def prompt_in_overlap(run):
    # The first session and two requests for a token are connections 1 to 3.
    client = run.start(f"renew-before={BEFORE}", *KEYS, standin=(
        "--max-session-duration", str(LENGTH), "--fault", "ack_late:delay=4,after=4,count=1"))
    since = time.monotonic()
    while run.lab.dials() < 4 and time.monotonic() < since + LENGTH:
        time.sleep(0.05)
    result = client.prompt("lego 2")
    run.expect(result["accepted"], f"the prompt was not accepted: {result}")
    run.expect(not client.all("decart-session-renewed"), "the sessions did not overlap")
    moment = client.message("decart-session-renewed", since, LENGTH)["t"]
    time.sleep(1)
    run.measure("longest time without a new frame", gap_around(new_frames(client), moment)[0], 2 * INTERVAL + 0.035)
    run.expect(not any(frame.kind == "n" for frame in client.frames if frame.time > moment),
               "a frame of the new session shows an older prompt")
    results = client.all("decart-prompt-result", since, id=result["id"])
    run.expect(len(results) == 1, f"{len(results)} results")
    run.expect(not client.all("warning"), f"warnings: {[w['text'] for w in client.all('warning')]}")
    run.finish()


def waits(fault, text, least=0):
    """The service refuses the first session for want of a place. The element waits for one, which is no retry."""
    def body(run):
        run.network()
        run.standin = StandIn(run, "--fault", f"{fault},count=1")
        client = run.start(look=None)
        waited = client.frame().time - client.message("started")["t"]
        run.expect(waited > least, f"the first frame came after {waited:.1f} s: it did not wait as long as the service said")
        warnings = client.all("warning")
        run.expect(len(warnings) == 1 and text in warnings[0]["text"]
                   and warnings[0]["details"].get("code") == "CONCURRENCY_LIMIT", f"warnings: {warnings}")
        statuses = [message["service-status"] for message in client.all("decart-state")]
        run.expect("waiting-for-session" in statuses and statuses[-1] == "ready", f"service-status: {statuses}")
        run.expect(not any(message["retries"] for message in client.all("decart-state")), "the wait counts as a retry")
        run.finish(dials=2)
    return body


# The words of the service of October 2026. Without the type, this text would be a failure.
row("F29 no capacity", 12, "the service has no capacity (error_type capacity, retry_after 9 s, close 1013)")(
    waits("error_type:type=capacity,reason=Please wait.,delay=9", "Please wait.", 7.5))
row("F29 close 1013", 8, "the service closes with 1013 before a session begins")(waits("close_1013_at_join:reason=busy", "1013: busy"))


@row("F29 ended for good", 6, "the service closes with 1008, and a client token's claim exp has passed")
def ended(run):
    run.network()
    run.standin = StandIn(run)
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (
        b'{"alg":"EdDSA"}', b'{"exp":1760000000}', b"canary"))
    for properties, code, text, dials in (
            (("query-items=fault=close_1008_at_join:reason=policy",), "WEBSOCKET_ERROR", "(1008: policy)", 1),
            ((f"api-key={token}",), "INVALID_API_KEY", "has expired", 0)):
        before = run.lab.dials()
        run.client = Client(run, *properties)
        error = run.client.message("error")
        run.expect(error["details"].get("code") == code and error["details"].get("permanent") and text in error["text"], f"{error}")
        run.expect(not run.client.all("warning"), f"warnings: {run.client.all('warning')}")
        run.expect(run.lab.dials() - before == dials, f"{run.lab.dials() - before} dials, not {dials}")
        run.client.send("stop")
        run.client.process.wait(20)
    # With a backend, the element asks for another one, and the old one is not used.
    run.client = None
    client = run.start(f"api-key={token}", *KEYS, look=None)
    run.expect(not client.all("warning"), f"warnings: {client.all('warning')}")
    run.finish()


@row("F29 limit, a fleet", FLEET + 20, "three processes share two sessions of the account", measures=True)
def fleet(run):
    """Each process ends with its session, and is started again, as the unit of docs/GUIDE.md does."""
    run.network()
    run.standin = StandIn(run, "--limit", "2")
    end = time.monotonic() + FLEET

    def serve(number):
        command = (f"gst-launch-1.0 -q videotestsrc is-live=true ! video/x-raw,width=160,height=96,framerate=10/1 ! decarttransform"
                   f" base-url=ws://{netlab.SERVER}:{netlab.PORT} insecure=true api-key=x model=fleet-{number} width=160 height=96"
                   f" framerate=10 prompt=noir limit-wait=-1 max-session-duration=20 ! fakesink")
        while time.monotonic() < end:
            process = run.lab.start(run.lab.client, command.split(), env=run.environment, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.2)
            if process.poll() is None:
                process.kill()
            process.wait()
            time.sleep(RESTART)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ticks = collections.Counter()
    for session in run.standin.sessions:
        ticks[session["model"]] += session["ticks"] or 0
    run.note(f"billed seconds: {dict(ticks)}")
    run.measure("least share of the slot time", min(ticks[f"fleet-{number}"] for number in range(3)) / sum(ticks.values()) * 100, 20, "%",
                at_most=False)
