#!/usr/bin/python3
"""Seeds of the fuzz targets: small valid inputs, which the fuzzer mutates.

    seeds.py FOLDER    writes a folder for each target
"""

import base64
import os
import re
import struct
import sys
import zlib

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

be, le = (lambda value, size: value.to_bytes(size, "big")), (lambda value, size: value.to_bytes(size, "little"))


def png(*extra):
    def chunk(kind, data):
        return be(len(data), 4) + kind + data + be(zlib.crc32(kind + data), 4)
    inner = b"".join(chunk(kind, data) for kind, data in extra)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)) + inner
            + chunk(b"IDAT", zlib.compress(bytes(16 * 49))) + chunk(b"IEND", b""))


def tiff(order, fields):
    pack = be if order == b"MM" else le
    entries = b"".join(pack(tag, 2) + pack(kind, 2) + pack(count, 4) + (value if isinstance(value, bytes) else pack(value, 4))
                       for tag, kind, count, value in fields)
    return order + pack(42, 2) + pack(12, 4) + b"\x09" * 4 + pack(len(fields), 2) + entries + pack(0, 4)


def jpeg(*segments):
    inner = b"".join(b"\xff" + bytes([marker]) + be(len(data) + 2, 2) + data for marker, data in segments)
    frame = b"\xff\xc0" + be(11, 2) + b"\x08" + be(16, 2) + be(16, 2) + b"\x01\x01\x11\x00"
    return b"\xff\xd8" + inner + frame + b"\xff\xda" + be(4, 2) + b"\0\0\x01\x02\xff\0\x03\xff\xd9"


def webp(*chunks):
    body = b"".join(kind + le(len(data), 4) + data + b"\0" * (len(data) % 2) for kind, data in chunks)
    return b"RIFF" + le(len(body) + 4, 4) + b"WEBP" + body


def images():
    lossy = b"\0\0\0\x9d\x01\x2a" + le(16, 2) + le(16, 2)
    turned = b"Exif\0\0" + tiff(b"MM", [(0x112, 3, 1, be(6, 2) + b"\0\0")])
    strips = [(256, 4, 1, 16), (257, 4, 1, 16), (273, 4, 1, 8), (279, 4, 1, 4)]
    tiles = [(256, 4, 1, 16), (257, 4, 1, 16), (324, 4, 1, 8), (325, 4, 1, 4)]
    yield from (png(), png((b"tEXt", b"Author\0me"), (b"eXIf", tiff(b"II", strips))), png((b"acTL", bytes(8))))
    yield from (jpeg(), jpeg((0xe0, b"JFIF\0"), (0xe1, turned), (0xfe, b"me")), jpeg((0xed, b"Photoshop")))
    yield jpeg()[:-2] + jpeg((0xeb, b"JP"))[2:] + jpeg((0xe1, turned))
    yield from (webp((b"VP8 ", lossy)), webp((b"VP8L", b"\x2f" + le(15 | 15 << 14, 4))))
    yield webp((b"VP8X", b"\x0c\0\0\0" + le(15, 3) + le(15, 3)), (b"VP8 ", lossy), (b"EXIF", turned), (b"XMP ", b"<x/>"))
    yield from (tiff(b"II", strips), tiff(b"MM", strips), tiff(b"II", tiles), tiff(b"MM", strips + tiles), tiff(b"II", strips * 2))
    yield tiff(b"II", [(256, 3, 1, 16), (257, 3, 1, 16), (273, 3, 40, 4), (279, 3, 40, 4)])


def packets():
    report = b"\x81\xc9\0\x07" + bytes(4) + be(1, 4) + bytes(20)
    sender = b"\x80\xc8\0\x06" + be(7, 4) + bytes(20)
    remb = b"\x8f\xce\0\x05" + bytes(8) + b"REMB\x01\x12\x6b\x4a" + be(9, 4)
    feedback = b"\x8f\xcd\0\x06" + bytes(8) + be(1, 2) + be(14, 2) + be(5, 3) + b"\x01" + b"\x20\x07\xd5\x55" + bytes(4)
    nack = b"\x81\xcd\0\x03" + bytes(8) + be(1, 2) + be(0xffff, 2)
    padded = b"\xa0\xc9\0\x02" + bytes(7) + b"\x04"
    for part in (report, sender, remb, feedback, nack, padded, report + remb + feedback, sender + nack + padded):
        yield b"\x01" + part
    plain = b"\x80\x60" + be(1, 2) + be(2, 4) + be(3, 4)
    for extension in (b"", b"\xbe\xde\0\x02\x10f\x22\0\0\0\x31\0", b"\x10\0\0\x01\x01\x02\0\0", b"\xbe\xde\0\x01\xf0\0\0\0"):
        yield b"\0" + (bytes([plain[0] | (0x10 if extension else 0)]) + plain[1:]) + extension + b"payload"
    # Redundant audio: one packet with a copy, and one with two that is cut off.
    for payload in (b"\xef\x0f\0\x03\x6f\xf8\x01\x02\xf8\x03\x04", b"\xef\x1e\0\x03\xef\x0f\0\x08\x6f\xf8\x01\x02\xf8"):
        yield b"\0\x80\x3f" + be(1, 2) + be(960, 4) + be(3, 4) + payload
    yield b"\x02" + b"\x90\x0c\0\x9d\x01\x2a" + le(640, 2) + le(352, 2) + bytes(8)
    yield b"\x03" + bytes.fromhex("82498342104ff01600") + bytes(8)
    yield b"\x03" + bytes.fromhex("86" "00" "4008") + bytes(8) + b"\xc1\x02\x02\xc1"
    # Two layers of VP9 in one frame, as K-SVC has them.
    yield b"\x03" + b"".join(bytes([0x80, marker, 0, 1, 0, 0, 0, 1, 0, 0, 0, 77, 0xac, 0x92, 1, layer, 9, 0x86, *range(6)])
                             for marker, layer in ((0x62, 0), (0xe2, 2)))
    yield b"\x03" + bytes.fromhex("ae9205000938028001600500 02c002040148010286".replace(" ", ""))
    yield b"\x04" + bytes.fromhex("000000016764002 8acd940780227e5c0440000030004000003 00f03c60c658".replace(" ", ""))
    # Frames of the LiveKit SDK with time and number, and one with bytes of the application.
    yield b"\x05" + bytes.fromhex("0000000161e0007e408e0328e89c10e128fef7fff99f1813b28ff9fdfbfffffff6ea4c4b5453")
    yield b"\x05" + bytes.fromhex("00fcfcfefdfcf54c4b5453")
    for packet in (b"\xfc\xff\xfe", b"\x79" + bytes(10), b"\x0b\x03" + bytes(30), b"\xe3\x86\x01\x02" + bytes(9)):
        yield b"\x06" + packet
    yield b"\x04" + bytes.fromhex("0000016742c015d90141fb016a0c0c0d4a00000165888400")


def responses():
    def response(status, body, *fields):
        head = "\r\n".join([f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body)}"])
        return head.encode() + b"\r\n\r\n" + body
    json = "Content-Type: application/json"
    yield response("200 OK", b'{"apiKey":"k","expiresAt":"2026-01-01T00:00:00Z","token":"a.b.c"}', json)
    yield response("200 OK", b'{"api_key":"k","constraints":{"maxSessionDuration":60}}', json)
    claims = base64.urlsafe_b64encode(b'{"constraints":{"realtime":{"maxSessionDuration":60}}}').rstrip(b"=")
    yield response("200 OK", b'{"token":"e30.' + claims + b'.c2ln"}', json)
    for quota in (b'{"limit":2,"active":3,"remaining":-1}', b'{"limit":null,"active":null,"remaining":null}'):
        yield response("200 OK", quota, json)
    yield response("402 Payment Required", b'{"detail":[{"msg":"x","error_type":"insufficient_credits"}]}', json)
    yield response("401 Unauthorized", b'{"error":"\x1b]0;x\x07 canary-0123456789"}', json)
    yield response("503 Busy", b"later\r\n", "Content-Type: text/plain", "Retry-After: 7")
    yield response("302 Found", b"", "Location: http://elsewhere/")
    for location in ("../resources/1?secret=1", "/a/./b/../c#x", "?q", "//other.example/x", "https://[::1]:1/", "a:b"):
        yield response("201 Created", b"v=0\r\n", f"Location: {location}", 'ETag: "1"', "Content-Type: application/sdp")
    yield response("302 Found", b"", *(f"Location: rtsp{rest}" for rest in ("t://camera.example/a", "://a:b@c:9/d", "s://[::1]/")))
    links = '<turn:a.example?transport=tcp>; rel="ice-server"; username="a\\"b"; credential=c;d, <stun:b>;rel=ice-server, <x>;'
    yield response("201 Created", b"v=0\r\n", f"Link: {links}", "Link: <turn:c>; rel=\"x ice-server\"; USERNAME = u")
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n"
    yield b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n\x81\0"
    yield b"HTTP/1.0 404 None\r\nContent-Type: text/plain\r\n\r\nno such session"


def frames():
    """A stream of frames from a client, and the same from a server; streams that break a rule each."""
    def stream(key, *parts):
        for first, payload in parts:
            length, mask = len(payload), 0x80 if key else 0
            yield bytes([first]) + (bytes([mask | length]) if length < 126 else bytes([mask | 126]) + be(length, 2))
            yield key + bytes(byte ^ (key[at % 4] if key else 0) for at, byte in enumerate(payload))
    text, close = "aé€😀".encode(), be(1000, 2) + "why é".encode()
    good = (1, text[:2]), (0x89, b"ping"), (0, text[2:7]), (0x8a, b""), (0x80, text[7:]), (0x82, bytes(130)), (0x81, b"")
    bad = (1, b"\xff"), (0x80, b"x"), (0xc1, b""), (0x83, b""), (9, b""), (0x88, be(1005, 2)), (0x88, b"x"), (0x82, bytes(5000))
    for key in b"", b"\x37\xfa\x21\x3d":
        for parts in ((*good, (0x88, close)), (*good, (0x88, b""), *good), *(((0x81, text), part) for part in bad)):
            yield b"".join(stream(key, *parts))
        yield b"".join(stream(key, (2, b"1"), *[(0, b"2")] * 9))
        yield bytes([0x82, 0xff if key else 0x7f]) + be(1 << 63, 8)


def requests():
    upgrade = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    for text in (f"GET /v1/stream?model=x HTTP/1.1\r\nHost: a:1\r\n{upgrade}\r\n\r\n\x01\x02",
                 "\r\nPOST /a HTTP/1.1\r\nHost:a\r\nContent-Length: 2, 2\r\n\r\nhiGET / HTTP/1.0\r\n\r\n",
                 "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;x=\"y\"\r\nhi\r\n0\r\nA: b\r\n\r\n",
                 "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nProxy-Authorization: Basic YTpi\r\n\r\n\x16\x03\x01"):
        yield text.encode("latin-1")
    yield b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: a\r\n\r\nHTTP/1.1 404 No\nA: b\n c\nContent-Length: 1\n\nx"
    yield b"HTTP/1.1 200\r\nTransfer-Encoding: , Chunked\r\nContent-Length: 9\r\n\r\n0A \r\n0123456789\r\n0\n\n"


def descriptions():
    """A complete one, an almost empty one, one with simulcast, and one of an ICE restart."""
    offer = "\r\n".join((
        "v=0", "o=- 1 2 IN IP4 127.0.0.1", "s=-", "t=0 0", "a=group:BUNDLE 0", "m=video 9 UDP/TLS/RTP/SAVPF 96 97",
        "c=IN IP4 0.0.0.0", "a=ice-ufrag:SAMP", "a=ice-pwd:0123456789abcdefghijklmn",
        "a=fingerprint:sha-256 7B:8B:F0:65:5F:78:E2:51:3B:AC:6F:F3:3F:46:1B:35:DC:B8:5F:64:1A:24:C2:43:F0:A1:58:D0:A1:2C:19:08",
        "a=setup:active", "a=mid:0", "a=extmap:2 http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time", "a=sendrecv",
        "a=rtcp-mux", "a=rtpmap:96 VP8/90000", "a=rtcp-fb:96 nack pli", "a=rtpmap:97 rtx/90000", "a=fmtp:97 apt=96", ""))
    simulcast = offer.replace("a=sendrecv", (
        "a=extmap:5 urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id\r\na=rid:f send\r\na=rid:q send\r\n"
        "a=simulcast:send f;~h,q;q recv x\r\na=sendonly"))
    candidate = "a=candidate:1 1 UDP 2130706431 127.0.0.1 40000 typ host ufrag "
    restart = offer.replace("SAMP", "NEXT").replace("0123456789", "abcdefghij")
    restart += f"{candidate}NEXT\r\n{candidate}SAMP\r\na=end-of-candidates\r\n"
    yield from (text.encode() for text in (offer, "v=0\r\nm=video 9 X 1\r\n", simulcast, restart))


RECORDING = b"""{"recording":"decart-control","format":1}
{"attempt":1,"ms":0,"event":"opened"}
{"attempt":1,"ms":3,"event":"sent","type":"prompt"}
{"attempt":1,"ms":5,"event":"received","message":{"type":"prompt_ack","prompt":"prompt-1","success":false,"error":"x"}}
{"attempt":1,"ms":6,"event":"received","message":{"type":"answer"}}
{"attempt":1,"ms":7,"event":"closed","code":1011,"reason":"x"}
{"attempt":2,"ms":9,"event":"failed","status":503,"reason":"x"}
{"attempt":3,"ms":9,"event":"left"}
"""


def messages():
    """A message of every type, and a recording."""
    with open(f"{TESTS}/DecartProtocolTests/ServerMessageTests.swift", encoding="utf-8") as file:
        yield from (text.encode() for text in sorted(set(re.findall(r'\{"type":[^#\n]*\}', file.read()))))
    yield RECORDING


def signals():
    """Messages that LiveKit's own package encoded."""
    with open(f"{TESTS}/LiveKitProtocolTests/GoldenFrames.swift", encoding="utf-8") as file:
        for frame in re.findall(r'"""\s*([0-9a-f\s]+?)\s*"""', file.read().replace("\\\n", "")):
            yield bytes.fromhex("".join(frame.split()))


def records():
    """The first byte chooses the end, its state, and records (in pieces) or changes of a handshake (offset and bits)."""
    def record(kind, body):
        return bytes([kind, 3, 3]) + be(len(body), 2) + body
    hello = b"\x03\x03" + bytes(32) + b"\0\xc0\x2b\0" + be(5, 2) + b"\xff\x01\0\x01\0"
    flight = record(22, b"\x02" + be(len(hello), 3) + hello) + record(22, b"\x0b\0\0\x03\0\0\0")
    alert = record(21, b"\x02\x28")
    yield from (b"\0" + flight, b"\x28" + flight, b"\0" + alert, b"\x01GET / HTTP/1.1\r\n\r\n")
    yield from (b"\x02" + record(23, bytes(40)), b"\x03" + record(23, bytes(40)))
    for choice in range(4, 8):
        yield bytes([choice]) + b"\x02\x01\0\0\x20\0\x10\x04"


def attributes(kind, *values):
    """A STUN message without its transaction, which the target writes."""
    body = b"".join(be(name, 2) + be(len(value), 2) + value + b"\0" * (-len(value) % 4) for name, value in values)
    return be(kind, 2) + be(len(body), 2) + bytes(16) + body


def streams():
    """The first byte chooses the parser: TURN over TCP, ICE-TCP, answers of a server, a candidate."""
    cookie = b"\x21\x12\xa4\x42"
    message = b"\x01\x03\0\x08" + cookie + bytes(12) + b"\0\x01\0\x04data"
    channels = b"\x40\x01\0\x05hello\0\0\0" + b"\x4f\xff\0\0" * 3
    yield from (b"\0" + message + channels + message, b"\0" + channels + b"\x16\x03\x03", b"\0" + message[:7] + b"\0" * 9)
    for use in b"\x01", b"\x05":
        yield use + b"\0\x05hello\0\0\0\x01x" + b"\x08\x01" + bytes(2049) + b"\0\x02ok"
        yield use + b"\0\x01\xff" * 300
    relay = attributes(0x0103, (0x16, b"\0\x01\x21\x12\x21\x12\xa4\x42"))
    unauthorized, stale, quota = (
        attributes(0x0113, (9, bytes([0, 0, code // 100, code % 100]) + b"why"), (0x14, b"realm"), (0x15, b"nonce"))
        for code in (401, 438, 486))
    for answers in ((unauthorized, relay), (unauthorized, stale, stale), (unauthorized, unauthorized), (quota,)):
        yield b"\x02" + b"".join(be(len(answer), 2) + answer for answer in answers)
    mapped = attributes(0x0101, (1, b"\0\x01\0\x50\xc0\0\x02\x07"))
    yield b"\x06" + be(len(mapped), 2) + mapped
    for line in ("candidate:1 1 udp 2130706431 192.0.2.1 40000 typ host generation 0 ufrag abcd network-id 1",
                 "a=candidate:+/ 1 TCP 1 2001:db8::1 9 typ srflx raddr 10.0.0.1 rport 9 tcptype passive\r\n",
                 "candidate:1 1 udp 1 x.local 9 typ host", "candidate:1 2 UDP 1 127.0.0.1 65535 TYP relay"):
        yield b"\x03" + line.encode()


for name, seeds in (("sdp", descriptions()), ("message", messages()), ("room", signals()), ("image", images()),
                    ("packet", packets()), ("http", (*responses(), *requests())), ("websocket", frames()),
                    ("tls", records()), ("ice", streams())):
    folder = os.path.join(sys.argv[1], name)
    os.makedirs(folder, exist_ok=True)
    for number, seed in enumerate(seeds):
        with open(os.path.join(folder, f"seed{number}"), "wb") as file:
            file.write(seed)
