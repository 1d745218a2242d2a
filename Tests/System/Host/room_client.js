// A client of a LiveKit room with two connections, for any browser: it writes the few signalling messages that livekit-client
// sends, and leaves the rest to the browser's WebRTC. It publishes a canvas in red with a moving bar and noise, and a tone. Returns a room
// whose `shown` says what is on the screen. Message and field numbers are those of livekit_rtc.proto.
async ({url, codec, simulcast, red, width, height}) => {
    const begun = performance.now();
    // MARK: Protobuf
    const varint = value => {
        const bytes = [];
        for (; value >= 128; value = Math.floor(value / 128)) bytes.push(value % 128 + 128);
        return [...bytes, value];
    };
    // A message is a list of [number, value]; a value is a number, a text, or bytes.
    const write = fields => new Uint8Array(fields.flatMap(([number, value]) => {
        if (typeof value === 'number') return [...varint(number * 8), ...varint(value)];
        const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value;
        return [...varint(number * 8 + 2), ...varint(bytes.length), ...bytes];
    }));
    const read = bytes => {
        const fields = [];
        let at = 0;
        const number = () => {
            let value = 0, factor = 1;
            for (;; factor *= 128) {
                const byte = bytes[at++];
                value += (byte & 127) * factor;
                if (byte < 128) return value;
            }
        };
        while (at < bytes.length) {
            const tag = number(), kind = tag % 8;
            if (kind === 0) {
                fields.push([Math.floor(tag / 8), number()]);
            } else if (kind === 2) {
                const length = number();
                fields.push([Math.floor(tag / 8), bytes.subarray(at, at += length)]);
            } else {
                at += kind === 1 ? 8 : 4;
            }
        }
        return fields;
    };
    const field = (fields, number) => fields.find(each => each[0] === number)?.[1];
    const text = bytes => new TextDecoder().decode(bytes ?? new Uint8Array());

    // MARK: The session
    const control = new WebSocket(url);
    const seen = {};
    const waiting = {};
    const note = (name, value) => { seen[name] = value; waiting[name]?.(value); };
    const until = name => name in seen ? seen[name] : new Promise(done => { waiting[name] = done; });
    control.onmessage = event => { const message = JSON.parse(event.data); note(message.type, message); };
    await new Promise(done => { control.onopen = done; });
    control.send(JSON.stringify({type: 'livekit_join'}));
    control.send(JSON.stringify({type: 'prompt', prompt: 'noir', enhance_prompt: false}));
    const info = await until('livekit_room_info');
    await until('prompt_ack');

    // MARK: The room
    const room = {messages: [], tracks: [], offers: 0, sent: performance.now()};
    const socket = new WebSocket(`${info.livekit_url}/rtc?access_token=${info.token}&protocol=16&sdk=js&version=2.20.0&auto_subscribe=1`);
    socket.binaryType = 'arraybuffer';
    const send = (number, message) => socket.send(write([[number, write(message)]]));
    const peers = [new RTCPeerConnection(), new RTCPeerConnection()];
    const [publisher, subscriber] = peers;
    const early = [[], []];
    peers.forEach((peer, target) => {
        peer.onicecandidate = ({candidate}) => {
            if (candidate) send(3, [[1, JSON.stringify(candidate)], [2, target]]);
        };
    });
    const apply = async (target, description) => {
        await peers[target].setRemoteDescription(description);
        for (const candidate of early[target].splice(0)) await peers[target].addIceCandidate(candidate);
    };
    const video = document.createElement('video');
    video.muted = true;
    video.autoplay = true;
    document.body.append(video);
    const audio = document.createElement('audio');
    audio.autoplay = true;
    subscriber.ontrack = ({track, streams, receiver}) => {
        room.tracks.push(`${track.kind} ${streams[0]?.id ?? ''}`);
        if (track.kind === 'audio') {
            room.audio = receiver;
            audio.srcObject = streams[0] ?? new MediaStream([track]);
        } else {
            room.video = receiver;
            video.srcObject = streams[0] ?? new MediaStream([track]);
        }
    };
    const answer = async offer => {
        await apply(1, {type: 'offer', sdp: text(field(offer, 2))});
        await subscriber.setLocalDescription();
        room.offers++;
        send(2, [[1, 'answer'], [2, subscriber.localDescription.sdp], [3, field(offer, 3) ?? 0]]);
    };
    // As livekit-client asks for it: a browser begins with 300 kbit/s, and stays there if its first probe fails.
    const starting = sdp => sdp.replace(
        new RegExp(`a=rtpmap:(\\d+) ${codec}/90000\r\n`, 'gi'), '$&a=fmtp:$1 x-google-start-bitrate=1000\r\n');
    // One message after the other, as descriptions and candidates need it.
    let last = Promise.resolve();
    const handle = async (number, message) => {
        if (number === 2) await apply(0, {type: 'answer', sdp: starting(text(field(message, 2)))});
        if (number === 3) await answer(message);
        if (number === 4) {
            const candidate = JSON.parse(text(field(message, 1))), target = field(message, 2) ?? 0;
            if (peers[target].remoteDescription) await peers[target].addIceCandidate(candidate);
            else early[target].push(candidate);
        }
    };
    socket.onmessage = ({data}) => {
        const [number, value] = read(new Uint8Array(data))[0];
        room.messages.push(number);
        if (number === 16 || number === 18) return;
        const message = read(value);
        note(`message ${number}`, message);
        last = last.then(() => handle(number, message)).catch(error => { room.error = String(error); });
    };
    socket.onclose = ({code}) => { room.closed = code; };
    await until('message 1');

    // MARK: Publishing
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext('2d', {willReadFrequently: true});
    let count = 0;
    // Detail as of a camera: packets of flat frames are too small for the probes of the browser's congestion control.
    const noise = context.createImageData(width / 4, height / 4);
    setInterval(() => {
        context.fillStyle = 'rgb(200, 60, 30)';
        context.fillRect(0, 0, width, height);
        context.fillStyle = 'white';
        context.fillRect(count++ * 8 % (width - 32), height / 2 + 8, 32, 32);
        for (let at = 0; at < noise.data.length; at++) noise.data[at] = at % 4 === 3 ? 255 : Math.random() * 256;
        context.putImageData(noise, width * 3 / 4, height * 3 / 4);
    }, 50);
    const track = canvas.captureStream(20).getVideoTracks()[0];
    const scales = simulcast ? [['q', 4, 160000], ['h', 2, 450000], ['f', 1, 3500000]] : [];
    const layers = scales.map(([rid, scale, bitrate], quality) => [9, write(
        [[1, quality], [2, width / scale], [3, height / scale], [4, bitrate], [7, rid]])]);
    const announce = async (cid, kind, source, more) => {
        delete seen['message 6'];
        send(4, [[1, cid], [2, source === 1 ? 'camera' : 'microphone'], [3, kind], [8, source], ...more]);
        await until('message 6');
    };
    await announce(track.id, 1, 1, [[4, width], [5, height], ...layers, [10, write([[1, codec], [2, track.id]])]]);
    const prefer = (sender, type, wanted) => {
        const {codecs} = RTCRtpReceiver.getCapabilities(type);
        const first = codecs.filter(each => each.mimeType.toLowerCase() === `${type}/${wanted}`);
        sender.setCodecPreferences([...first, ...codecs.filter(each => !first.includes(each))]);
    };
    const transceiver = publisher.addTransceiver(track, {direction: 'sendonly', sendEncodings: scales.map(([rid, scale, bitrate]) => (
        {rid, scaleResolutionDownBy: scale, maxBitrate: bitrate}))});
    prefer(transceiver, 'video', codec);
    if (red) {
        const sounds = new AudioContext();
        const tone = sounds.createOscillator(), end = sounds.createMediaStreamDestination();
        tone.connect(end);
        tone.start();
        const [sound] = end.stream.getAudioTracks();
        await announce(sound.id, 0, 2, []);
        prefer(publisher.addTransceiver(sound, {direction: 'sendonly'}), 'audio', 'red');
    }
    await publisher.setLocalDescription();
    const offered = performance.now();
    send(1, [[1, 'offer'], [2, publisher.localDescription.sdp], [3, 1]]);

    // MARK: What is on the screen
    const copy = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    const grey = () => {
        if (video.readyState < 2) return null;
        copy.drawImage(video, 0, 0, video.videoWidth / 2, video.videoHeight / 2, 0, 0, 1, 1);
        const colour = [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3);
        return {colour, isGrey: Math.max(...colour) - Math.min(...colour) < 14 && Math.max(...colour) > 30};
    };
    const codecOf = (all, report) => report && all.find(each => each.id === report.codecId)?.mimeType;
    // The statistics name Opus also where RED carries it.
    const answered = kind => {
        const [, first, lines] = publisher.currentRemoteDescription?.sdp.match(new RegExp(`m=${kind} \\d+ \\S+ (\\d+)(.*?)(?=m=|$)`, 's')) ?? [];
        return lines?.match(new RegExp(`a=rtpmap:${first} ([^/]+)`))?.[1];
    };
    room.shown = async () => {
        const all = [...(await subscriber.getStats()).values()];
        const [video_, audio_] = ['video', 'audio'].map(kind => (
            all.filter(each => each.type === 'inbound-rtp' && each.kind === kind).sort((one, other) => (
                (other.lastPacketReceivedTimestamp ?? 0) - (one.lastPacketReceivedTimestamp ?? 0)))[0]));
        const own = [...(await publisher.getStats()).values()];
        const sent = own.filter(each => each.type === 'outbound-rtp' && each.kind === 'video');
        return {
            size: [video.videoWidth, video.videoHeight], ...grey(), frames: video_?.framesDecoded ?? 0, ssrc: video_?.ssrc,
            codec: codecOf(all, video_), audioCodec: codecOf(all, audio_), audioLevel: audio_?.audioLevel ?? 0,
            sentCodec: codecOf(own, sent[0]), sentAudioCodec: answered('audio'),
            layers: sent.map(each => each.rid).filter(Boolean),
            limits: sent.map(each => `${each.rid}: ${each.framesSent}, ${each.qualityLimitationReason}`), tracks: room.tracks, offers: room.offers, error: room.error,
            closed: room.closed, full: room.full,
        };
    };
    // The first frame at full size with the look's colour, ms since the offer.
    const watch = () => {
        if (!room.full && video.videoWidth === width && video.videoHeight === height && grey()?.isGrey) {
            room.full = performance.now() - offered;
        }
        video.requestVideoFrameCallback(watch);
    };
    video.requestVideoFrameCallback(watch);
    window.room = room;
    return performance.now() - begun;
}
