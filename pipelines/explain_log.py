#!/usr/bin/env python3
"""Reads a log of the elements, or what gst-launch-1.0 and decart-standin print, and names the cause of the failures in it.

    GST_DEBUG='decart*:INFO' gst-launch-1.0 … 2>&1 | tee decart.log
    pipelines/explain_log.py decart.log

Prints one line for each cause: its short name, the remedy, and the line of the log that shows it. The exit status is 0
if a cause was found, and 1 if not.
"""

import re
import sys

# Short name, remedy, texts of the sources with "…" for any text. The first row with a text in a line decides about the line.
CAUSES = [
    ("no-key", "set DECART_API_KEY or api-key-file", ["No API key: set", "The API key is empty", "that api-key-file names cannot be read"]),
    ("key", "check the API key", ["rejected the API key", "Check the key and whether it permits"]),
    ("credits", "top up the account's credits", ["INSUFFICIENT_CREDITS"]),
    ("key-url", "check api-key-url and that backend", ["No API key from api-key-url"]),
    ("base-url", "correct base-url", ["base-url…must begin with", "base-url…must not carry", "base-url…has no valid host and port"]),
    ("unencrypted", "use wss://, or set insecure=true", ["is unencrypted and …is another machine"]),
    ("model", "correct model, or set width, height and framerate", ["The frame size and rate of the model", "MODEL_NOT_FOUND"]),
    ("image", "correct reference-image, or set a model that takes images",
     ["The reference image cannot be read", "The reference image is", "The reference image has", "is not known to take reference images"]),
    ("prompt", "correct prompt", ["The prompt has"]),
    ("ports", "correct rtp-port-range, or free its ports", ["rtp-port-range must be", "o UDP port from"]),
    ("ice-servers", "correct stun-server and turn-servers", ["stun-server or turn-servers:"]),
    ("proxy", "check http-proxy, and the proxy's log", ["The HTTP proxy", "http-proxy…must begin with"]),
    ("dns", "check base-url and the DNS server", ["is unknown. Check its spelling", "The name server did not answer"]),
    ("refused", "check base-url and that the service runs", ["The connection to …failed: "]),
    ("no-tls", "check scheme and port of base-url", ["does not use TLS on this port"]),
    ("tls-expired", "renew the certificate, or set the clock", ["The certificate of …has expired", "The certificate of …is not valid yet"]),
    ("tls-host", "use the host name of the certificate in base-url", ["The certificate of …is for another host name"]),
    ("tls-authority", "set ca-file", ["The certificate of …is not trusted"]),
    ("rate-limit", "start sessions more slowly, end other sessions, or raise the account's limit", ["admits no further session now"]),
    ("session-limit", "end other sessions, or raise the account's limit",
     ["Concurrent session limit reached", "CONCURRENCY_LIMIT", "is unavailable (HTTP "]),
    ("captive-portal", "log in to the network's portal, or check base-url",
     ["answered with a page instead", "redirects to another address"]),
    ("camera", "plug a camera in, or correct device and position", ["No camera"]),
    ("encoded-size", "encode the input as the model's size, or send raw video", [" pixels, but the model takes "]),
    ("profile", "encode the input as constrained-baseline", ["he service does not take H.264 of the profile"]),
    ("b-frames", "encode the input without B-frames", ["input has B-frames"]),
    ("videoconvert", "put videoconvert behind the element",
     ["Put videoconvert behind", "refused a buffer: …notLinked", "refused a buffer: …notNegotiated"]),
    ("no-video", "link video to the element's pad sink", ["no video is linked to the pad"]),
    ("no-codec", "set codec to one that the service knows", ["o video codec in common", "rejected the video"]),
    ("encoder", "install the package of the element, or correct encoder",
     ["A GStreamer element is missing", "is not installed", "he property encoder cannot be used", "INVALID_OPTIONS…, …media)", "INVALID_OPTIONS… in stage …media"]),
    ("turn-password", "check user and password in turn-servers", ["refused the connection or the allocation"]),
    ("no-turn", "check turn-servers and the firewall", ["TURN …did not answer within"]),
    ("fingerprint", "the path may be intercepted; do not go on", ["DTLS certificate of the remote peer does not match"]),
    ("dtls-timeout", "check that UDP of this size passes", ["no answer to the DTLS handshake"]),
    ("no-udp", "open UDP, or set turn-servers", ["no answer to the connectivity checks"]),
    ("no-acknowledgement", "the service is overloaded or does not know the message; try again later",
     ["did not acknowledge the first prompt", "not acknowledged within"]),
    ("prompt-refused", "change the prompt",
     ["prompt …: rejected after", "The prompt was not accepted", "The service reported an error: …initialState)", "SERVER_ERROR… in stage …initialState"]),
    ("path-lost", "the network path is down", ["nothing has arrived for …neither RTP nor RTCP"]),
    ("media-silent", "the service sends no media", ["no RTP has arrived for …; RTCP still arrives"]),
    ("loss", "use a better network, or lower max-bitrate", ["the remote peer reports …loss of our packets"]),
    ("port-in-use", "end the other program, or set --port", ["cannot listen"]),
    ("fault", "correct the fault: decart-standin --help lists names and keys", ["there is no fault", "has no key …; it has "]),
]
# Texts of gst-launch-1.0.
UPSTREAM = [
    ("property", "see the names and values in gst-inspect-1.0", ["could not set property", "no property \""]),
    ("plugin", "put the plugin on GStreamer's path: source pipelines/env.sh", ["no element \""]),
    ("link", "see the caps in gst-inspect-1.0; put videoconvert or a parser between", ["could not link "]),
]

LOG = re.compile(r"^\S+\s+\d+\s+0x\S+\s+[A-Z]+\s+(?P<category>\S+)\s+\S+?:\d+:\S*\s+(?P<text>.*)$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PATTERNS = [(cause, remedy, re.compile("|".join(".*".join(map(re.escape, text.split("…"))) for text in texts)))
            for cause, remedy, texts in CAUSES + UPSTREAM]


def explain(lines):
    """Returns (cause, remedy, line) for each cause, in the order of its first line."""
    found = {}
    for line in lines:
        text = COLOUR.sub("", line.rstrip("\n"))
        if log := LOG.match(text):
            if not log["category"].startswith("decart"):
                continue
            text = log["text"]
        for cause, remedy, pattern in PATTERNS:
            if pattern.search(text):
                found.setdefault(cause, (cause, remedy, text))
                break
    return list(found.values())


def main():
    if "--help" in sys.argv:
        return print(__doc__)
    if len(sys.argv) > 2:
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
