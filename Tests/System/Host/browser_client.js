// A client of the stand-in for any browser: sends a canvas over a direct connection, and restarts ICE twice. Resolves once
// transformed frames arrived after each restart and `pause` milliseconds passed.
async ({url, pause}) => {
    const sleep = ms => new Promise(done => setTimeout(done, ms));
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [640, 352];
    const context = canvas.getContext('2d', {willReadFrequently: true});
    let number = 0;
    setInterval(() => {
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
    const video = document.createElement('video');
    video.muted = true;
    connection.ontrack = event => { video.srcObject = event.streams[0] ?? new MediaStream([event.track]); video.play(); };
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
    const decoded = async () => {
        const all = [...(await connection.getStats()).values()];
        return all.find(each => each.type === 'inbound-rtp')?.framesDecoded ?? 0;
    };
    const pixel = () => {
        const copy = new OffscreenCanvas(1, 1).getContext('2d');
        copy.drawImage(video, 0, 0, 64, 64, 0, 0, 1, 1);
        return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const facts = async () => {
        const [own, remote] = [connection.localDescription.sdp, connection.remoteDescription.sdp];
        return {frames: await decoded(), pixel: pixel(), dtls: connection.getSenders()[0].transport.state,
                ufrag: /a=ice-ufrag:(.*)/.exec(own)[1].trim(), remote: /a=ice-ufrag:(.*)/.exec(remote)[1].trim(),
                fingerprint: /a=fingerprint:(.*)/.exec(remote)[1].trim()};
    };
    const rounds = [];
    for (let round = 0; round < 3; round++) {
        if (round) connection.restartIce();
        await offer();
        const before = await decoded();
        await sleep(round ? pause : 0);
        while (await decoded() < before + 20 || video.readyState < 2) await sleep(50);
        rounds.push(await facts());
    }
    return {rounds, ended, state: connection.iceConnectionState};
}
