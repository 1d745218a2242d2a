"""Rows with foreign clients of the stand-in."""

import asyncio
import json
import os
import socket
import ssl
import subprocess

import aiohttp
import h11
import websockets

from judges import ADDRESS, ADDRESS6, HOST, KEY, LIMIT, expect, row

PROMPT = '{"type":"prompt","prompt":"%s"}'


def trust(lab):
    return ssl.create_default_context(cafile=lab.certificates.path("ca"))


# --- WebSocket -----------------------------------------------------------------------------------------------------------

async def talk(lab, url, **options):
    """Prompts of several sizes, whole and in fragments, with pings in between, and both ends of the closing handshake."""
    async with websockets.connect(lab.stream(url), proxy=None, max_size=None, **options) as peer:
        expect(not peer.protocol.extensions, f"the extension {peer.protocol.extensions} is selected")
        expect(json.loads(await peer.recv())["type"] == "status", "the first message is no status")
        expect(json.loads(await peer.recv())["type"] == "session_id", "the second message is no session id")
        for length in (1, 90, 94, 95, 200, 65400, 65520):
            prompt = PROMPT % ("a" * length)
            for parts in (prompt, [prompt[:1], prompt[1:50], "", prompt[50:]]):
                await peer.send(parts)
                answer = json.loads(await peer.recv())
                expect((answer["type"], len(answer["prompt"]), answer["success"]) == ("prompt_ack", length, True), answer)
            await (await peer.ping(b"x" * min(length, 125)))
        await peer.close(4002, "the client's reason")
        expect(peer.close_code == 4002, f"the echoed code is {peer.close_code}")


@row("websockets as client", sample=True)
def websockets_client(lab):
    lab.run(talk(lab, f"ws://127.0.0.1:{lab.plain}"))


@row("websockets as client over TLS", sample=True)
def websockets_client_tls(lab):
    lab.run(talk(lab, f"wss://{HOST}:{lab.secure}", ssl=trust(lab)))


@row("websockets as client at ::1")
def websockets_client_six(lab):
    lab.run(talk(lab, f"ws://[::1]:{lab.plain}"))


@row("websockets: codes with which the stand-in closes")
def standin_closes(lab):
    async def closed(code):
        url = lab.stream(f"ws://127.0.0.1:{lab.plain}") + f"&fault=close_{code}_at_join"
        async with websockets.connect(url, proxy=None) as peer:
            try:
                while True:
                    await peer.recv()
            except websockets.ConnectionClosed:
                expect(peer.close_code == code, f"{peer.close_code} instead of {code}")

    for code in (1001, 1011, 1012, 1013, 4001):
        lab.run(closed(code))


@row("websockets: violations of the client are named", sample=True)
def violations(lab):
    async def violate(name, code, misbehave):
        async with websockets.connect(lab.stream(f"ws://127.0.0.1:{lab.plain}"), proxy=None, max_size=None) as peer:
            await peer.recv()
            await misbehave(peer)
            try:
                while True:
                    await peer.recv()
            except websockets.ConnectionClosed:
                expect(peer.close_code == code, f"{name}: {peer.close_code} instead of {code}")

    async def raw(peer, frame):
        peer.transport.write(frame)

    for name, code, misbehave in (
            ("no UTF-8", 1007, lambda peer: peer.send(b"\xc0\x80", text=True)),
            ("UTF-8 cut in two fragments", 1007, lambda peer: peer.send([b"\xe2\x82", b"\xe2"], text=True)),
            ("no mask", 1002, lambda peer: raw(peer, b"\x81\x01a")),
            ("a reserved bit", 1002, lambda peer: raw(peer, b"\xc1\x81\0\0\0\0a")),
            ("a reserved opcode", 1002, lambda peer: raw(peer, b"\x83\x81\0\0\0\0a")),
            ("a ping in fragments", 1002, lambda peer: raw(peer, b"\x09\x80\0\0\0\0")),
            ("a continuation of nothing", 1002, lambda peer: raw(peer, b"\x80\x80\0\0\0\0")),
            ("a close of one byte", 1002, lambda peer: raw(peer, b"\x88\x81\0\0\0\0a")),
            ("a frame without end", 1009, lambda peer: raw(peer, b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"))):
        lab.run(violate(name, code, misbehave))


@row("aiohttp as client, which offers compression", sample=True)
def aiohttp_client(lab):
    async def run():
        async with aiohttp.ClientSession() as session, session.ws_connect(
                lab.stream(f"https://{HOST}:{lab.secure}"), ssl=trust(lab), compress=15, max_msg_size=0) as peer:
            expect(not peer.compress, "compression is selected")
            await peer.receive_json()
            await peer.receive_json()
            await peer.ping(b"x")
            for length in (1, 60000):
                await peer.send_str(PROMPT % ("é" * length))
                expect(len((await peer.receive_json())["prompt"]) == length, "another prompt")
            expect(await peer.close(code=3999, message=b"bye"), "it was closed before")
            expect(peer.close_code == 3999, f"the echoed code is {peer.close_code}")

    lab.run(run())


# --- HTTP ----------------------------------------------------------------------------------------------------------------

TOKENS = "/v1/client/tokens"


@row("curl as client", sample=True, needs=("curl",))
def curl_client(lab):
    base = f"http://127.0.0.1:{lab.plain}"
    key = ["--header", f"X-API-KEY: {KEY}"]
    for name, words in (
            ("a length", ["--data", "{}"]), ("no body", ["--request", "POST"]),
            ("chunks", ["--data", "{}", "--header", "Transfer-Encoding: chunked"]),
            ("100-continue", ["--data", "{}", "--header", "Expect: 100-continue"]),
            ("HTTP/1.0", ["--data", "{}", "--http1.0"]), ("another spelling", ["--data", "{}", "--header", "x-api-key;"]),
            ("an upgrade to HTTP/2", ["--data", "{}", "--http2"])):
        body = lab.curl(*key, *words, base + TOKENS)
        expect(json.loads(body)["apiKey"].startswith("ek_"), f"{name}: {body}")
    lab.curl("--data", "{}", base + TOKENS, status="401")
    lab.curl(*key, base + TOKENS, status="405")
    lab.curl(*key, f"{base}/nothing", status="404")
    lab.curl(*key, f"{base}/v1/stream?api_key={KEY}&model=lucy-2.6", status="426")
    lab.curl("--header", "Origin: http://elsewhere.test", f"{base}/v1/stream?api_key={KEY}&model=lucy-2.6", status="403")
    lab.curl(*key, "--header", "A: " + "a" * 100_000, base + TOKENS, status="431")
    # The second request takes a new connection, as the answer says.
    bodies = lab.curl(*key, "--data", "{}", base + TOKENS, base + TOKENS)
    expect(bodies.count('"apiKey"') == 2, bodies)


@row("curl as client of the control port", needs=("curl",))
def curl_control(lab):
    base = f"http://127.0.0.1:{lab.control}"
    expect(json.loads(lab.curl(f"{base}/health")), "no health")
    lab.curl("--data", "http_404:count=1,after=9999", f"{base}/control/faults")
    expect("http_404" in lab.curl(f"{base}/control/faults"), "the fault is not there")
    lab.curl("--request", "DELETE", f"{base}/control/faults")
    expect("http_404" not in lab.curl(f"{base}/control/faults"), "the fault is still there")
    lab.curl("--data", "a" * 100_000, f"{base}/control/faults", status="413")
    lab.curl("--header", "Host: elsewhere.test", f"{base}/health", status="403")
    lab.curl("--head", f"{base}/health", status="405")


@row("curl as client over TLS", needs=("curl",))
def curl_tls(lab):
    base = ["--header", f"X-API-KEY: {KEY}", "--data", "{}", f"https://{HOST}:{lab.secure}{TOKENS}"]
    good = ["--cacert", lab.certificates.path("ca")]
    lab.curl(*good, *base)
    lab.curl(*good, "--tls-max", "1.2", *base)
    lab.curl(*good, "--tlsv1.3", *base)
    lab.curl(*good, "--http2", *base)
    lab.curl(*good, "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0", *base, status="000", code=35)
    lab.curl("--cacert", lab.certificates.path("other"), *base, status="000", code=60)
    lab.curl(*good, *base[:-1], f"https://{ADDRESS}:{lab.secure}{TOKENS}")
    lab.curl(*good, *base[:-1], f"https://[{ADDRESS6}]:{lab.secure6}{TOKENS}")


@row("h11 as client: strict about each answer", sample=True)
def h11_client(lab):
    def ask(port, method, target, *fields, body=b""):
        peer = h11.Connection(h11.CLIENT)
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as connection:
            request = h11.Request(method=method, target=target, headers=[
                ("Host", f"127.0.0.1:{port}"), ("Content-Length", str(len(body))), *fields])
            connection.sendall(peer.send(request) + (peer.send(h11.Data(body)) or b"") + (peer.send(h11.EndOfMessage()) or b""))
            answer, length = None, 0
            while True:
                event = peer.next_event()
                if event is h11.NEED_DATA:
                    peer.receive_data(connection.recv(65536))
                elif isinstance(event, h11.Response):
                    answer = event
                elif isinstance(event, h11.Data):
                    length += len(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
            announced = int(dict(answer.headers).get(b"content-length", length))
            expect(length == announced or method == "HEAD", f"{target}: {length} bytes instead of {announced}")
            # An answer to HEAD has no body, and nothing follows an answer that closes.
            expect(not peer.trailing_data[0], f"{target}: {peer.trailing_data[0]} follows the answer to {method}")
            if peer.their_state is h11.MUST_CLOSE:
                expect(connection.recv(1) == b"", f"{target}: the connection stays open")
            return answer.status_code

    key = ("X-API-KEY", KEY)
    for port, status, *request in (
            (lab.plain, 200, "POST", TOKENS, key), (lab.plain, 401, "POST", TOKENS), (lab.plain, 405, "PUT", TOKENS, key),
            (lab.plain, 200, "GET", "/v1/realtime/quota", key), (lab.plain, 404, "GET", "/"),
            (lab.plain, 404, "HEAD", "/"), (lab.plain, 404, "OPTIONS", "*"), (lab.control, 405, "HEAD", "/health"),
            (lab.plain, 426, "GET", f"/v1/stream?api_key={KEY}&model=lucy-2.6"),
            (lab.control, 200, "GET", "/health"), (lab.control, 404, "GET", "/nothing"),
            (lab.control, 200, "GET", "/control/sessions"), (lab.control, 200, "GET", "/control/journal")):
        found = ask(port, *request)
        expect(found == status, f"{request[:2]}: {found} instead of {status}")


# --- TLS -----------------------------------------------------------------------------------------------------------------

def speak_tls(lab, *command, code=0):
    """Sends a request through a program that passes standard input to a TLS server. Returns what it prints."""
    body = "{}"
    request = (f"POST {TOKENS} HTTP/1.1\r\nHost: {HOST}\r\nX-API-KEY: {KEY}\r\nContent-Length: {len(body)}\r\n\r\n{body}")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=lab.environment)
    # Standard input stays open until the server ends the connection.
    process.stdin.write(request.encode())
    try:
        process.stdin.flush()
    except BrokenPipeError:
        pass
    try:
        output = process.stdout.read().decode(errors="replace")
        status = process.wait(LIMIT)
    finally:
        process.kill()
    expect(bool(status) == bool(code), f"{os.path.basename(command[0])} ended with {status}: {output[-400:]}")
    return output


def s_client(lab, *options, **more):
    return speak_tls(lab, "openssl", "s_client", "-connect", f"{ADDRESS}:{lab.secure}", "-servername", HOST, "-verify_hostname",
                     HOST, "-verify_return_error", "-CAfile", lab.certificates.path("ca"), "-ign_eof", *options, **more)


@row("openssl s_client", sample=True, needs=("openssl",))
def openssl_client(lab):
    for options in (["-tls1_2"], ["-tls1_3"], ["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"],
                    ["-tls1_3", "-groups", "P-384"], ["-alpn", "h2,http/1.1"], ["-split_send_frag", "512", "-max_pipelines", "1"]):
        output = s_client(lab, *options)
        expect('"apiKey"' in output and "Verify return code: 0" in output, f"{options}: {output[-300:]}")
        # An answer ends with close_notify, after which OpenSSL says "closed".
        expect("closed" in output and "unexpected eof" not in output, f"{options}: {output[-300:]}")


@row("openssl s_client: refused versions and ciphers", needs=("openssl",))
def openssl_client_refused(lab):
    for options in (["-tls1", "-cipher", "ALL:@SECLEVEL=0"], ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"],
                    ["-tls1_2", "-cipher", "aNULL:eNULL:@SECLEVEL=0"]):
        output = s_client(lab, *options, code=1)
        expect("alert" in output or "no ciphers" in output, f"{options}: {output[-300:]}")


@row("gnutls-cli", sample=True, needs=("gnutls-cli",))
def gnutls_client(lab):
    for priority in ("NORMAL:-VERS-ALL:+VERS-TLS1.2", "NORMAL:-VERS-ALL:+VERS-TLS1.3", "NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-ALL:"
                     "+GROUP-SECP384R1", "PFS"):
        output = speak_tls(lab, "gnutls-cli", "--x509cafile", lab.certificates.path("ca"), "--priority", priority, "--port",
                           str(lab.secure), HOST)
        expect('"apiKey"' in output and "certificate is trusted" in output, f"{priority}: {output[-300:]}")
        expect("closed the GnuTLS connection" in output, f"{priority}: no close_notify: {output[-300:]}")


@row("gnutls-cli: refused versions", needs=("gnutls-cli",))
def gnutls_client_refused(lab):
    output = speak_tls(lab, "gnutls-cli", "--x509cafile", lab.certificates.path("ca"), "--priority",
                       "NORMAL:-VERS-ALL:+VERS-TLS1.1:+VERS-TLS1.0:%VERIFY_ALLOW_BROKEN", "--port", str(lab.secure), HOST, code=1)
    expect("alert" in output, output[-300:])


@row("Python's ssl: a client that ends without close_notify, in the middle and at the start")
def rude_clients(lab):
    def rude(send, is_reset):
        with socket.create_connection((ADDRESS, lab.secure), timeout=LIMIT) as plain:
            peer = trust(lab).wrap_socket(plain, server_hostname=HOST)
            peer.sendall(send)
            raw = socket.socket(fileno=peer.detach())
            if is_reset:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            raw.close()

    for send in (b"P", f"POST {TOKENS} HTTP/1.1\r\n".encode(),
                 f"POST {TOKENS} HTTP/1.1\r\nHost: a\r\nX-API-KEY: {KEY}\r\nContent-Length: 9\r\n\r\n{{".encode()):
        for is_reset in (False, True):
            rude(send, is_reset)
    # The next client is served.
    lab.run(talk(lab, f"wss://{HOST}:{lab.secure}", ssl=trust(lab)))


@row("aiohttp: sixty clients at once over TLS")
def many_clients(lab):
    async def run():
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust(lab), limit=0)) as session:
            async def ask():
                async with session.post(f"https://{HOST}:{lab.secure}{TOKENS}", headers={"X-API-KEY": KEY}, json={}) as answer:
                    return answer.status, (await answer.json())["apiKey"]
            answers = await asyncio.gather(*(ask() for _ in range(60)))
            expect({status for status, _ in answers} == {200} and len({key for _, key in answers}) == 60, answers[:3])

    lab.run(run())
