"""Chromium as a peer: an independent judge of ICE restarts. Needs the package chromium and Python's websockets.

    browser_peer.py client WS-URL       a client of the stand-in that sends a canvas, and restarts ICE twice
    browser_peer.py service HOST PORT   a service whose peer connection is Chromium's: it sends the client's video back

`client` prints one JSON line at its end. `service` prints "listening", then a JSON line for each offer that it has
answered, until it is killed.
"""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request

from websockets.sync.client import connect
from websockets.sync.server import serve

CLIENT = """async url => {
    const sleep = ms => new Promise(done => setTimeout(done, ms));
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [640, 352];
    let number = 0;
    setInterval(() => {
        const context = canvas.getContext('2d');
        context.fillStyle = 'rgb(200, 60, 30)';
        context.fillRect(0, 0, 640, 352);
        context.fillStyle = 'white';
        context.fillRect(number++ * 8 % 608, 300, 32, 32);
    }, 50);
    const socket = new WebSocket(url);
    const connection = new RTCPeerConnection();
    const arrived = {};
    const next = type => new Promise(done => { arrived[type] = done; });
    let ended = null;
    socket.onclose = event => { ended = event.code; };
    socket.onmessage = async event => {
        const message = JSON.parse(event.data);
        if (message.type === 'ice-candidate' && message.candidate) await connection.addIceCandidate(message.candidate);
        arrived[message.type]?.(message);
    };
    await new Promise(done => { socket.onopen = done; });
    const send = message => socket.send(JSON.stringify(message));
    connection.onicecandidate = event => send({type: 'ice-candidate', candidate: event.candidate && event.candidate.toJSON()});
    const acknowledged = next('prompt_ack');
    send({type: 'prompt', prompt: 'noir', enhance_prompt: false});
    await acknowledged;
    connection.addTrack(canvas.captureStream(20).getVideoTracks()[0]);
    const offer = async () => {
        await connection.setLocalDescription(await connection.createOffer());
        const answer = next('answer');
        send({type: 'offer', sdp: connection.localDescription.sdp});
        await connection.setRemoteDescription({type: 'answer', sdp: (await answer).sdp});
    };
    const facts = async () => {
        const all = [...(await connection.getStats()).values()];
        const inbound = all.find(each => each.type === 'inbound-rtp') ?? {};
        const transport = all.find(each => each.type === 'transport') ?? {};
        return {frames: inbound.framesDecoded ?? 0, dtls: transport.dtlsState, restarts: transport.selectedCandidatePairChanges,
                ufrag: /a=ice-ufrag:(.*)/.exec(connection.localDescription.sdp)[1].trim(),
                remote: /a=ice-ufrag:(.*)/.exec(connection.remoteDescription.sdp)[1].trim(),
                fingerprint: /a=fingerprint:(.*)/.exec(connection.remoteDescription.sdp)[1].trim()};
    };
    await offer();
    while ((await facts()).frames < 20) await sleep(50);
    const rounds = [await facts()];
    for (let round = 0; round < 2; round++) {
        connection.restartIce();
        await offer();
        await sleep(3000);
        rounds.push(await facts());
    }
    return {rounds, ended, state: connection.iceConnectionState};
}"""

SERVICE = """async offer => {
    window.peer ??= new RTCPeerConnection();
    window.candidates ??= [];
    peer.ontrack = event => { event.transceiver.direction = 'sendrecv'; event.transceiver.sender.replaceTrack(event.track); };
    peer.onicecandidate = event => { candidates.push(event.candidate && event.candidate.toJSON()); };
    await peer.setRemoteDescription({type: 'offer', sdp: offer});
    await peer.setLocalDescription(await peer.createAnswer());
    return peer.localDescription.sdp;
}"""


class Browser:
    """A headless Chromium with one empty page, driven by its debugging protocol."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="decart-chromium-")
        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--remote-debugging-port=0", "--disable-features=WebRtcHideLocalIpsWithMdns", "--no-first-run",
             "--remote-allow-origins=*", f"--user-data-dir={self.folder}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        port = next(line.split(":")[2].split("/")[0] for line in self.process.stderr if "DevTools listening" in line)
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}/json", timeout=10) as pages:
            page = next(each for each in json.load(pages) if each["type"] == "page")
        self.open = contextlib.ExitStack()
        self.socket = self.open.enter_context(connect(page["webSocketDebuggerUrl"], max_size=None, proxy=None))
        self.numbers = itertools.count(1)

    def call(self, function, argument=None, timeout=60):
        """Calls a JavaScript function and returns what it resolves to."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": "Runtime.evaluate", "params": {
            "expression": f"({function})({json.dumps(argument)})", "awaitPromise": True, "returnByValue": True}}))
        while (answer := json.loads(self.socket.recv(timeout))).get("id") != number:
            pass
        if "exceptionDetails" in answer["result"]:
            raise RuntimeError(json.dumps(answer["result"]["exceptionDetails"])[:500])
        return answer["result"]["result"].get("value")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.open.close()
        shutil.rmtree(self.folder, ignore_errors=True)


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
            browser.call("candidate => window.peer && peer.addIceCandidate(candidate ?? undefined).catch(() => {})",
                         message["candidate"])
        elif message["type"] == "offer":
            sdp = browser.call(SERVICE, message["sdp"])
            send(type="answer", sdp=sdp)
            # All candidates follow as messages, while the element waits for them.
            browser.call("() => new Promise(done => setTimeout(done, 300))")
            for candidate in browser.call("() => candidates.splice(0)"):
                send(**{"type": "ice-candidate", "candidate": candidate})
            say({"ufrag": attribute(message["sdp"], "ice-ufrag"), "fingerprint": attribute(message["sdp"], "fingerprint"),
                 "ours": attribute(sdp, "ice-ufrag")})


def main():
    browser = Browser()
    try:
        if sys.argv[1] == "client":
            say(browser.call(CLIENT, sys.argv[2]))
        else:
            with serve(lambda socket: answer(browser, socket), sys.argv[2], int(sys.argv[3]), ping_interval=None) as server:
                say("listening")
                server.serve_forever()
    finally:
        browser.close()


if __name__ == "__main__":
    main()
