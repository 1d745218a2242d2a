#!/usr/bin/python3
"""Checks that a reference image is sent without its metadata, and still has the same pixels.

ffmpeg, ImageMagick and exiftool make JPEG, PNG, WebP and TIFF files with EXIF, GPS, XMP, IPTC, comments, thumbnails, further
images, films and manifests; all of them contain a text. Each file is the reference-image of a pipeline with the built plugin,
whose service is a socket here. What arrives there must not contain the text, no metadata that exiftool finds, and must decode
to the pixels of the original, in its orientation. A TIFF file may be refused. scripts/test tries a file of each format, with
DECART_VERIFY=1 all.

Prints "ok NAME", "not ok NAME: why" or "skip NAME: why". Uses loopback only.
"""

import base64
import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "Host"))
from checks import VERIFYING, Results, end_process, gstreamer  # noqa: E402

LIMIT = 60  # s
MARK = b"planted-marker"
TEXT = MARK.decode()
SENT = "video/x-raw,width=320,height=240,framerate=25/1"
# What exiftool tells of an image without metadata. The orientation is compared by ImageMagick.
GROUPS = {"ExifTool", "System", "File", "JFIF", "PNG", "PNG-pHYs", "RIFF", "IFD0", "Adobe", "Composite", "ICC_Profile"}
PRIVATE = re.compile(r"^\[(?!" + "|".join(f"{each}\\]" for each in sorted(GROUPS)) + r")\S+\] .*|.*" + TEXT + ".*", re.M)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, timeout=LIMIT, stdin=subprocess.DEVNULL).stdout


# --- The files ---------------------------------------------------------------------------------------------------------

def segment(marker, data):
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def tag(path, *more):
    """Adds what a camera and a photo editor add."""
    run("exiftool", "-q", "-m", "-overwrite_original", *(f"-EXIF:{name}={TEXT}" for name in ("Artist", "UserComment", "Make")),
        "-EXIF:GPSLatitude=48.1", "-EXIF:GPSLatitudeRef=N", "-EXIF:GPSLongitude=11.5", "-EXIF:GPSLongitudeRef=E",
        f"-XMP:Creator={TEXT}", f"-XMP:Description={TEXT}", *more, path)


def between_scans(data, addition):
    """Puts segments in front of each scan but the first one, and behind the last one."""
    parts = re.split(rb"(?=\xff\xda)", data)
    return addition.join([parts[0] + parts[1], *parts[2:]])[:-2] + addition + data[-2:]


def make_jpegs(folder, base):
    path = f"{folder}/plain.jpg"
    thumbnail = f"{folder}/thumbnail"
    run("convert", base, "-resize", "80x60", "-set", "comment", TEXT, f"jpg:{thumbnail}")
    run("convert", base, "-quality", "90", path)
    extra = (f"-IPTC:By-line={TEXT}", f"-Comment={TEXT}", f"-ThumbnailImage<={thumbnail}", "-Orientation#=6")
    tag(path, *extra)
    plain = read(path)
    yield path
    manifest = segment(0xEB, b"JP" + MARK) + segment(0xE1, b"Exif\0\0" + MARK) + segment(0xFE, MARK)
    film = f"{folder}/film.mp4"
    run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=duration=0.2", "-metadata", f"title={TEXT}", film)
    yield written(folder, "multi-picture.jpg", plain[:2] + segment(0xE2, b"MPF\0" + MARK) + plain[2:] + plain)
    yield written(folder, "motion-photo.jpg", plain + read(film))
    yield written(folder, "trailer.jpg", plain + MARK + b"SEFT")
    yield written(folder, "thumbnail-in-jfif.jpg", plain[:2] + segment(0xE0, b"JFXX\0\x10" + read(thumbnail)) + plain[2:])
    for name, options in (("progressive", ("-interlace", "JPEG")), ("cmyk", ("-colorspace", "CMYK")),
                          ("grey", ("-colorspace", "Gray")), ("restarts", ("-define", "jpeg:restart-interval=4"))):
        path = f"{folder}/{name}.jpg"
        run("convert", base, *options, path)
        tag(path, *extra)
        write(path, between_scans(read(path), manifest))
        yield path


def written(folder, name, data):
    write(f"{folder}/{name}", data)
    return f"{folder}/{name}"


def make_pngs(folder, base):
    for name, options in (("true-color", ()), ("palette", ("-type", "PaletteAlpha", "-colors", "16", "-transparent", "red")),
                          ("interlaced", ("-interlace", "PNG", "-depth", "16"))):
        path = f"{folder}/{name}.png"
        run("convert", base, "-set", "comment", TEXT, "-set", "Author", TEXT, *options, path)
        tag(path, f"-PNG:Comment={TEXT}")
        data = read(path)
        end = data.index(b"IEND") - 4
        additions = (chunk(b"caBX", MARK) + chunk(b"zTXt", b"Title\0\0" + zlib.compress(MARK)) + chunk(b"tIME", bytes(7))
                     + chunk(b"prVt", MARK))
        write(path, data[:end] + additions + data[end:] + MARK)
        yield path


def make_webps(folder, base):
    for name, options in (("lossy", ()), ("lossless", ("-define", "webp:lossless=true")),
                          ("alpha", ("-transparent", "red"))):
        path = f"{folder}/{name}.webp"
        run("convert", base, *options, path)
        tag(path)
        write(path, read(path) + MARK)
        yield path


def make_tiffs(folder, base):
    for name, options in (("none", ("-compress", "None")), ("lzw", ("-compress", "LZW")), ("deflate", ("-compress", "Zip")),
                          ("big-endian", ("-endian", "MSB", "-compress", "None")), ("pages", ("(", base, "-set", "comment", TEXT, ")"))):
        path = f"{folder}/{name}.tiff"
        run("convert", base, *options, path)
        tag(path, f"-IPTC:By-line={TEXT}", "-Orientation#=6")
        write(path, read(path) + MARK)
        yield path


# --- The service -------------------------------------------------------------------------------------------------------

class Service:
    """Accepts WebSocket connections one after the other and keeps the image of each."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self.listener.getsockname()[1]}"
        self.arrived, self.image = threading.Event(), None
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            with connection, connection.makefile("rb") as file:
                try:
                    self.speak(connection, file)
                except (OSError, struct.error, ValueError):
                    # The element has closed the connection.
                    pass

    def speak(self, connection, file):
        key = ""
        while (line := file.readline().strip()):
            name, _, value = line.decode().partition(":")
            key = value.strip() if name.lower() == "sec-websocket-key" else key
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                           b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        ready = b'{"type":"status","status":"ready"}'
        connection.sendall(bytes([0x81, len(ready)]) + ready)
        while True:
            kind, length = struct.unpack("BB", file.read(2))
            length &= 127
            if length > 125:
                length, = struct.unpack(">H" if length == 126 else ">Q", file.read(2 if length == 126 else 8))
            mask, data = file.read(4), file.read(length)
            if kind & 15 != 1:
                continue
            whole = (mask * (length // 4 + 1))[:length]
            message = json.loads((int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(length, "big"))
            image = message.get("image_data") or (message.get("initial_state") or {}).get("image_data")
            if image:
                self.image = base64.b64decode(image)
                self.arrived.set()


def send(service, path, environment):
    """Returns what arrives, or None and what the element says."""
    service.arrived.clear()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            ["gst-launch-1.0", "-q", "videotestsrc", "is-live=true", "!", SENT, "!", "decarttransform", f"base-url={service.url}",
             "api-key=x", "prompt=x", "transport=webrtc", "model=lucy-2.1", f"reference-image={path}", "!", "fakesink"],
            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        for _ in range(10 * LIMIT):
            if service.arrived.wait(0.1) or process.poll() is not None:
                break
        end_process(process)
        log.seek(0)
        return (service.image, "") if service.arrived.is_set() else (None, log.read().decode(errors="replace"))


# --- The judgement -----------------------------------------------------------------------------------------------------

def pixels(path):
    """Size, orientation and samples of the first image; without the conversions that a viewer applies."""
    return (run("identify", "-format", "%wx%h %[orientation]\n", f"{path}[0]").splitlines()[0],
            hashlib.sha256(run("convert", f"{path}[0]", "-depth", "16", "rgba:-")).hexdigest())


def problem(path, sent):
    if MARK not in read(path):
        return "the marker is not in the file: a fault of this check"
    if MARK in sent:
        return f"the marker is sent: {sent[max(0, sent.index(MARK) - 20):][:60]!r}"
    copy = f"{path}.sent{os.path.splitext(path)[1]}"
    write(copy, sent)
    told = PRIVATE.search(run("exiftool", "-a", "-u", "-G1", "-s", copy).decode(errors="replace"))
    if told:
        return f"exiftool finds {told[0]}"
    before, after = pixels(path), pixels(copy)
    return "" if before == after else f"the image was {before[0]!r} and is {after[0]!r}, or has other pixels"


def main():
    report = Results("images")
    missing = [name for name in ("ffmpeg", "convert", "exiftool", "gst-launch-1.0") if not shutil.which(name)]
    if missing:
        report.skip(f"no {', '.join(missing)}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        environment = gstreamer(folder, os.environ)
        environment.pop("DECART_API_KEY", None)
        base, service = f"{folder}/base.png", Service()
        run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x120:duration=0.1", "-frames:v", "1", base)
        for make in (make_jpegs, make_pngs, make_webps, make_tiffs):
            for path in itertools.islice(make(folder, base), None if VERIFYING else 1):
                name = os.path.basename(path)
                sent, said = send(service, path, environment)
                if sent is None:
                    is_refused = name.endswith(".tiff") and "TIFF" in said
                    report(name, "" if is_refused else f"nothing is sent: {said}", "refused")
                else:
                    report(name, problem(path, sent), f"{len(sent)} bytes")
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
