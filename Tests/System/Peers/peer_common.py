"""Code shared by both independent peers: command line, JSON lines, and edits of an SDP.

Knows no WebRTC library and needs only Python's standard library.

Lines in (one JSON object each):
    {"type": "offer" | "answer", "sdp": "..."}
    {"type": "candidate", "candidate": "candidate:...", "sdpMid": "0", "sdpMLineIndex": 0}   null = end of candidates
    {"type": "stats"}  {"type": "request-keyframe"}  {"type": "quit"}
Lines out:
    {"type": "offer" | "answer", "sdp": "..."}, {"type": "candidate", ...} as above
    {"type": "state", "connectionState": "...", "iceConnectionState": "..."}
    {"type": "first-frame", "milliseconds": since the peer started, "width": W, "height": H}
    {"type": "stats", ...}, audioPitch in Hz, {"type": "warning" | "error", "message": "..."}
The peer ends on "quit", at the end of its standard input, and in any case after --lifetime seconds.
"""

import argparse
import json
import os
import re
import sys
import threading

# Red, green and blue behind the moving square.
BACKGROUND = (0x28, 0x78, 0xC8)
_output = threading.Lock()


def emit(kind, **fields):
    """Writes one line. Any thread may call it."""
    line = json.dumps({"type": kind, **fields})
    with _output:
        try:
            print(line, flush=True)
        except (BrokenPipeError, ValueError):
            os._exit(0)


def parse_arguments(description, codecs):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("role", choices=["offer", "answer"])
    parser.add_argument("codec", nargs="?", default="vp8", choices=["vp8", "h264", "vp9"])
    parser.add_argument("--wrong-fingerprint", action="store_true", help="state a fingerprint that is not ours")
    parser.add_argument("--no-trickle", action="store_true", help="put the candidates into the SDP")
    parser.add_argument("--address", action="append", default=[], help="use this local address only (repeatable)")
    parser.add_argument("--size", default="640x360")
    parser.add_argument("--fps", type=int, default=20)
    parser.add_argument("--dtls-role", choices=["active", "passive"], help="of the answer (aiortc)")
    parser.add_argument("--direction", choices=["sendrecv", "sendonly", "recvonly"], default="sendrecv")
    parser.add_argument("--tone", type=float, help="Hz of a sine that is sent as audio (aiortc)")
    parser.add_argument("--audio-codec", choices=["opus", "PCMU", "PCMA"], help="the only one for the tone (aiortc)")
    parser.add_argument("--balanced", action="store_true", help="bundle policy of a peer that answers any order of m-lines (aiortc)")
    parser.add_argument("--closes", action="store_true", help="send nothing, and close once connected (aiortc)")
    parser.add_argument("--lifetime", type=float, default=120, help="seconds after which the peer ends")
    options = parser.parse_args()
    if options.codec not in codecs:
        emit("error", message=f"this peer has no {options.codec}")
        sys.exit(2)
    options.width, options.height = (int(value) for value in options.size.split("x"))
    # A peer that outlives its test would disturb the next one, so the limit is independent of any event loop.
    timer = threading.Timer(options.lifetime, expire)
    timer.daemon = True
    timer.start()
    return options


def run(perform):
    """Runs a peer, and ends the process at once: threads and references of its library must not hold or disturb the end."""
    status = 0
    try:
        perform()
    except Exception as problem:
        emit("error", message=f"{type(problem).__name__}: {problem}")
        status = 1
    sys.stdout.flush()
    os._exit(status)


def expire():
    emit("error", message="lifetime is over")
    os._exit(3)


def candidate_lines(sdp):
    return [line[2:] for line in sdp.splitlines() if line.startswith("a=candidate:")]


def without_candidates(sdp):
    return _join(line for line in sdp.splitlines()
                 if not line.startswith(("a=candidate:", "a=end-of-candidates")))


def first_mid(sdp):
    found = re.search(r"^a=mid:(\S+)", sdp, re.MULTILINE)
    return found.group(1) if found else "0"


def with_wrong_fingerprint(sdp):
    """Changes the last hexadecimal digit of every fingerprint: still well-formed, but of no certificate."""
    def turn(line):
        if not line.startswith("a=fingerprint:"):
            return line
        return line[:-1] + ("0" if line[-1] != "0" else "1")
    return _join(turn(line) for line in sdp.splitlines())


def payload_types(sdp, encoding_name):
    """Returns the payload types of a codec in the first video section, in order of preference."""
    video = re.search(r"^m=video \S+ \S+ ([0-9 ]+)", sdp, re.MULTILINE)
    order = video.group(1).split() if video else []
    mapped = dict(re.findall(r"^a=rtpmap:(\d+) ([^/\s]+)/90000", sdp, re.MULTILINE))
    return [int(value) for value in order if mapped.get(value, "").upper() == encoding_name.upper()]


def _join(lines):
    return "\r\n".join(lines) + "\r\n"
