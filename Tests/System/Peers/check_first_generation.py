"""Tests the stand-in with the last official SDK of the protocol's first generation (`decart` 0.0.39, on aiortc).

That SDK needs all of the service's candidates in the answer: it cannot apply one that arrives as a message. The stand-in is
strict: it refuses whatever its tables of the SDKs do not have.

Runs in a network namespace of its own, because aiortc ignores the loopback interface, and the SDK configures a public
STUN server that must not be contacted. Prints "ok NAME", "not ok NAME: why" or "skip NAME: why" per check, the format
that scripts/test reads.
"""

import asyncio
import contextlib
import logging
import struct
import sys
import zlib

from check_rooms import ADDRESS, LIMIT, enter_namespace
from checks import Results
from standin import StandIn

WIDTH, HEIGHT = 640, 352
# A grey frame has chroma 128; the codec's error stays below this.
GREY = 8


class Failed(Exception):
    pass


class Problems(logging.Handler):
    """Collects all warnings and errors that the SDK logs."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())

    def unexpected(self):
        """Returns all except those about `status`, the only message of the stand-in that the SDK does not know."""
        return [line for line in self.lines if "Input tag 'status'" not in line]


def camera():
    """Returns a track with blue frames, 20 a second."""
    import av
    import numpy
    from aiortc import VideoStreamTrack

    class Camera(VideoStreamTrack):
        async def recv(self):
            await asyncio.sleep(0.05)
            pts, time_base = await self.next_timestamp()
            pixels = numpy.empty((HEIGHT, WIDTH, 3), numpy.uint8)
            pixels[...] = (30, 60, 200)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = pts, time_base
            return frame

    return Camera()


class Screen:
    """Counts the frames of the returned track and records size and colour of the latest one."""

    def __init__(self):
        self.frames = 0
        self.size = None
        self.is_grey = None
        self.changed = asyncio.Event()
        self.task = None

    def show(self, track):
        if track.kind == "video":
            self.task = asyncio.ensure_future(self.watch(track))

    async def watch(self, track):
        from aiortc.mediastreams import MediaStreamError
        try:
            while True:
                frame = await track.recv()
                pixels = frame.to_ndarray(format="yuv420p")
                luma = HEIGHT * WIDTH
                chroma = pixels.reshape(-1)[luma:].astype(int)
                self.frames += 1
                self.size = (frame.width, frame.height)
                self.is_grey = bool(abs(chroma - 128).max() <= GREY)
                self.changed.set()
        except MediaStreamError:
            pass

    async def wait(self, what, condition, seconds=LIMIT):
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError as error:
            raise Failed(
                f"{what} did not arrive: {self.frames} frames, size {self.size}, grey {self.is_grey}") from error

    async def wait_for_more(self, count, is_grey):
        start = self.frames
        await self.wait(f"{count} {'grey' if is_grey else 'coloured'} frames",
                        lambda: self.frames >= start + count and self.is_grey == is_grey)


def png(width=64, height=64):
    """Returns a red square as PNG."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff\0\0" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@contextlib.asynccontextmanager
async def connected(url, model, prompt=None):
    """A client of the SDK, and what it shows."""
    from decart import models
    from decart.realtime.client import RealtimeClient
    from decart.realtime.types import RealtimeConnectOptions
    from decart.types import ModelState, Prompt

    screen = Screen()
    state = ModelState(prompt=Prompt(text=prompt, enhance=False)) if prompt else None
    options = RealtimeConnectOptions(
        model=models.realtime(model), on_remote_stream=screen.show, initial_state=state)
    async with asyncio.timeout(LIMIT):
        client = await RealtimeClient.connect(url, "any-key", camera(), options)
    try:
        yield client, screen
    finally:
        await client.disconnect()


def check_ticks(ticks):
    if ticks != list(range(ticks[0], ticks[0] + len(ticks))):
        raise Failed(f"the ticks are {ticks}")


async def refuse_prompt(client, screen):
    """A refused prompt raises an error, while the session and its look continue."""
    from decart.errors import DecartSDKError
    await screen.wait_for_more(5, is_grey=True)
    try:
        await client.set_prompt("refuse-me", enhance=False)
    except DecartSDKError:
        await screen.wait_for_more(10, is_grey=True)
    else:
        raise Failed("the refused prompt was reported as accepted")


async def view(url, client, viewed, count):
    """A viewer with the client's subscribe token gets so many grey frames on the screen `viewed`."""
    from decart.realtime.client import RealtimeClient
    from decart.realtime.subscribe import SubscribeOptions
    options = SubscribeOptions(token=client.subscribe_token, on_remote_stream=viewed.show)
    async with asyncio.timeout(LIMIT):
        viewer = await RealtimeClient.subscribe(url, "any-key", options)
    try:
        await viewed.wait_for_more(count, is_grey=True)
    finally:
        await viewer.disconnect()


async def publish(url, _):
    """Checks the first prompt, frames, a later prompt and ticks."""
    async with connected(url, "lucy-restyle-2", "Noir film") as (client, screen):
        ticks = []
        client.on("generation_tick", lambda tick: (ticks.append(tick.seconds), screen.changed.set()))
        await screen.wait_for_more(20, is_grey=True)
        if screen.size != (WIDTH, HEIGHT):
            raise Failed(f"the frames have the size {screen.size}")
        await client.set_prompt("Lego World", enhance=False)
        await screen.wait_for_more(10, is_grey=False)
        await screen.wait("two ticks", lambda: len(ticks) >= 2)
        check_ticks(ticks)
        if not client.is_connected():
            raise Failed(f"the SDK is {client.get_connection_state()}")


async def refuse(url, _):
    async with connected(url, "lucy-restyle-2", "Noir film") as (client, screen):
        await refuse_prompt(client, screen)


async def image(url, _):
    """Connects without a state, then sets a reference image."""
    async with connected(url, "lucy-2.1") as (client, screen):
        await screen.wait_for_more(5, is_grey=False)
        await client.set_image(png(), prompt="Noir film", enhance=False)
        await screen.wait_for_more(5, is_grey=False)


async def watch(url, _):
    async with connected(url, "lucy-restyle-2", "Noir film") as (client, screen):
        await screen.wait_for_more(5, is_grey=True)
        await view(url, client, Screen(), 15)
        await screen.wait_for_more(5, is_grey=True)


CHECKS = [
    ("first generation: prompts, frames and ticks", publish),
    ("first generation: a refused prompt", refuse),
    ("first generation: a reference image", image),
    ("first generation: a viewer", watch),
]


def check(body):
    """Returns the reason of the failure, or None. The body gets the address of a strict stand-in, and the stand-in."""
    problems = Problems()
    logger = logging.getLogger("decart")
    logger.addHandler(problems)
    logger.propagate = False
    standin = StandIn("--host", ADDRESS, "--strict")
    try:
        asyncio.run(asyncio.wait_for(body(standin.url, standin), 2 * LIMIT))
        if problems.unexpected():
            return "the SDK logs: " + "; ".join(problems.unexpected()).replace("\n", " ")[:1000]
        if standin.process.poll() is not None:
            return f"the stand-in ended with {standin.process.returncode}"
        return None
    except Exception as error:  # pylint: disable=broad-exception-caught  # any exception of the SDK fails this check
        problems = "; ".join(problems.unexpected()).replace("\n", " ")[:1000]
        return f"{type(error).__name__}: {error} (the SDK's log: {problems})".replace("\n", " ")
    finally:
        logger.removeHandler(problems)
        standin.close()


def main():
    report = Results("first generation")
    problem = enter_namespace()
    if problem:
        report.skip(f"no network namespace: {problem}")
        return 0
    for name, body in CHECKS:
        if len(sys.argv) < 2 or sys.argv[1] in name:
            report(name, check(body))
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
