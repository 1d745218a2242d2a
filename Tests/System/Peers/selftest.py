"""Connects each independent peer to another instance of it, which proves that it works before it tests our transport.

(webrtcbin 1.22 cannot connect to aiortc: it makes RSA certificates, and aiortc offers ECDSA cipher suites only.)
Prints one line a case, "ok NAME" or "not ok NAME: why". The cases run side by side, as they mostly wait.
"""

import argparse
import concurrent.futures
import os
import queue
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "Host"))
from checks import VERIFYING, Results  # noqa: E402
from peer_process import LIMIT, PeerProcess, near  # noqa: E402

# On a busy machine webrtcbin's own sockets lose packets, and it decodes a frame or two after each keyframe.
FRAMES = 30 if VERIFYING else 5


def until(limit, condition):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.1)
    return None


def connect(script, codec, offerer_options=(), answerer_options=()):
    offerer = PeerProcess(script, "offer", codec, *offerer_options)
    answerer = PeerProcess(script, "answer", codec, *answerer_options)
    for peer, other in ((offerer, answerer), (answerer, offerer)):
        peer.start(lambda message, other=other: message["type"] in ("offer", "answer", "candidate") and other.send(message))
    return offerer, answerer


def media(script, codec, offerer_options=(), answerer_options=(), echo=False):
    """Checks that both peers decode frames of the other's colour and size, and keyframe requests arrive."""
    blue, red = (0x28, 0x78, 0xC8), (0xC0, 0x40, 0x30)
    offerer, answerer = connect(
        script, codec, offerer_options, ["--background", "c04030", "--size", "320x240", *answerer_options])
    problems = []
    try:
        def flowing():
            both = [peer.request_stats() for peer in (offerer, answerer)]
            # A peer counts bytes and looks at a frame's colour later than it decodes the first one.
            return both if all(each["framesDecoded"] >= FRAMES and each["bytesReceived"] >= 1000 and each["meanRGB"]
                               for each in both) else None
        both = until(LIMIT, flowing)
        if not both:
            return f"no media: {offerer.request_stats()} {answerer.request_stats()} {offerer.errors} {answerer.errors}"
        at_offerer, at_answerer = both
        expected = (640, 360) if echo else (320, 240)
        if (at_offerer["width"], at_offerer["height"]) != expected:
            problems.append(f"offerer got {at_offerer['width']}x{at_offerer['height']}")
        if (at_answerer["width"], at_answerer["height"]) != (640, 360):
            problems.append(f"answerer got {at_answerer['width']}x{at_answerer['height']}")
        if not near(at_answerer["meanRGB"], blue):
            problems.append(f"answerer decoded {at_answerer['meanRGB']}")
        if not near(at_offerer["meanRGB"], blue if echo else red):
            problems.append(f"offerer decoded {at_offerer['meanRGB']}")
        for requester, sender in ((offerer, answerer), (answerer, offerer)):
            before = sender.request_stats()["pli"]

            def requested(requester=requester, sender=sender, before=before):
                # Again and again: a request that follows another one closely may be dropped.
                requester.send({"type": "request-keyframe"})
                return until(2, lambda: sender.request_stats()["pli"] > before)
            if not until(LIMIT, requested):
                problems.append("keyframe request not received")
        for peer in (offerer, answerer):
            if peer.errors:
                problems.append(f"errors {peer.errors}")
    except queue.Empty:
        problems.append("a peer does not answer")
    finally:
        endings = [offerer.quit(), answerer.quit()]
    if endings != [0, 0]:
        problems.append(f"endings {endings}")
    return "; ".join(problems)


def wrong_fingerprint(script, wrong_role):
    """Checks that a peer accepts no media from a remote peer with a wrong fingerprint."""
    options = ["--wrong-fingerprint"]
    offerer, answerer = connect(
        script, "vp8", options if wrong_role == "offer" else (), options if wrong_role == "answer" else ())
    honest = answerer if wrong_role == "offer" else offerer
    try:
        settled = until(8, lambda: honest.state in ("failed", "closed"))
        seen = honest.request_stats()
        if seen["framesDecoded"] or seen["bytesReceived"]:
            return f"accepted media: {seen}"
        if not settled and "connected" == honest.state:
            return "its state is connected"
    except queue.Empty:
        return "a peer does not answer"
    finally:
        offerer.quit()
        answerer.quit()
    return ""


def cases():
    for script, name, codecs in (("aiortc_peer.py", "aiortc", ["vp8", "h264"]),
                                 ("webrtcbin_peer.py", "webrtcbin", ["vp8", "h264", "vp9"])):
        for codec in codecs:
            yield f"{name} {codec}", lambda s=script, c=codec: media(s, c)
        yield f"{name} echo", lambda s=script: media(s, "vp8", answerer_options=["--echo"], echo=True)
        yield f"{name} without trickle", lambda s=script: media(s, "vp8", ["--no-trickle"], ["--no-trickle"])
        yield f"{name} on loopback", lambda s=script: media(
            s, "vp8", ["--address", "127.0.0.1"], ["--address", "127.0.0.1"])
    # Not with webrtcbin: 1.22 compares no fingerprints and accepts any media. It can still send a wrong one.
    for role in ("offer", "answer"):
        yield f"aiortc wrong fingerprint in the {role}", lambda r=role: wrong_fingerprint("aiortc_peer.py", r)
    yield "aiortc as DTLS server", lambda: media("aiortc_peer.py", "vp8", (), ["--dtls-role", "passive"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filter", nargs="?", default="", help="run the cases whose name contains this")
    options = parser.parse_args()
    report = Results("peers")
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda case: report.perform(case[0], lambda: report(case[0], case[1]())),
                      [each for each in cases() if options.filter in each[0]]))
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
