"""The rows: faults F1 to F26, each in its own network, measured against its bound.

A row is a function of a `Row`. Bounds are those of the fault table: seconds from the fault's start unless said.
"""

import time

import netlab
from session import Client, StandIn

ROWS = []


def row(name, seconds, title):
    """`seconds`: what it takes, so that the longest begin first."""
    def add(function):
        ROWS.append((name, seconds, title, function))
        return function
    return add


# --- The service goes away --------------------------------------------------------------------------------------


def closes(code):
    def body(run):
        client = run.start()
        session, since = client.session(), time.monotonic()
        if code == 1006:
            run.standin.control("POST", "drop")
        else:
            run.standin.control("POST", f"close?code={code}")
        run.measure("new session", run.recovered(since, session, 10) - since, 3)
        run.expect(len(client.all("warning", since)) == 1, "not exactly one warning")
        run.dialled(2)
        run.finish()
    return body


for _code in (1001, 1011, 1012, 1006):
    row(f"F1 close {_code}", 8, f"the service closes the WebSocket ({_code})")(closes(_code))


def killed(away, bound, dials):
    def body(run):
        client = run.start()
        session, since = client.session(), time.monotonic()
        run.standin.kill()
        time.sleep(away - (time.monotonic() - since))
        run.standin.start()
        run.measure("new session", run.recovered(since, session, bound + 10) - since, bound)
        run.dialled(dials)
        run.finish()
    return body


row("F2 killed, back after 2 s", 12, "the service is killed and back after 2 s")(killed(2, 5, 3))
for _away, _bound, _dials in ((5, 9, 4), (10, 17, 5), (18, 27, 6)):
    row(f"F3 killed, back after {_away} s", _bound + 6, f"back after {_away} s")(killed(_away, _bound, _dials))


@row("F4 away for 60 s", 70, "away for longer than the retries last")
def f4(run):
    client = run.start()
    since = time.monotonic()
    run.standin.kill()
    error = client.message("error", since, 40)
    after = error["t"] - since
    run.measure("gives up", after, 26)
    run.expect(after >= 19, f"gave up after {after:.1f} s: too early")
    run.expect(client.state().get("state") == "error", f"state is {client.state().get('state')}")
    run.dialled(6)
    time.sleep(30)
    run.dialled(6)
    run.finish(errors=1)


@row("F5 away for 60 s, for ever", 85, "away for 60 s, max-retries=-1")
def f5(run):
    client = run.start("max-retries=-1")
    session, since = client.session(), time.monotonic()
    run.standin.kill()
    time.sleep(60)
    run.standin.start()
    back = time.monotonic()
    run.measure("new session after the return", run.recovered(since, session, 30) - back, 12)
    # 1, 3, 7, 15, 25, 35, 45, 55, 65 at the latest; jitter makes it up to two more.
    run.dialled(10, 12)
    run.finish()


# --- The network goes away --------------------------------------------------------------------------------------


def silence(seconds):
    def body(run):
        client = run.start()
        session = client.session()
        run.lab.drop()
        time.sleep(seconds)
        run.lab.heal()
        healed = time.monotonic()
        # What was under way at the moment of the cut has left the jitter buffer long ago.
        run.measure("pictures after the return", client.frame(healed).time - healed, 1)
        time.sleep(8)
        run.expect(client.session() == session, "another session")
        run.expect(not client.all("warning"), f"warnings: {[w['text'] for w in client.all('warning')]}")
        run.expect(all(frame.kind in "nr" for frame in client.frames if frame.time > healed), "another look")
        run.dialled(1)
        run.finish()
    return body


for _seconds in (1, 2, 3):
    row(f"F6 nothing for {_seconds} s", 16, f"all packets dropped for {_seconds} s, same session")(silence(_seconds))


def outage(seconds, bound, dials):
    def body(run):
        client = run.start()
        session, since = client.session(), time.monotonic()
        run.lab.drop()
        noticed = client.message("warning", since, 10)["t"]
        run.measure("noticed", noticed - since, 5.5)
        time.sleep(max(0, seconds - (time.monotonic() - since)))
        run.lab.heal()
        healed = time.monotonic()
        run.measure("new session after the return", run.recovered(since, session, 30) - healed, bound)
        run.dialled(*dials)
        run.finish()
    return body


row("F7 nothing for 10 s", 25, "all packets dropped for 10 s")(outage(10, 5.5, (2, 3)))
row("F8 nothing for 30 s", 48, "all packets dropped for 30 s")(outage(30, 8, (4, 5)))
