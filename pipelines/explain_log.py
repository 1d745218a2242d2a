#!/usr/bin/env python3
"""Reads a log of the elements and names the cause of the failures in it.

    GST_DEBUG='decart*:INFO' GST_DEBUG_FILE=decart.log gst-launch-1.0 ...
    pipelines/explain_log.py decart.log

Prints one line for each cause: its short name, the remedy, and the line of the log that shows it. The exit status is 0
if a cause was found, and 1 if not.
"""

import re
import sys

# Short name, category of the line, pattern, remedy. The first pattern that matches a line decides about that line.
CAUSES = [
    ("dns", "decartsession", r"failed: .*\bresolve", "check base-url and the DNS server"),
    ("refused", "decartsession", r"failed: .*connection refused", "check base-url and that the service runs"),
    ("tls-expired", "decartsession", r"failed: .*certificate.* expired", "renew the certificate, or set the clock"),
    ("tls-host", "decartsession", r"failed: .*certificate.* another host name",
     "use the host name of the certificate in base-url"),
    ("tls-authority", "decartsession", r"failed: .*authority is unknown", "set ca-file"),
    ("key", "decartsession", r"failed: .*HTTP 40[13]\b", "check the API key"),
    ("key", "decartsession", r"failed: .*\(invalid-api-key", "check the API key"),
    ("rate-limit", "decartsession", r"failed: .*HTTP 429\b",
     "start sessions more slowly, end other sessions, or raise the account's limit"),
    ("session-limit", "decartsession", r"failed: .*(too many sessions|session limit|CONCURRENCY_LIMIT|HTTP 503)",
     "end other sessions, or raise the account's limit"),
    ("captive-portal", "decartsession", r"failed: .*(answered with a page|redirects to)",
     "log in to the network's portal, or check the proxy"),
    ("turn-password", "decartice", r"TURN.* refused the connection or the allocation", "check user and password in turn-servers"),
    ("no-turn", "decartice", r"TURN.* did not answer", "check turn-servers and the firewall"),
    ("fingerprint", "decartdtls", r"failed: .*fingerprint", "the path may be intercepted; do not go on"),
    ("dtls-timeout", "decartdtls", r"no answer to the DTLS handshake", "check that UDP of this size passes"),
    ("no-udp", "decartice", r"(failed|closed) .*no answer to the connectivity checks", "open UDP, or set turn-servers"),
    ("no-codec", "decartsession", r"failed: .*([Nn]o video codec in common|rejected the video)",
     "set codec to one that the service knows"),
    ("no-encoder", "decartsession", r"failed: .*element is missing",
     "install the encoder's package"),
    ("no-acknowledgement", "decartsession", r"(did not acknowledge|prompt \d+: not acknowledged)",
     "the service is overloaded or does not know the message; try again later"),
    ("prompt-refused", "decartsession", r"(prompt \d+: rejected|failed: .*initialState\))", "change the prompt"),
    ("path-lost", "decartrtp", r"nothing has arrived .*neither RTP nor RTCP", "the network path is down"),
    ("media-silent", "decartrtp", r"no RTP has arrived .*RTCP still arrives", "the service sends no media"),
    ("loss", "decartcongestion", r"the remote peer reports \d+ % loss", "use a better network, or lower max-bitrate"),
]

LINE = re.compile(
    r"^\S+\s+\d+\s+0x\S+\s+(?P<level>[A-Z]+)\s+(?P<category>\S+)\s+\S+?:\d+:\S*\s+(?P<text>.*)$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def explain(lines):
    """Returns (cause, remedy, line) for each cause, in the order of its first line."""
    found = {}
    for line in lines:
        line = COLOUR.sub("", line.rstrip("\n"))
        match = LINE.match(line)
        if not match:
            continue
        for cause, category, pattern, remedy in CAUSES:
            if match["category"] == category and re.search(pattern, match["text"]):
                found.setdefault(cause, (cause, remedy, match["text"]))
                break
    return list(found.values())


def main():
    if "--help" in sys.argv:
        return print(__doc__)
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and sys.argv[1].startswith("-")):
        sys.exit(__doc__)
    try:
        stream = open(sys.argv[1], errors="replace") if len(sys.argv) == 2 else sys.stdin
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error.strerror}")
    with stream:
        causes = explain(stream)
    for cause, remedy, text in causes:
        print(f"{cause}: {remedy}\n    {text}")
    if not causes:
        print("no known cause")
    return 0 if causes else 1


if __name__ == "__main__":
    sys.exit(main())
