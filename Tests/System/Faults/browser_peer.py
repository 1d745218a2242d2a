"""Chromium as a peer: an independent judge of ICE restarts. Needs the package chromium and Python's websockets.

    browser_peer.py client WS-URL       a client of the stand-in: ../Host/browser_client.js
    browser_peer.py service HOST PORT   a service whose peer connection is Chromium's: it sends the client's video back

`client` prints one JSON line at its end. `service` prints "listening", then a JSON line for each offer that it has
answered, until it is killed.
"""

import json
import os
import sys

from websockets.sync.server import serve

HOST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Host")
sys.path.append(HOST)
from chromium import Chromium  # noqa: E402

SERVICE = """async offer => {
    window.peer ??= new RTCPeerConnection();
    window.candidates ??= [];
    peer.ontrack = event => { event.transceiver.direction = 'sendrecv'; event.transceiver.sender.replaceTrack(event.track); };
    peer.onicecandidate = event => { candidates.push(event.candidate && event.candidate.toJSON()); };
    await peer.setRemoteDescription({type: 'offer', sdp: offer});
    await peer.setLocalDescription(await peer.createAnswer());
    return peer.localDescription.sdp;
}"""


def call(browser, function, argument=None):
    """Calls a JavaScript function and returns what it resolves to."""
    return browser.call(f"({function})({json.dumps(argument)})", timeout=60)


def say(fields):
    print(json.dumps(fields) if not isinstance(fields, str) else fields, flush=True)


def attribute(sdp, name):
    return next((line.split(":", 1)[1] for line in sdp.splitlines() if line.startswith(f"a={name}:")), None)


def answer(browser, socket):
    """Plays the service for one client."""
    def send(**message):
        socket.send(json.dumps(message))

    send(type="status", status="ready")
    send(type="session_id", session_id="chromium")
    for text in socket:
        message = json.loads(text)
        if message["type"] == "prompt":
            send(type="prompt_ack", prompt=message["prompt"], success=True)
        elif message["type"] == "set_image":
            send(type="set_image_ack", success=True)
        elif message["type"] == "ice-candidate":
            call(browser, "candidate => window.peer && peer.addIceCandidate(candidate ?? undefined).catch(() => {})",
                 message["candidate"])
        elif message["type"] == "offer":
            sdp = call(browser, SERVICE, message["sdp"])
            send(type="answer", sdp=sdp)
            # All candidates follow as messages, while the element waits for them.
            call(browser, "() => new Promise(done => setTimeout(done, 300))")
            for candidate in call(browser, "() => candidates.splice(0)"):
                send(**{"type": "ice-candidate", "candidate": candidate})
            say({"ufrag": attribute(message["sdp"], "ice-ufrag"), "fingerprint": attribute(message["sdp"], "fingerprint"),
                 "ours": attribute(sdp, "ice-ufrag")})


def main():
    browser = Chromium()
    try:
        if sys.argv[1] == "client":
            with open(os.path.join(HOST, "browser_client.js"), encoding="utf-8") as file:
                say(call(browser, file.read(), {"url": sys.argv[2], "pause": 3000}))
        else:
            with serve(lambda socket: answer(browser, socket), sys.argv[2], int(sys.argv[3]), ping_interval=None) as server:
                say("listening")
                server.serve_forever()
    finally:
        browser.close()


if __name__ == "__main__":
    main()
