'use strict';
// The page of decart-standin: watches sessions, and is a client itself ("Try it"). Everything that it shows or changes
// goes through the control endpoint with the token of the page, or through the service's own protocol.

const $ = id => document.getElementById(id);
const token = document.querySelector('meta[name=token]').content;
const sleep = ms => new Promise(done => setTimeout(done, ms));

async function ask(path, method = 'GET', body = undefined) {
    const answer = await fetch(path, {method, body, cache: 'no-store', headers: {'X-Standin-Token': token}});
    const text = await answer.text();
    let value = text;
    try { value = JSON.parse(text); } catch { /* Some answers are plain text. */ }
    if (!answer.ok) throw new Error(value.error ?? text.trim());
    return value;
}

/** An event of a session, or of the page if there is none. */
function note(text, session = '') {
    const item = document.createElement('li');
    item.dataset.session = session;
    const time = document.createElement('time');
    time.textContent = new Date().toTimeString().slice(0, 8);
    item.append(time, text);
    $('log').prepend(item);
    while ($('log').children.length > 400) $('log').lastChild.remove();
    filterEvents();
}

/** Shows the events of the page and of the selected session, unless the user wants all. */
function filterEvents() {
    for (const {dataset, classList} of $('log').children) {
        classList.toggle('other', Boolean(selected && dataset.session && dataset.session !== selected));
    }
    $('log').classList.toggle('all', $('all-events').checked);
}

function show(id, state, text) {
    const chip = $(id);
    chip.dataset.state = state;
    if (chip.textContent !== text) chip.textContent = text;
}

// --- Latency marker: 24 blocks of 8 x 8 pixels at the bottom left; sync word 1010, 16 bits, checksum -------------------

const Marker = {
    word: number => {
        const check = (number >> 12 ^ number >> 8 ^ number >> 4 ^ number) & 15;
        return 0b1010 << 20 | number << 4 | check;
    },
    draw(context, number) {
        const word = Marker.word(number), top = context.canvas.height - 32;
        for (let column = 0; column < 24; column++) {
            // Luma 200 and 50 of limited range.
            context.fillStyle = word >> (23 - column) & 1 ? 'rgb(214,214,214)' : 'rgb(40,40,40)';
            context.fillRect(column * 8, top, 8, 32);
        }
    },
    canvas: Object.assign(document.createElement('canvas'), {width: 192, height: 32}),
    read(video) {
        const context = Marker.canvas.getContext('2d', {willReadFrequently: true});
        if (video.videoWidth < 192 || video.videoHeight < 32) return null;
        context.drawImage(video, 0, video.videoHeight - 32, 192, 32, 0, 0, 192, 32);
        const pixels = context.getImageData(0, 0, 192, 32).data;
        let word = 0;
        for (let column = 0; column < 24; column++) {
            let sum = 0;
            for (const y of [4, 12, 20, 28]) sum += pixels[(y * 192 + column * 8 + 4) * 4 + 1];
            word = word << 1 | (sum > 4 * 127 ? 1 : 0);
        }
        const number = word >> 4 & 0xffff;
        return Marker.word(number) === (word & 0xffffff) ? number : null;
    },
};

// --- What a video element shows --------------------------------------------------------------------------------------

class Screen {
    constructor(name, onFrame = () => {}) {
        this.video = $(name);
        this.output = $(`${name}-fps`);
        this.times = [];
        this.sample = document.createElement('canvas');
        [this.sample.width, this.sample.height] = [32, 18];
        this.changedAt = performance.now();
        const next = now => {
            this.times.push(now);
            onFrame(this.video);
            this.video.requestVideoFrameCallback(next);
        };
        this.video.requestVideoFrameCallback(next);
        setInterval(() => this.measure(), 250);
    }

    set stream(stream) {
        this.video.srcObject = stream;
        this.video.parentElement.classList.toggle('live', Boolean(stream));
        this.times = [];
        this.pixels = null;
        this.changedAt = performance.now();
        if (stream) this.video.play().catch(() => { /* Another stream has replaced this one. */ });
    }

    measure() {
        const now = performance.now();
        this.times = this.times.filter(time => now - time < 1000);
        this.output.textContent = this.video.srcObject
            ? `${this.times.length} fps, ${this.video.videoWidth} × ${this.video.videoHeight}` : '';
        if (!this.video.srcObject || !this.times.length) return;
        const context = this.sample.getContext('2d', {willReadFrequently: true});
        context.drawImage(this.video, 0, 0, 32, 18);
        const pixels = context.getImageData(0, 0, 32, 18).data;
        // Codecs change a still frame a little.
        if (!this.pixels || pixels.some((value, index) => Math.abs(value - this.pixels[index]) > 20)) this.changedAt = now;
        this.pixels = pixels;
        const sums = [0, 0, 0];
        for (let index = 0; index < pixels.length; index += 4) for (let part = 0; part < 3; part++) sums[part] += pixels[index + part];
        this.colour = sums.map(sum => Math.round(sum * 4 / pixels.length));
    }
}

// --- Before and after of another client's session, by WebRTC ---------------------------------------------------------

class Watch {
    constructor(session, side, screen) {
        this.screen = screen;
        this.socket = new WebSocket(
            `ws://${location.host}/page/watch?session=${encodeURIComponent(session)}&side=${side}`, ['standin', `token.${token}`]);
        this.connection = new RTCPeerConnection();
        this.connection.ontrack = event => {
            if (this.isClosed) return;
            event.receiver.jitterBufferTarget = 0;
            screen.stream = new MediaStream([event.track]);
        };
        this.connection.onicecandidate = event =>
            this.send({type: 'ice-candidate', candidate: event.candidate && event.candidate.toJSON()});
        this.socket.onopen = async () => {
            this.connection.addTransceiver('video', {direction: 'recvonly'});
            await this.connection.setLocalDescription(await this.connection.createOffer());
            this.send({type: 'offer', sdp: this.connection.localDescription.sdp});
        };
        this.socket.onmessage = async event => {
            const message = JSON.parse(event.data);
            if (this.isClosed) return;
            if (message.type === 'answer') await this.connection.setRemoteDescription({type: 'answer', sdp: message.sdp});
            if (message.type === 'ice-candidate' && message.candidate) await this.connection.addIceCandidate(message.candidate);
            if (message.type === 'error') note(`cannot watch: ${message.error ?? message.message}`);
        };
    }

    send(message) { if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message)); }

    close() {
        this.isClosed = true;
        this.socket.close();
        this.connection.close();
        this.screen.stream = null;
    }
}

// --- Try it: a client of the service ---------------------------------------------------------------------------------

/** Draws the client's frames with a number in each, so that the delay of the transformed frame can be read. */
class Source {
    constructor(camera = null) {
        this.canvas = Object.assign(document.createElement('canvas'), {width: 640, height: 360});
        this.context = this.canvas.getContext('2d', {alpha: false});
        this.number = 0;
        this.sentAt = new Map();
        this.camera = camera;
        if (camera) {
            this.cameraVideo = Object.assign(document.createElement('video'), {srcObject: camera, muted: true});
            this.cameraVideo.play();
        }
        this.timer = setInterval(() => this.draw(), 1000 / 30);
        this.draw();
        this.stream = this.canvas.captureStream(30);
        this.stream.getVideoTracks()[0].contentHint = 'motion';
    }

    draw() {
        const {context, canvas} = this, time = performance.now() / 1000;
        if (this.cameraVideo) {
            context.drawImage(this.cameraVideo, 0, 0, canvas.width, canvas.height);
        } else {
            const colours = ['#c0392b', '#d68910', '#27ae60', '#2471a3', '#7d3c98'];
            colours.forEach((colour, index) => {
                context.fillStyle = colour;
                context.fillRect(index * 128, 0, 128, 360);
            });
            context.fillStyle = '#f4d03f';
            context.beginPath();
            context.arc(320 + 240 * Math.sin(time), 160 + 90 * Math.cos(time * 1.7), 56, 0, 2 * Math.PI);
            context.fill();
        }
        this.number = this.number + 1 & 0xffff;
        Marker.draw(context, this.number);
        this.sentAt.set(this.number, performance.now());
        if (this.sentAt.size > 600) this.sentAt.delete(this.sentAt.keys().next().value);
    }

    close() {
        clearInterval(this.timer);
        for (const stream of [this.stream, this.camera]) stream?.getTracks().forEach(track => track.stop());
    }
}

class Client {
    constructor(source) {
        this.source = source;
        // Without a prompt the video would come back as it went.
        this.prompt = $('prompt').value = $('prompt').value.trim() || 'Cyberpunk';
        this.isWanted = true;
        this.latencies = [];
        this.lastNumber = -1;
        /** Attempts since the last session that had frames. */
        this.failures = 0;
        this.run();
    }

    /** Connects again and again until the user stops it. */
    async run() {
        for (let attempt = 0; this.isWanted; attempt++) {
            if (attempt) {
                show('state', 'lost', 'connecting again');
                await sleep(Math.min(500 * 2 ** this.failures, 5000));
            }
            this.failures++;
            try {
                // A refused connection would be an error in the console; the control endpoint knows that it would be.
                while (this.isWanted && !(await ask('/health')).port) await sleep(250);
                if (this.isWanted) await this.connect();
            } catch (error) {
                note(`session: ${error.message}`);
                await sleep(1000);
            }
        }
    }

    /** Resolves when the connection has ended. */
    async connect() {
        show('state', 'connecting', 'connecting');
        const config = await ask('/page/config', 'POST');
        const query = new URLSearchParams({
            api_key: config.key, model: config.model, pixel_latency: '1', user_agent: 'decart-standin page'});
        this.socket = new WebSocket(`${config.service}/v1/stream?${query}`);
        this.isOffered = false;
        /** Prompts sent before the session's ID was known. */
        this.early = [];
        const ended = new Promise(done => { this.socket.onclose = done; });
        this.socket.onmessage = event => this.receive(JSON.parse(event.data)).catch(error => note(error.message));
        const event = await ended;
        this.connection?.close();
        this.connection = this.id = null;
        if (!this.isWanted) return;
        screens.after.stream = null;
        note(`connection closed (${event.code}${event.reason ? `, ${event.reason}` : ''})`);
        disturbed(`closed (${event.code})`);
    }

    send(message) { if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message)); }

    setPrompt(text) {
        this.prompt = text;
        (this.id ? promptsOf(this.id).typed : this.early).push(text);
        this.send(text ? {type: 'prompt', prompt: text, enhance_prompt: false}
            : {type: 'set_image', image_data: null, prompt: null});
    }

    async receive(message) {
        switch (message.type) {
        case 'status':
            if (message.status === 'ready') this.setPrompt(this.prompt);
            else show('state', 'queued', message.status);
            break;
        case 'queue_position':
            show('state', 'queued', `queue: ${message.position}${message.queue_size ? ` of ${message.queue_size}` : ''}`);
            disturbed('in the queue');
            break;
        case 'session_id':
            this.id = message.session_id;
            promptsOf(this.id).typed.push(...this.early.splice(0));
            choose(this.id);
            break;
        case 'prompt_ack': case 'set_image_ack':
            // The next session begins with the prompt that was accepted last.
            if (message.success) this.accepted = this.prompt; else this.prompt = this.accepted ?? this.prompt;
            if (!this.isOffered) await this.offer();
            break;
        case 'answer':
            await this.connection.setRemoteDescription({type: 'answer', sdp: message.sdp});
            break;
        case 'offer':
            await this.connection.setRemoteDescription({type: 'offer', sdp: message.sdp});
            await this.connection.setLocalDescription(await this.connection.createAnswer());
            this.send({type: 'answer', sdp: this.connection.localDescription.sdp});
            break;
        case 'ice-candidate':
            if (message.candidate) await this.connection?.addIceCandidate(message.candidate);
            break;
        case 'generation_started':
            this.failures = 0;
            show('state', 'live', 'live');
            break;
        case 'generation_ended':
            show('state', 'lost', `ended: ${message.reason}`);
            disturbed(`generation ended (${message.reason})`);
            break;
        case 'error': note(`service: ${message.error}`); break;
        }
    }

    async offer() {
        this.isOffered = true;
        const connection = this.connection = new RTCPeerConnection();
        connection.ontrack = event => {
            event.receiver.jitterBufferTarget = 0;
            screens.after.stream = new MediaStream([event.track]);
        };
        connection.onicecandidate = event =>
            this.send({type: 'ice-candidate', candidate: event.candidate && event.candidate.toJSON()});
        const track = this.source.stream.getVideoTracks()[0];
        const {sender} = connection.addTransceiver(track, {direction: 'sendrecv', streams: [this.source.stream]});
        screens.before.stream = this.source.stream;
        await connection.setLocalDescription(await connection.createOffer());
        this.send({type: 'offer', sdp: connection.localDescription.sdp});
        const parameters = sender.getParameters();
        parameters.degradationPreference = 'maintain-resolution';
        await sender.setParameters(parameters);
    }

    /** Called for each frame of the transformed video. */
    frame(video) {
        const number = Marker.read(video);
        if (number === null || number === this.lastNumber) return;
        this.lastNumber = number;
        const sent = this.source.sentAt.get(number);
        if (sent !== undefined) this.latencies.push(performance.now() - sent);
        this.numberAt = performance.now();
    }

    /** The median of the frames since the last call, ms. */
    takeLatency() {
        const sorted = this.latencies.sort((a, b) => a - b);
        this.latencies = [];
        return sorted.length ? sorted[sorted.length >> 1] : null;
    }

    stop() {
        this.isWanted = false;
        this.socket?.close();
        this.connection?.close();
        this.source.close();
        screens.before.stream = screens.after.stream = null;
        show('state', 'idle', 'no session');
    }
}

let client = null;
let watches = [];
/** ID of the session whose video, figures and prompt the page shows. */
let selected = null;
let watched = null;
let sessions = [];
/** By session: texts that this page has sent and the journal has not shown, the latest prompt, that in effect, and a refusal. */
const prompts = new Map();

function promptsOf(id) {
    if (!prompts.has(id)) prompts.set(id, {typed: [], latest: null, effective: null, refused: null, error: null});
    return prompts.get(id);
}

/** Follows the prompts of a session by its journal, which hides their texts unless this page has sent them. */
function followPrompt({session, direction, type, message}) {
    const state = promptsOf(session);
    if (direction === 'event' && type === 'opened') state.effective = '';
    if (direction !== 'out' && (type === 'prompt' || (type === 'set_image' && 'prompt' in (message ?? {})))) {
        state.latest = state.typed.shift() ?? message.prompt ?? '';
        // The stand-in's user needs no acknowledgement.
        if (direction === 'event') [state.effective, state.refused] = [state.latest, null];
        return state.latest || 'none';
    }
    if (direction !== 'out' || !['prompt_ack', 'set_image_ack'].includes(type)) return null;
    if (message.success) {
        [state.effective, state.refused] = [state.latest, null];
        return null;
    }
    refuse(state, state.latest, message.error);
    return null;
}

function refuse(state, text, error) { [state.refused, state.error] = [text || 'the prompt', error ?? 'no reason is given']; }

/** What a session's prompt is, in a few words; null: the page does not know. */
const promptText = id => {
    const state = prompts.get(id);
    return !state || state.effective === null ? null : state.effective || 'no prompt';
};

function showPrompt() {
    const state = prompts.get(selected), isRefused = Boolean(state?.refused);
    const text = promptText(selected);
    $('prompt-state').dataset.state = isRefused ? 'refused' : '';
    const shown = [isRefused ? `Refused: ${state.refused} (${state.error}).` : '', text ? `In effect: ${text}.` : ''].filter(Boolean).join(' ');
    if ($('prompt-state').textContent !== shown) $('prompt-state').textContent = shown;
}
/** The stand-in does not answer, or another run of it has another token. */
let isLost = false;

function choose(id) {
    selected = id;
    const known = prompts.get(id);
    const session = sessions.find(each => each.id === id);
    $('prompt').value = (client?.id === id ? client?.prompt : known?.isTyped ? known.effective : null) ?? session?.prompt_texts?.at(-1) ?? '';
    filterEvents();
    showPrompt();
}

const screens = {before: new Screen('before'), after: new Screen('after', video => client?.frame(video))};

async function start(useCamera) {
    try {
        const camera = useCamera ? await navigator.mediaDevices.getUserMedia({video: {width: 640, height: 360}}) : null;
        stop();
        unwatch();
        client = new Client(new Source(camera));
        document.body.dataset.client = useCamera ? 'camera' : 'canvas';
    } catch (error) {
        note(`camera: ${error.message}`);
    }
    enable();
}

function stop() {
    client?.stop();
    client = selected = null;
    filterEvents();
    delete document.body.dataset.client;
    calm();
    enable();
}

function unwatch() {
    for (const watch of watches) watch.close();
    watches = [];
    watched = null;
}

function enable() {
    $('stop').disabled = !client;
    for (const id of ['try-canvas', 'try-camera']) $(id).disabled = isLost || !isReachable;
    // Browsers lend cameras to pages of this machine, or over https.
    if (!navigator.mediaDevices) $('try-camera').disabled = true;
    const hasSession = !isLost && Boolean(client || sessions.some(each => each.id === selected && each.state !== 'closed'));
    for (const button of document.querySelectorAll('#fault-buttons button, #looks button, form button')) {
        button.disabled = isLost || (!hasSession && !button.dataset.always);
    }
}

// --- Prompt ----------------------------------------------------------------------------------------------------------

async function applyPrompt(text) {
    $('prompt').value = text;
    if (client && selected === client.id) return client.setPrompt(text);
    if (!selected) return;
    const id = selected, state = promptsOf(id);
    state.isTyped = true;
    state.typed.push(text);
    try {
        await ask(`/control/prompt?session=${encodeURIComponent(id)}`, 'POST', text);
    } catch (error) {
        state.typed.pop();
        refuse(state, text, error.message);
        note(`prompt refused: ${error.message}`, id);
        showPrompt();
    }
}

async function copy(text) {
    // Only pages of this machine, or over https, have the clipboard.
    if (!navigator.clipboard) return note(`to copy from here: ${text}`);
    note(`copied: ${text}`);
    await navigator.clipboard.writeText(text).catch(error => note(`clipboard: ${error.message}`));
}

$('copy').addEventListener('click', () => copy($('command').textContent));
$('prompt-form').addEventListener('submit', event => {
    event.preventDefault();
    applyPrompt($('prompt').value.trim());
});
for (const word of ['Lego', 'Anime', 'Cyberpunk', 'Noir', 'Sunset']) {
    const button = Object.assign(document.createElement('button'), {type: 'button', textContent: word});
    button.addEventListener('click', () => applyPrompt(word));
    $('looks').append(button);
}

// --- Faults ----------------------------------------------------------------------------------------------------------

const here = () => selected ? `?session=${encodeURIComponent(selected)}` : '';
const inject = specs => {
    $('spec').value = specs;
    explain();
    return ask(`/control/inject${here()}`, 'POST', specs);
};
const close = code => ask(`/control/close${here() || '?'}${here() ? '&' : ''}code=${code}`, 'POST');
const FAULTS = [
    ['Freeze 3 s', 'the same frame is repeated for 3 s', () => inject('media_freeze:for=3')],
    ['No frames 3 s', 'no frame is sent for 3 s', () => inject('media_silent:for=3')],
    ['Damage 3 s', 'encoded frames are damaged for 3 s', () => inject('media_garbage:for=3')],
    ['New generation', 'the generation ends and begins again 2 s later', () => inject('generation_restart:at=0,delay=2')],
    ['Restart service', 'sessions close with 1012, connections are refused for 3 s', async () => {
        await ask('/control/faults', 'POST', 'refuse:for=3');
        await ask('/control/close?code=1012', 'POST');
    }],
    ['Queue 3 s', 'the session closes, and the next one waits in a queue for 3 s', async () => {
        await ask('/control/faults', 'POST', 'queue_n:n=3,count=1');
        await close(1012);
    }],
    ['Reset connection', 'the TCP connection of the session is reset', () => ask(`/control/drop${here()}`, 'POST')],
    ['Error message', 'the service reports an internal error', () => inject('error_transient')],
    ['No more faults', 'new connections have no faults', () => ask('/control/faults', 'DELETE'), true],
];
/** The fault whose effect is awaited: {name, at, seenAt, row}. */
let fault = null;
/** One row a fault: {time, session, name, visible, recovered}. */
const runs = [];
const RUN = ['time', 'session', 'name', 'visible', 'recovered'];

function listRuns() {
    $('run').hidden = !runs.length;
    $('run-list').replaceChildren(...runs.map(run => {
        const row = document.createElement('tr');
        row.append(...RUN.map(key => Object.assign(document.createElement('td'), {textContent: run[key]})));
        return row;
    }));
}

$('copy-run').addEventListener('click', () => {
    const line = cells => `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`;
    copy([line(['time', 'session', 'fault', 'visible after', 'recovered after']), line(RUN.map(() => '---')),
        ...runs.map(run => line(RUN.map(key => run[key])))].join('\n'));
});
$('clear-run').addEventListener('click', () => {
    runs.length = 0;
    listRuns();
});

async function request(name, title, act, isAwaited) {
    note(`fault: ${name} — ${title}`, selected ?? '');
    calm();
    if (isAwaited) {
        const number = sessions.find(each => each.id === selected)?.number;
        const row = {time: new Date().toTimeString().slice(0, 8), session: number ? `#${number}` : '–', name, visible: '–', recovered: '–'};
        runs.push(row);
        if (runs.length > 50) runs.shift();
        listRuns();
        fault = {name, at: performance.now(), row};
        show('fault', 'sent', `${name}: requested`);
    }
    try { await act(); } catch (error) {
        note(`fault: ${error.message}`);
        calm();
    }
}

for (const [name, title, act, always] of FAULTS) {
    const button = Object.assign(document.createElement('button'), {type: 'button', textContent: name, title});
    if (always) button.dataset.always = 'yes';
    button.addEventListener('click', () => request(name, title, act, !always && name !== 'Error message'));
    $('fault-buttons').append(button);
}

/** The stand-in's faults, by name: {name, summary, is_injectable}. */
let kinds = new Map();
const spec = () => $('spec').value.trim();
const kind = () => kinds.get(spec().split(':')[0]);
/** A fault that acts before a session is open is for new connections. */
const isInjected = () => kind()?.is_injectable !== false;

/** Shows what the SPEC's fault is, and what the button does with it. */
function explain() {
    $('kind').value = kind()?.name ?? '';
    $('summary').textContent = kind()?.summary ?? '';
    $('inject').textContent = isInjected() ? 'Inject' : 'Set for new connections';
    if (isInjected()) delete $('inject').dataset.always; else $('inject').dataset.always = 'yes';
    enable();
}

$('kind').addEventListener('change', () => {
    $('spec').value = $('kind').value;
    explain();
});
$('spec').addEventListener('input', explain);
$('spec-form').addEventListener('submit', event => {
    event.preventDefault();
    const specs = spec();
    if (isInjected()) request(specs, 'into the selected session', () => inject(specs), true);
    else request(specs, 'for new connections', () => ask('/control/faults', 'POST', specs), false);
});
const quote = text => `'${text.replaceAll("'", `'\\''`)}'`;
$('as-curl').addEventListener('click', () => copy(
    `curl --data ${quote(spec())} ${location.origin}/control/${isInjected() ? 'inject' : 'faults'}`
        + (location.search ? ` --header 'X-Standin-Token: ${token}'` : '')));
$('as-pytest').addEventListener('click', () => copy(`standin.${isInjected() ? 'inject' : 'faults'}(${JSON.stringify(spec())})`));

function calm() {
    fault = null;
    show('fault', 'idle', 'no fault');
}

/** The effect of a fault is visible. */
function disturbed(how) {
    if (!fault || fault.seenAt) return;
    fault.seenAt = performance.now();
    show('fault', 'fault', `${fault.name}: ${how}`);
    fault.row.visible = `${seconds(fault.seenAt - fault.at)}: ${how}`;
    listRuns();
    note(`fault visible after ${seconds(fault.seenAt - fault.at)}: ${how}`, selected ?? '');
}

const seconds = ms => `${(ms / 1000).toFixed(1)} s`;

function judgeFault() {
    if (!fault) return;
    const now = performance.now(), after = screens.after;
    // Our own frames have numbers; of other sessions' frames only the content tells.
    const age = now - (client && selected === client.id ? client.numberAt ?? now : after.changedAt);
    const isFlowing = after.times.length > 5 && age < 400;
    if (!fault.seenAt) {
        if (age > 700 || !after.times.length) disturbed(after.times.length ? 'the video stands still' : 'no frames arrive');
        else if (now - fault.at > 8000) {
            fault.row.visible = 'not within 8 s';
            listRuns();
            calm();
        }
        return;
    }
    if (!isFlowing || now - fault.seenAt < 500) return;
    const text = `recovered after ${seconds(now - fault.seenAt)}`;
    show('fault', 'recovered', `${fault.name}: ${text}`);
    fault.row.recovered = seconds(now - fault.seenAt);
    listRuns();
    note(`${fault.name.toLowerCase()}: ${text}`, selected ?? '');
    fault = null;
}

setInterval(judgeFault, 200);

// --- Sessions --------------------------------------------------------------------------------------------------------

const mega = bits => bits === null || bits === undefined ? '–' : `${(bits / 1e6).toFixed(2)}`;

/** A full reconnect of the JavaScript SDK stops the page's camera track, so the next session gets no frames. */
const hasStoppedTrack = (session, all) => (session.user_agent ?? '').startsWith('decart-js-sdk/')
    && session.state !== 'closed' && session.age_ms > 4000 && session.frames_in + session.frames_untransformed === 0
    && all.some(each => each.number < session.number && each.user_agent === session.user_agent && each.frames_in > 0);

const COLUMNS = ['session', 'state', 'media', 'Mbit/s in', 'Mbit/s out', 'prompt', 'look'];

/** The cells of a session's row. */
function describe(session) {
    const prompt = promptText(session.id) ?? session.prompt_texts?.at(-1) ?? `${session.prompts} prompt${session.prompts === 1 ? '' : 's'}`;
    const refused = prompts.get(session.id)?.refused;
    return [
        `#${session.number} ${session.model || 'viewer'}${client?.id === session.id ? ' (this page)' : ''}`,
        session.state,
        hasStoppedTrack(session, sessions) ? 'no frames since the reconnect: the SDK stopped the camera track, pass a new stream'
            : [session.transport, session.codec, session.width ? `${session.width} × ${session.height}` : null].filter(Boolean).join(', ') || 'no media',
        mega(session.bitrate_in), mega(session.bitrate_out),
        refused ? `${prompt} (refused: ${refused})` : prompt, session.look ?? '–',
    ];
}

function list() {
    const shown = sessions.slice(-50).reverse();
    const old = new Map([...$('session-list').children].map(item => [item.dataset.id, item]));
    const items = shown.map(session => {
        let item = old.get(session.id);
        if (!item) {
            item = document.createElement('tr');
            item.dataset.id = session.id;
            item.append(...COLUMNS.map((name, index) => {
                const cell = document.createElement(index ? 'td' : 'th');
                cell.dataset.name = name;
                cell.append(document.createElement(index ? 'span' : 'button'));
                return cell;
            }));
            item.querySelector('button').type = 'button';
            item.addEventListener('click', () => select(session.id));
        }
        item.querySelector('button').setAttribute('aria-pressed', session.id === selected);
        item.dataset.state = session.state;
        item.classList.toggle('refused', Boolean(prompts.get(session.id)?.refused));
        item.classList.toggle('selected', session.id === selected);
        describe(session).forEach((text, index) => {
            const cell = item.children[index].firstChild;
            if (cell.textContent !== text) cell.textContent = text;
        });
        return item;
    });
    // Moving an item takes the focus from it.
    const current = [...$('session-list').children];
    if (items.length !== current.length || items.some((item, index) => item !== current[index])) {
        const focused = document.activeElement;
        $('session-list').replaceChildren(...items);
        if ($('session-list').contains(focused)) focused.focus();
    }
    $('session-count').textContent = sessions.length ? `${sessions.filter(each => each.state !== 'closed').length} open of ${sessions.length}` : '';
    $('no-sessions').hidden = sessions.length > 0;
    $('session-table').hidden = !sessions.length;
    $('clear').disabled = isLost || !sessions.some(each => each.state === 'closed');
    const isIdle = !client && !sessions.some(each => each.state !== 'closed');
    if (document.body.classList.contains('idle') !== isIdle) $('start').open = isIdle;
    document.body.classList.toggle('idle', isIdle);
    showPrompt();
}

$('clear').addEventListener('click', async () => {
    try {
        await ask('/control/sessions', 'DELETE');
        sessions = sessions.filter(each => each.state !== 'closed');
        for (const id of prompts.keys()) if (!sessions.some(each => each.id === id)) prompts.delete(id);
        list();
    } catch (error) {
        note(`sessions: ${error.message}`);
    }
});
$('all-events').addEventListener('change', filterEvents);

function select(id) {
    if (client && id !== client.id) {
        note('the page ends its own session, to show another');
        stop();
    }
    choose(id);
    points.length = 0;
    calm();
    follow();
    list();
}

/** Watches the selected session, unless it is the page's own. */
function follow() {
    if (client) return;
    const session = sessions.find(each => each.id === selected);
    const id = session?.state === 'generating' ? session.id : null;
    if (id !== watched) {
        unwatch();
        watched = id;
        if (id) watches = [new Watch(id, 'before', screens.before), new Watch(id, 'after', screens.after)];
    }
    if (!client) show('state', session ? (id ? 'live' : 'idle') : 'idle', session ? `#${session.number}: ${session.state}` : 'no session');
}

async function poll() {
    try {
        sessions = (await ask('/control/sessions')).sessions.filter(each => !each.watches);
        document.body.dataset.state = 'connected';
        if (isLost) lose(null);
        await tell();
    } catch (error) {
        lose(error instanceof TypeError ? 'The stand-in does not answer: it has ended.'
            : 'The stand-in was started again. Reload the page.');
        return;
    }
    const open = sessions.filter(each => each.state !== 'closed');
    // A pipeline that reconnects has a new session.
    if (!client && (!selected || !open.some(each => each.id === selected)) && open.length) choose(open.at(-1).id);
    follow();
    list();
    enable();
    const session = sessions.find(each => each.id === selected);
    measure(session);
}

/** Shows that nothing on the page is true any more, and why; null: it is again. */
function lose(why) {
    isLost = why !== null;
    document.body.dataset.state = isLost ? 'lost' : 'connected';
    $('lost').hidden = $('reload').disabled = !isLost;
    $('lost-text').textContent = why ?? '';
    if (isLost) {
        if (client) stop();
        unwatch();
        sessions = [];
        list();
        show('state', 'lost', 'no stand-in');
        $('active').textContent = '';
        points.length = 0;
        measured = null;
        plot();
        $('plot-text').textContent = 'Nothing is measured: there is no stand-in.';
    }
    enable();
}

/** Number of the last entry of the journal that is an event already; null: those from before the page are none. */
let told = null;

async function tell() {
    const {last, entries} = await ask(`/control/journal?after=${told ?? Number.MAX_SAFE_INTEGER}`);
    told = last;
    for (const entry of entries) {
        const {session, session_number: number, direction, type, message} = entry;
        if (['generation_tick', 'ice-candidate'].includes(type)) continue;
        const prompt = followPrompt(entry);
        const isRefusal = direction === 'out' && message?.success === false;
        const detail = prompt ?? message?.error ?? message?.status ?? message?.reason ?? message?.code;
        const what = isRefusal ? 'prompt refused' : direction === 'event' && type === 'prompt' ? 'prompt of this page' : type;
        note(`#${number} ${{in: '→ service:', out: '← service:', event: ''}[direction]} ${what}${detail ? `: ${detail}` : ''}`, session);
    }
    const faults = String(await ask('/control/faults')).trim();
    $('active').textContent = faults && `new connections: ${faults.split('\n').join(', ')}`;
}

/** The service listens where this browser reaches it. */
let isReachable = true;

async function welcome() {
    const config = await ask('/page/config', 'POST');
    isReachable = config.is_reachable;
    $('hidden-prompts').hidden = config.shows_prompts;
    $('unreachable').hidden = isReachable && Boolean(navigator.mediaDevices);
    $('unreachable').textContent = isReachable ? 'The browser lends no camera to a page of another machine.'
        : 'The service of this stand-in listens on its own machine only; --host 0.0.0.0 opens it to this one.';
    $('version').textContent = config.version;
    $('service').textContent = `service: ${config.service}`;
    $('command').textContent = `gst-launch-1.0 videotestsrc is-live=true ! decarttransform base-url=${config.service} api-key=x`
        + ' prompt="Lego World" ! videoconvert ! autovideosink';
    kinds = new Map(config.faults.map(each => [each.name, each]));
    $('kind').append(...config.faults.map(({name}) => new Option(name)));
    explain();
}

// --- Plot ------------------------------------------------------------------------------------------------------------

/** One a second: {latency, received, sent}. */
const points = [];
const LENGTH = 60;
let measured = null;

function measure(session) {
    const own = Boolean(client), subject = own ? 'own' : session?.id;
    // The delays of this page's session and of another one are not the same figure.
    if (subject !== measured) points.length = 0;
    measured = subject;
    // A closed session keeps its last figures.
    if (session?.state === 'closed') session = undefined;
    points.push({
        latency: own ? client.takeLatency() : session?.delay_ms ?? null,
        received: session?.bitrate_in ?? null, sent: session?.bitrate_out ?? null,
    });
    if (points.length > LENGTH) points.shift();
    plot();
    const last = points.at(-1);
    document.body.dataset.latency = last.latency === null ? '' : last.latency.toFixed(0);
    $('plot-text').textContent = session || own
        ? `${own ? 'From canvas to canvas' : 'In the stand-in'}: ${last.latency === null ? '–' : last.latency.toFixed(0)} ms. `
            + `To the stand-in ${mega(last.received)} Mbit/s, back ${mega(last.sent)} Mbit/s.`
        : 'Nothing measured yet.';
}

function plot() {
    const canvas = $('plot'), ratio = devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    }
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const colour = name => style.getPropertyValue(name).trim();
    const top = 22, bottom = height - 22, left = 44, right = width - 48;
    const most = keys => Math.max(0, ...points.flatMap(point => keys.map(key => point[key] ?? 0)));
    const nice = value => [1, 2, 5, 10].map(step => step * 10 ** Math.floor(Math.log10(value || 1))).find(step => step >= value) ?? 1;
    const highest = {latency: nice(Math.max(100, most(['latency']))), rate: nice(Math.max(1e6, most(['received', 'sent'])))};
    context.font = '12px system-ui, sans-serif';
    for (const part of [0, 0.5, 1]) {
        const y = Math.round(bottom - (bottom - top) * part);
        context.fillStyle = colour('--line');
        context.fillRect(left, y, right - left, 1);
        context.fillStyle = colour('--quiet');
        context.textAlign = 'right';
        context.fillText(`${Math.round(highest.latency * part)}`, left - 6, y + 4);
        context.textAlign = 'left';
        context.fillText(`${(highest.rate * part / 1e6).toFixed(1)}`, right + 6, y + 4);
    }
    context.fillStyle = colour('--quiet');
    for (const [part, text, align] of [[0, '60 s ago', 'left'], [0.5, '30 s', 'center'], [1, 'now', 'right']]) {
        context.textAlign = align;
        context.fillText(text, left + (right - left) * part, height - 5);
    }
    // The delay of this page's session and that within the stand-in are different figures.
    const [delay, line] = client ? ['ms, canvas to canvas', '--plot-a'] : ['ms in the stand-in', '--plot-d'];
    const isNarrow = width < 340;
    const legend = [[isNarrow ? 'ms' : delay, line, 'latency', highest.latency], ['Mbit/s in', '--plot-b', 'received', highest.rate],
        ['Mbit/s out', '--plot-c', 'sent', highest.rate]];
    let x = left;
    context.textAlign = 'left';
    legend.forEach(([name, variable, key, high], index) => {
        context.fillStyle = context.strokeStyle = colour(variable);
        context.lineWidth = 2;
        // Colours alone do not tell the lines apart for everyone.
        context.setLineDash([[], [6, 3], [2, 3]][index]);
        context.beginPath();
        context.moveTo(x, 9);
        context.lineTo(x + 18, 9);
        context.stroke();
        context.fillText(name, x + 22, 13);
        x += 34 + context.measureText(name).width;
        context.beginPath();
        let isDrawn = false;
        points.forEach((point, position) => {
            if (point[key] === null) { isDrawn = false; return; }
            const at = [left + (right - left) * (position + LENGTH - points.length) / (LENGTH - 1),
                bottom - (bottom - top) * Math.min(1, point[key] / high)];
            if (isDrawn) context.lineTo(...at); else context.moveTo(...at);
            isDrawn = true;
        });
        context.stroke();
        context.setLineDash([]);
    });
}

addEventListener('resize', plot);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', plot);
$('try-canvas').addEventListener('click', () => start(false));
$('try-camera').addEventListener('click', () => start(true));
$('stop').addEventListener('click', stop);
$('reload').addEventListener('click', () => location.reload());
setInterval(() => {
    const colour = screens.after.video.srcObject && screens.after.colour;
    $('colour').style.background = colour ? `rgb(${colour})` : 'none';
    const text = colour ? `#${colour.map(part => part.toString(16).padStart(2, '0')).join('')}` : '–';
    if ($('colour-text').textContent !== text) $('colour-text').textContent = text;
}, 250);
addEventListener('pagehide', () => { stop(); unwatch(); });

(async () => {
    await welcome().catch(() => {});
    plot();
    enable();
    for (;;) {
        await poll();
        await sleep(1000);
    }
})();
