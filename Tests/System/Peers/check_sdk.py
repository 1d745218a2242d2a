"""Tests the stand-in with the newest official SDK on PyPI (`decart` 0.2.4, on LiveKit's SDK), which sends VP9 in layers.

    check_sdk.py [WORD...]

The stand-in is strict: it refuses whatever its tables of the SDKs do not have. scripts/test runs VP9 and the reconnect,
scripts/verify (DECART_VERIFY=1) all checks. With words, those whose name contains one of them. The SDK has no VP8 and no
audio; check_rooms.py has both with LiveKit's SDK. Runs in a network namespace of its own, as check_rooms.py does. Prints
"ok NAME", "not ok NAME: why" or "skip NAME: why".
"""

import asyncio
import sys

import check_first_generation
from check_first_generation import Failed, check_ticks, png, refuse_prompt, view
from check_rooms import LIMIT, enter_namespace
from checks import VERIFYING, Results

MODELS = ("lucy-2.1", "lucy-2.5", "lucy-2.6", "lucy-vton-3.5", "lucy-vton-3.6", "lucy-restyle-2", "lucy-latest",
          "lucy-vton-latest", "lucy-restyle-latest")


class Screen(check_first_generation.Screen):
    def show(self, track):
        self.task = asyncio.ensure_future(self.watch(track))

    def stop(self):
        if self.task:
            self.task.cancel()

    async def watch(self, track):
        from livekit import rtc
        from livekit_peer import mean_colour
        async for event in rtc.VideoStream(track):
            colour = mean_colour(event.frame)
            self.frames += 1
            self.size = (event.frame.width, event.frame.height)
            self.is_grey = max(colour) - min(colour) < 12
            self.changed.set()


class Session:
    """A client of the SDK that sends blue frames, and what it shows."""

    def __init__(self, url, model="lucy-restyle-2", prompt="Noir film", image=None, **options):
        self.url, self.model, self.prompt, self.image, self.options = url, model, prompt, image, options
        self.screen, self.ticks, self.states = Screen(), [], []

    async def __aenter__(self):
        from decart import models
        from decart.realtime.client import RealtimeClient
        from decart.realtime.types import RealtimeConnectOptions
        from decart.types import ModelState, Prompt
        from livekit import rtc
        from livekit_peer import HEIGHT, WIDTH, publish
        source = rtc.VideoSource(WIDTH, HEIGHT)
        self.track = rtc.LocalVideoTrack.create_video_track("camera", source)
        self.camera = asyncio.ensure_future(publish(source, asyncio.Event()))
        prompt = self.prompt and Prompt(text=self.prompt, enhance=False)
        state = ModelState(prompt=prompt, image=self.image) if prompt or self.image else None
        async with asyncio.timeout(LIMIT):
            self.client = await RealtimeClient.connect(self.url, "any-key", self.track, RealtimeConnectOptions(
                model=models.realtime(self.model), on_remote_stream=self.screen.show, initial_state=state, **self.options))
        self.client.on("generation_tick", lambda tick: (self.ticks.append(tick.seconds), self.screen.changed.set()))
        self.client.on("connection_change", lambda state: (self.states.append(state), self.screen.changed.set()))
        return self

    async def __aexit__(self, *_):
        self.camera.cancel()
        self.screen.stop()
        await self.client.disconnect()


def whole_session(codec):
    """Returns a check of frames, prompts, a reference image, ticks and a viewer."""
    async def body(url, _):
        from livekit_peer import note_sent
        async with Session(url, preferred_video_codec=codec) as session:
            screen, client = session.screen, session.client
            await screen.wait_for_more(60, is_grey=True)
            sent = {}
            await note_sent(session.track, sent)
            captured, encoded, requests = (sent[name] for name in ("frames_captured", "frames_encoded", "keyframe_requests"))
            # A busy machine loses packets.
            if requests > (3 if VERIFYING else captured // 10):
                raise Failed(f"{requests} keyframe requests for {captured} frames")
            # On a busy machine the SDK sends fewer layers.
            if codec == "vp9" and VERIFYING and encoded < 1.5 * captured:
                raise Failed(f"{encoded} frames of {captured} captured ones: the SDK sends no layers")
            viewed = Screen()
            await view(url, client, viewed, 5)
            viewed.stop()
            await client.set_prompt("Lego World", enhance=False)
            await screen.wait_for_more(5, is_grey=False)
            await client.set_image(png(), prompt="Noir film", enhance=False)
            await screen.wait_for_more(5, is_grey=False)
            await screen.wait("two ticks", lambda: len(session.ticks) > 1)
            check_ticks(session.ticks)
            if not client.session_id:
                raise Failed("there is no session id")
        if session.states[-1:] != ["disconnected"]:
            raise Failed(f"states {session.states}")
    return body


async def reconnect(url, standin):
    """The SDK dials again by itself, with a passthrough instead of the prompt."""
    async with Session(url) as session:
        await session.screen.wait_for_more(5, is_grey=True)
        session_id = session.client.session_id
        await asyncio.to_thread(standin.request, "POST", "/control/close", code=1012)
        await session.screen.wait("another session", lambda: session.client.session_id != session_id)
        await session.screen.wait_for_more(10, is_grey=False)
        if "reconnecting" not in session.states or not session.client.is_connected():
            raise Failed(f"states {session.states}")


async def each_model(url, _):
    for model in MODELS:
        async with Session(url, model) as session:
            await session.screen.wait_for_more(20, is_grey=True)


async def refused(url, _):
    async with Session(url) as session:
        await refuse_prompt(session.client, session.screen)


async def initial_image(url, _):
    async with Session(url, "lucy-2.1", prompt=None, image=png()) as session:
        await session.screen.wait_for_more(5, is_grey=False)


async def tiers(url, _):
    async with Session(url, "lucy-2.6", speed="fast", resolution="1080p") as session:
        await session.screen.wait_for_more(5, is_grey=True)


CHECKS = [
    ("a session with VP9", whole_session("vp9"), True),
    ("it reconnects", reconnect, True),
    ("a session with H.264", whole_session("h264"), False),
    ("all nine models", each_model, False),
    ("a refused prompt", refused, False),
    ("an image first", initial_image, False),
    ("speed and resolution", tiers, False),
]


def main():
    report = Results("SDK 0.2.4")
    try:
        import decart.realtime.client  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
    except ImportError as error:
        return report.skip(error)
    if (problem := enter_namespace()):
        return report.skip(f"no network namespace: {problem}")
    for name, body, is_short in CHECKS:
        if any(word in name for word in sys.argv[1:]) if len(sys.argv) > 1 else VERIFYING or is_short:
            report(name, check_first_generation.check(body))
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
