"""Watches a mountpoint of Janus' streaming plugin with aiortc, and writes each frame as 16 x 16 pixels of RGB.

    janus_viewer.py --url http://127.0.0.1:8088/janus --frames FILE [--mountpoint ID]

Speaks Janus' HTTP interface: a session, the plugin's handle, "watch", the answer to its offer, and a long poll for
events. Runs until it is ended, or ends with a status as soon as Janus or the mountpoint fails.
"""

import argparse
import asyncio
import json
import sys
import urllib.request
import uuid

from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError


class Handle:
    """A handle of the plugin in a session of its own."""

    def __init__(self, url):
        self.url = url
        self.url = f"{url}/{self.post({'janus': 'create'})['data']['id']}"
        self.session = self.url
        self.url += f"/{self.post({'janus': 'attach', 'plugin': 'janus.plugin.streaming'})['data']['id']}"

    def post(self, body):
        request = urllib.request.Request(self.url, json.dumps({**body, "transaction": uuid.uuid4().hex}).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=5) as response:
            reply = json.load(response)
        if reply["janus"] not in ("success", "ack"):
            raise RuntimeError(f"Janus answers {reply}")
        return reply

    def event(self):
        """The next event of the session. Janus answers a poll without one after 30 s."""
        with urllib.request.urlopen(f"{self.session}?maxev=1", timeout=40) as response:
            return json.load(response)


async def record(track, path):
    with open(path, "ab", buffering=0) as file:
        while True:
            frame = await track.recv()
            small = frame.reformat(width=16, height=16, format="rgb24", interpolation="AREA")
            file.write(small.to_ndarray().tobytes())


async def watch(options):
    handle = await asyncio.to_thread(Handle, options.url)
    await asyncio.to_thread(handle.post, {"janus": "message", "body": {"request": "watch", "id": options.mountpoint}})
    # aiortc's default is a public STUN server.
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    tasks = []
    peer.on("track", lambda track: tasks.append(asyncio.create_task(record(track, options.frames))))
    while True:
        event = await asyncio.to_thread(handle.event)
        failure = event.get("plugindata", {}).get("data", {}).get("error")
        if failure or event["janus"] == "hangup" or any(task.done() for task in tasks):
            raise RuntimeError(f"Janus ends the stream: {failure or event}")
        if "jsep" in event:
            await peer.setRemoteDescription(RTCSessionDescription(event["jsep"]["sdp"], event["jsep"]["type"]))
            await peer.setLocalDescription(await peer.createAnswer())
            answer = {"type": "answer", "sdp": peer.localDescription.sdp}
            await asyncio.to_thread(handle.post, {"janus": "message", "body": {"request": "start"}, "jsep": answer})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--frames", required=True)
    parser.add_argument("--mountpoint", type=int, default=1)
    try:
        asyncio.run(watch(parser.parse_args()))
    except (OSError, RuntimeError, MediaStreamError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


main()
