"""Rows with foreign servers of our client, directly or as a reverse proxy in front of the stand-in."""

import contextlib
import json
import queue
import socket
import ssl
import subprocess
import sys
import threading

import aiohttp.web
import h11
import websockets

from judges import ADDRESS, ADDRESS6, HOST, KEY, LIMIT, TOKEN, expect, program, row

MESSAGE = '{"type":"status","status":"ready"}'


def context(lab, name="good", **options):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(lab.certificates.path(name), lab.certificates.path(name, "key"))
    for option, value in options.items():
        setattr(tls, option, value)
    return tls


@contextlib.contextmanager
def websockets_server(lab, handler, **options):
    """Yields the port."""
    async def start():
        return await websockets.serve(handler, ADDRESS, port, max_size=None, **options)

    port = lab.port()
    server = lab.run(start())
    try:
        yield port
    finally:
        lab.loop.call_soon_threadsafe(server.close)


# --- WebSocket -----------------------------------------------------------------------------------------------------------

async def obey(peer):
    """A server that does what the messages say, and returns the others."""
    async for message in peer:
        command, _, rest = message.partition(":")
        if command == "fragments":
            await peer.send(iter([rest[:1], rest[1:10], "", rest[10:]]))
        elif command == "ping":
            await (await peer.ping(rest.encode()))
            await peer.send("pong")
        elif command == "close":
            code, _, reason = rest.partition(":")
            await peer.close(int(code), reason)
        elif command == "size":
            await peer.send("a" * int(rest))
        elif command == "malformed":
            await peer.send(b"\xff", text=True)
        else:
            await peer.send(message)


async def echo(url, sizes=(0, 1, 125, 126, 65535, 65536, 1 << 20)):
    """Sends messages through the relay in both directions, and pings; ends with a close."""
    async with websockets.connect(url, proxy=None, max_size=None) as peer:
        for size in sizes:
            await peer.send("é" * (size // 2) + "a" * (size % 2))
            expect(len((await peer.recv()).encode()) == size, f"{size} bytes do not come back")
        await peer.send(["one ", "", "message ", "in fragments"])
        expect(await peer.recv() == "one message in fragments", "the fragments do not come back")
        await (await peer.ping(b"from the client"))


@row("websockets as server: messages, fragments, pings", sample=True)
def websockets_echo(lab):
    async def commands(url):
        async with websockets.connect(url, proxy=None, max_size=None) as peer:
            await peer.send("fragments:" + "€" * 40000)
            expect(await peer.recv() == "€" * 40000, "the fragments of the server")
            await peer.send("ping:" + "p" * 125)
            expect(await peer.recv() == "pong", "the ping of the server")
            await peer.send("ping:")
            expect(await peer.recv() == "pong", "the empty ping of the server")

    # The server offers compression, which our client does not request.
    with websockets_server(lab, obey, ssl=context(lab)) as port, lab.relay(f"wss://{HOST}:{port}") as url:
        lab.run(echo(url))
        lab.run(commands(url))


@row("websockets as server: ends of a connection in both directions", sample=True)
def websockets_ends(lab):
    seen = queue.Queue()

    async def handler(peer):
        with contextlib.suppress(websockets.ConnectionClosed):
            await obey(peer)
        seen.put(peer.protocol.close_rcvd and peer.protocol.close_rcvd.code)

    async def end(url, command):
        """What a client of the relay sees."""
        async with websockets.connect(url, proxy=None, max_size=None) as peer:
            await peer.send(command)
            try:
                while True:
                    await peer.recv()
            except websockets.ConnectionClosed:
                return peer.close_code, peer.close_reason

    async def leave(url):
        async with websockets.connect(url, proxy=None) as peer:
            await peer.send("hello")
            await peer.recv()

    with websockets_server(lab, handler) as port, lab.relay(f"ws://{HOST}:{port}") as url:
        for code in (1000, 1001, 1008, 1011, 1012, 1013, 3000, 4999):
            found = lab.run(end(url, f"close:{code}:the reason"))
            expect(found == (code, "the reason"), f"the client got {found} for {code}")
            echoed = seen.get(timeout=LIMIT)
            expect(echoed == code, f"the server got {echoed} for its {code}")
        # The longest reason, a message above the limit, and one that is not UTF-8.
        for command, code in (("close:4000:" + "r" * 123, 4000), ("size:1048577", 1009), ("malformed:", 1007)):
            lab.run(end(url, command))
            answered = seen.get(timeout=LIMIT)
            expect(answered == code, f"the server got {answered} for {command[:20]}")
        lab.run(leave(url))
        left = seen.get(timeout=LIMIT)
        expect(left == 1000, f"the server got {left} when the client left")


@row("websockets as server: refused upgrades", sample=True)
def websockets_refusals(lab):
    def answer(status, reason="", **fields):
        def respond(connection, _):
            found = connection.respond(status, reason)
            for name, value in fields.items():
                name = name.replace("_", "-")
                if name in found.headers:
                    del found.headers[name]
                found.headers[name] = value
            return found
        return respond

    def added(name, value, instead=False):
        def change(_, __, response):
            if instead:
                del response.headers[name]
            response.headers[name] = value
            return response
        return change

    async def greet(peer):
        await peer.send(MESSAGE)
        await peer.wait_closed()

    for probe, words, options in (
            ("key", "rejected the API key (HTTP 401: bad key)", {"process_request": answer(401, "bad key")}),
            ("key", "(HTTP 403", {"process_request": answer(403, "no")}),
            ("key", "redirects are not followed", {"process_request": answer(302, Location="https://elsewhere.test/")}),
            ("key", "redirects are not followed", {"process_request": answer(307, Location="/other")}),
            ("key", "is unavailable (HTTP 503: busy)", {"process_request": answer(503, "busy")}),
            ("key", "no service at this path (HTTP 404", {"process_request": answer(404)}),
            ("key", "a page instead of a WebSocket", {"process_request": answer(200, "<html>", Content_Type="text/html")}),
            ("key", "an extension or subprotocol that was not offered",
             {"process_response": added("Sec-WebSocket-Extensions", "permessage-deflate")}),
            ("key", "an extension or subprotocol that was not offered",
             {"process_response": added("Sec-WebSocket-Protocol", "chat")}),
            ("key", "Sec-WebSocket-Accept header is wrong",
             {"process_response": added("Sec-WebSocket-Accept", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", instead=True)})):
        with websockets_server(lab, greet, ssl=context(lab), **options) as port:
            lab.refuses(f"wss://{HOST}:{port}", probe, words)
    # Names of fields and the values of Connection and Upgrade have no case.
    with websockets_server(lab, greet, ssl=context(lab), process_response=added("Connection", "keep-alive, uPgRaDe", True)) as port:
        lab.accepts(f"wss://{HOST}:{port}")


@contextlib.contextmanager
def aiohttp_server(lab, *routes, tls=None, **options):
    async def start():
        application = aiohttp.web.Application()
        application.add_routes(routes)
        runner = aiohttp.web.AppRunner(application, access_log=None, **options)
        await runner.setup()
        await aiohttp.web.TCPSite(runner, ADDRESS, port, ssl_context=tls, shutdown_timeout=0.1).start()
        return runner

    port = lab.port()
    runner = lab.run(start())
    try:
        yield port
    finally:
        lab.run(runner.cleanup())


@row("aiohttp as server: messages and a close", sample=True)
def aiohttp_echo(lab):
    seen = []

    async def handler(request):
        # Compression, if the client offers it.
        peer = aiohttp.web.WebSocketResponse(max_msg_size=0, compress=True)
        await peer.prepare(request)
        seen.append(request.headers.get("Sec-WebSocket-Extensions"))
        async for message in peer:
            await peer.send_str(message.data)
        seen.append(peer.close_code)
        return peer

    with aiohttp_server(lab, aiohttp.web.get("/v1/stream", handler), tls=context(lab)) as port, \
            lab.relay(f"wss://{HOST}:{port}") as url:
        lab.run(echo(url))
    expect(seen == [None, 1000], f"extensions and close code: {seen}")


HYPERCORN = """
import json
async def app(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": event["text"]})
    elif scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        # Without a length: in chunks.
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        for part in (b'{"apiKey":', b'"ek_given","expiresAt":', b'"2999-01-01T00:00:00Z"}'):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})
"""


@row("hypercorn as server: messages and requests in chunks")
def hypercorn_server(lab):
    port = lab.port()
    lab.file("hypercorn_application.py", HYPERCORN)
    lab.start(sys.executable, "-m", "hypercorn", "hypercorn_application:app", "--bind", f"{ADDRESS}:{port}", "--certfile",
              lab.certificates.path("good"), "--keyfile", lab.certificates.path("good", "key"), port=port, cwd=lab.folder)
    lab.accepts(f"wss://{HOST}:{port}", key=KEY)
    with lab.relay(f"wss://{HOST}:{port}") as url:
        lab.run(echo(url))


# --- HTTP ----------------------------------------------------------------------------------------------------------------

GIVEN = b'{"apiKey":"ek_given","expiresAt":"2999-01-01T00:00:00Z"}'


@row("aiohttp as server: answers in chunks, with compression offered, kept alive")
def aiohttp_requests(lab):
    seen = []

    async def tokens(request):
        seen.append((await request.read(), request.headers.get("Accept-Encoding"), request.version))
        answer = aiohttp.web.StreamResponse()
        answer.enable_chunked_encoding()
        answer.enable_compression()
        await answer.prepare(request)
        for part in (GIVEN[:1], GIVEN[1:]):
            await answer.write(part)
        return answer

    with aiohttp_server(lab, aiohttp.web.post("/v1/client/tokens", tokens), tls=context(lab)) as port:
        lab.accepts(f"wss://{HOST}:{port}", key=KEY)
    expect(seen and seen[0][1] is None and json.loads(seen[0][0]), f"the request: {seen}")


@contextlib.contextmanager
def h11_server(lab, answer):
    """A server that reads each request by h11, and sends the bytes that `answer` returns for it; then it closes. Only the
    first request is for a client token."""
    listener = socket.create_server((ADDRESS, lab.port()))
    tls = context(lab)
    problems = []

    def serve(plain):
        with contextlib.suppress(OSError), tls.wrap_socket(plain, server_side=True) as connection:
            peer = h11.Connection(h11.SERVER)
            while True:
                event = peer.next_event()
                if event is h11.NEED_DATA:
                    data = connection.recv(65536)
                    if not data:
                        return
                    peer.receive_data(data)
                elif isinstance(event, h11.EndOfMessage):
                    break
            answer(peer, connection.sendall)
            # An end without close_notify would be a truncated answer; some answers want that.
            if not getattr(answer, "is_cut", False):
                connection.unwrap()

    def accept():
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=guarded, args=[plain], daemon=True).start()

    def guarded(plain):
        try:
            serve(plain)
        except h11.RemoteProtocolError as error:
            problems.append(str(error))

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    expect(not problems, f"h11 finds: {problems}")


@row("h11 as server: interim answers, trailers, and bodies to the end", sample=True)
def h11_answers(lab):
    def interim(peer, send):
        for status, fields in ((100, []), (102, []), (103, [("Link", "</a>; rel=preload")])):
            send(peer.send(h11.InformationalResponse(status_code=status, headers=fields)))
        send(peer.send(h11.Response(status_code=200, headers=[("Content-Length", str(len(GIVEN)))])))
        send(peer.send(h11.Data(GIVEN)) + peer.send(h11.EndOfMessage()))

    def trailers(peer, send):
        send(peer.send(h11.Response(status_code=200, headers=[("Transfer-Encoding", "chunked")])))
        for number in range(len(GIVEN)):
            send(peer.send(h11.Data(GIVEN[number:number + 1])))
        send(peer.send(h11.EndOfMessage(headers=[("Digest", "a")])))

    def to_the_end(_, send):
        send(b"HTTP/1.0 200\r\n\r\n" + GIVEN)

    def extensions(_, send):
        send(b"HTTP/1.1 200 OK\r\ntransfer-encoding:  Chunked \r\n\r\n%x ; a=\"b\"\r\n%s\r\n000;c\r\n\r\n" % (len(GIVEN), GIVEN))

    for answer in (interim, trailers, to_the_end, extensions):
        with h11_server(lab, answer) as port:
            lab.accepts(f"wss://{HOST}:{port}", key=KEY)


@row("h11 as server: answers that are cut short or malformed", sample=True)
def h11_cut(lab):
    cases = (
        ("was lost", b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n" + GIVEN),
        ("was lost", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"),
        ("was lost", b"HTTP/1.1 200 OK\r\nContent-Le"),
        ("is not HTTP", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"),
        ("is not HTTP", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: gzip\r\n\r\n{}"),
        ("is not HTTP", b"220 mail.test ESMTP\r\n"),
        ("is not HTTP", b"HTTP/1.1 200 OK\r\nA: " + b"a" * 200_000))
    for words, data in cases:
        for is_cut in (False, True):
            def answer(_, send, data=data):
                send(data)
            answer.is_cut = is_cut
            with h11_server(lab, answer) as port:
                lab.refuses(f"wss://{HOST}:{port}", "key", words, key=KEY)

    # A body whose end is not marked but by the end of TLS, which does not come.
    def unmarked(_, send):
        send(b"HTTP/1.1 200 OK\r\n\r\n" + GIVEN)
    unmarked.is_cut = True
    with h11_server(lab, unmarked) as port:
        lab.refuses(f"wss://{HOST}:{port}", "key", "was lost", key=KEY)


# --- Reverse proxies -------------------------------------------------------------------------------------------------------

NGINX = """
user root;
daemon off;
pid {folder}/nginx-{port}.pid;
error_log stderr;
worker_processes 1;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/nginx-{port}-body;
    proxy_temp_path {folder}/nginx-{port}-proxy;
    fastcgi_temp_path {folder}/nginx-{port}-fastcgi;
    uwsgi_temp_path {folder}/nginx-{port}-uwsgi;
    scgi_temp_path {folder}/nginx-{port}-scgi;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
    gzip on;
    gzip_types *;
    gzip_min_length 1;
    server {{
        listen {address}:{port} ssl {parameters};
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        {server}
        location / {{
            proxy_pass {upstream};
            proxy_ssl_verify on;
            proxy_ssl_trusted_certificate {ca};
            proxy_ssl_name {host};
            proxy_ssl_server_name on;
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
            proxy_buffer_size 4k;
            {location}
        }}
        location /moved/ {{ return 302 https://elsewhere.test/; }}
        location /page/ {{ return 200 "<html>"; }}
        location /denied/ {{ return 403; }}
    }}
}}
"""


def nginx(lab, upstream, parameters="", location="", server=""):
    """Returns the port of nginx in front of the upstream."""
    port = lab.port()
    path = lab.file(f"nginx-{port}.conf", NGINX.format(
        folder=lab.folder, port=port, address=ADDRESS, parameters=parameters, location=location, server=server, upstream=upstream,
        certificate=lab.certificates.path("good"), key=lab.certificates.path("good", "key"), ca=lab.certificates.path("ca"),
        host=HOST))
    lab.start(program("nginx"), "-c", path, port=port)
    return port


async def prompt_through(lab, port):
    """A session through a reverse proxy, with a large message in each direction."""
    tls = ssl.create_default_context(cafile=lab.certificates.path("ca"))
    async with websockets.connect(lab.stream(f"wss://{HOST}:{port}"), ssl=tls, proxy=None, max_size=None) as peer:
        await peer.recv()
        await peer.recv()
        await peer.send('{"type":"prompt","prompt":"%s"}' % ("a" * 60000))
        expect(len(json.loads(await peer.recv())["prompt"]) == 60000, "the prompt does not come back")
        await (await peer.ping(b"through"))
        await peer.close(4003, "through the proxy")
        expect(peer.close_code == 4003, f"the echoed code is {peer.close_code}")


@row("nginx in front of the stand-in", sample=True, needs=("nginx",))
def nginx_plain(lab):
    port = nginx(lab, f"http://127.0.0.1:{lab.plain}")
    base = f"wss://{HOST}:{port}"
    lab.accepts(base)
    lab.accepts(base, key=KEY)
    lab.run(prompt_through(lab, port))
    lab.refuses(f"{base}/moved", "key", "redirects are not followed")
    lab.refuses(f"{base}/moved", "key", "HTTP 302", key=KEY)
    lab.refuses(f"{base}/page", "key", "a page instead of a WebSocket")
    lab.refuses(f"{base}/denied", "key", "HTTP 403", key=KEY)


@row("nginx in front of the stand-in: TLS on both sides, without buffers, HTTP/2 offered", needs=("nginx",))
def nginx_tls(lab):
    port = nginx(lab, f"https://{ADDRESS}:{lab.secure}", "http2", "proxy_buffering off; proxy_request_buffering off;")
    lab.accepts(f"wss://{HOST}:{port}")
    lab.accepts(f"wss://{HOST}:{port}", key=KEY)
    lab.run(prompt_through(lab, port))


@row("nginx whose upstream is down or breaks off", needs=("nginx",))
def nginx_bad(lab):
    port = nginx(lab, f"http://127.0.0.1:{lab.port()}")
    lab.refuses(f"wss://{HOST}:{port}", "key", "HTTP 502")
    lab.refuses(f"wss://{HOST}:{port}", "key", "HTTP 502", key=KEY)
    # As nginx passes it on without a configuration for WebSocket.
    port = nginx(lab, f"http://127.0.0.1:{lab.plain}", server=f"location /plain/ {{ proxy_pass http://127.0.0.1:{lab.plain}/; }}")
    lab.refuses(f"wss://{HOST}:{port}/plain", "key", "HTTP 426")


@row("nginx: versions and names of TLS", needs=("nginx",))
def nginx_versions(lab):
    for version, words in (("TLSv1.2", "TLS 1.2"), ("TLSv1.3", "TLS 1.3")):
        port = nginx(lab, f"http://127.0.0.1:{lab.plain}", server=f"ssl_protocols {version}; ssl_session_tickets off;")
        expect(words in lab.accepts(f"wss://{HOST}:{port}"), f"not {words}")
        lab.accepts(f"wss://{ADDRESS}:{port}")
        lab.refuses(f"wss://localhost:{port}", "tcp", "refused")


HAPROXY = """
global
    maxconn 100
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    timeout tunnel 30s
frontend service
    bind {address}:{port} ssl crt {pem} {parameters}
    default_backend standin
backend standin
    option httpchk
    http-check send meth GET uri / ver HTTP/1.1 hdr Host {name}
    http-check expect status 404
    http-request set-header Host {name}
    server standin {upstream} check inter 200
"""


def haproxy(lab, upstream, parameters=""):
    port = lab.port()
    with open(f"{lab.folder}/haproxy-{port}.pem", "w", encoding="ascii") as pem:
        for suffix in ("pem", "key"):
            pem.write(open(lab.certificates.path("good", suffix), encoding="ascii").read())
    path = lab.file(f"haproxy-{port}.conf", HAPROXY.format(
        address=ADDRESS, port=port, pem=pem.name, parameters=parameters, upstream=upstream,
        name=upstream.partition(" ")[0]))
    lab.start(program("haproxy"), "-db", "-f", path, port=port)
    return port


@row("HAProxy in front of the stand-in", sample=True, needs=("haproxy",))
def haproxy_plain(lab):
    port = haproxy(lab, f"127.0.0.1:{lab.plain}")
    lab.accepts(f"wss://{HOST}:{port}")
    lab.accepts(f"wss://{HOST}:{port}", key=KEY)
    lab.run(prompt_through(lab, port))


@row("HAProxy in front of the stand-in: TLS on both sides, HTTP/2 offered", needs=("haproxy",))
def haproxy_tls(lab):
    port = haproxy(lab, f"{ADDRESS}:{lab.secure} ssl verify required ca-file {lab.certificates.path('ca')} sni str({HOST}) "
                   f"verifyhost {HOST}", "alpn h2,http/1.1")
    lab.accepts(f"wss://{HOST}:{port}")
    lab.accepts(f"wss://{HOST}:{port}", key=KEY)
    lab.run(prompt_through(lab, port))


@row("HAProxy without a server behind it", needs=("haproxy",))
def haproxy_bad(lab):
    port = haproxy(lab, f"127.0.0.1:{lab.port()}")
    lab.refuses(f"wss://{HOST}:{port}", "key", "HTTP 503")


# --- TLS -----------------------------------------------------------------------------------------------------------------

def s_server(lab, *options, certificate="good", address=ADDRESS):
    port = lab.port()
    where = f"[{address}]" if ":" in address else address
    lab.start("openssl", "s_server", "-accept", f"{where}:{port}", "-cert", lab.certificates.path(certificate), "-key",
              lab.certificates.path(certificate, "key"), "-www", "-quiet", *options, port=port, address=address)
    return port


# The test servers of OpenSSL and GnuTLS answer each request with a page.
PAGE = "a page instead of a WebSocket"


def has_tls(lab, port, version=None, host=HOST, **more):
    found, text = lab.check(f"wss://{host}:{port}", **more)
    expect(found["tls"] == "ok", f"tls is {found['tls']} in {text}")
    expect(PAGE in text, f"no page in {text}")
    expect(not version or f"{version} to a verified server" in text, f"not {version}: {text}")


@row("openssl s_server: versions, ciphers, groups, ALPN", needs=("openssl",))
def openssl_versions(lab):
    for version, *options in (
            ("TLS 1.2", "-tls1_2"), ("TLS 1.3", "-tls1_3"), ("TLS 1.2", "-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"),
            ("TLS 1.3", "-groups", "P-384"), ("TLS 1.3", "-no_ticket"), ("TLS 1.3", "-num_tickets", "9"),
            ("TLS 1.3", "-alpn", "http/1.1"), ("TLS 1.3", "-stateless", "-tls1_3"), ("TLS 1.3", "-cert_chain",
                                                                                    lab.certificates.path("ca"))):
        has_tls(lab, s_server(lab, *options), version)
    has_tls(lab, s_server(lab, address=ADDRESS6), host=f"[{ADDRESS6}]")
    lab.refuses(f"wss://{HOST}:{s_server(lab, '-tls1_1', '-cipher', 'DEFAULT@SECLEVEL=0')}", "tls", "supports neither TLS 1.2 nor")


@row("openssl s_server: certificates", sample=True, needs=("openssl",))
def openssl_certificates(lab):
    certificates = lab.certificates
    certificates.openssl("req", "-x509", *certificates.key("self"), "-days", "30", "-subj", f"/CN={HOST}", "-addext",
                         f"subjectAltName=DNS:{HOST}", "-out", certificates.path("self"))
    certificates.openssl("req", *certificates.key("name"), "-out", certificates.path("name", "csr"), "-subj", f"/CN={HOST}")
    certificates.openssl("x509", "-req", "-in", certificates.path("name", "csr"), "-CA", certificates.path("ca"), "-CAkey",
                         certificates.path("ca", "key"), "-CAcreateserial", "-out", certificates.path("name"))
    certificates.openssl("req", "-x509", "-newkey", "rsa:1024", "-nodes", "-keyout", certificates.path("weak", "key"), "-days", "30",
                         "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}", "-out", certificates.path("weak"))
    for name, words in (("expired", "has expired"), ("host", "for another host name"), ("authority", "authority is unknown"),
                        ("self", "is not trusted"), ("name", "for another host name"), ("weak", "")):
        options = ["-cipher", "ALL:@SECLEVEL=0"] if name == "weak" else []
        lab.refuses(f"wss://{HOST}:{s_server(lab, *options, certificate=name)}", "tls", words,
                    authority="weak" if name == "weak" else "ca")
    # Each certificate of ca-file is trusted, also one of a server itself; another file leaves it unknown.
    has_tls(lab, s_server(lab, certificate="self"), authority="self")
    lab.refuses(f"wss://{HOST}:{s_server(lab)}", "tls", "authority is unknown", authority=None)


@row("gnutls-serv", sample=True, needs=("gnutls-serv",))
def gnutls_server(lab):
    for version, priority in (("TLS 1.2", "NORMAL:-VERS-ALL:+VERS-TLS1.2"), ("TLS 1.3", "NORMAL:-VERS-ALL:+VERS-TLS1.3"),
                              ("TLS 1.3", "NORMAL:-GROUP-ALL:+GROUP-SECP521R1"), ("TLS 1.2", "PFS:-VERS-TLS1.3:%SAFE_RENEGOTIATION")):
        port = lab.port()
        lab.start("gnutls-serv", "--http", "--quiet", "--port", str(port), "--x509certfile", lab.certificates.path("good"),
                  "--x509keyfile", lab.certificates.path("good", "key"), "--priority", priority, port=port)
        has_tls(lab, port, version)
    port = lab.port()
    lab.start("gnutls-serv", "--http", "--quiet", "--port", str(port), "--x509certfile", lab.certificates.path("good"),
              "--x509keyfile", lab.certificates.path("good", "key"), "--priority",
              "NORMAL:-VERS-ALL:+VERS-TLS1.1:%VERIFY_ALLOW_BROKEN", port=port)
    lab.refuses(f"wss://{HOST}:{port}", "tls", "supports neither TLS 1.2 nor")


# --- The element ---------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def element(lab, url, service):
    """A pipeline that gets the key of its session from a URL."""
    process = subprocess.Popen(
        ["gst-launch-1.0", "videotestsrc", "is-live=true", "!", "video/x-raw,width=320,height=176", "!", "decarttransform",
         f"base-url=ws://127.0.0.1:{service}", f"api-key-url={url}", f"ca-file={lab.certificates.path('ca')}", "max-retries=0", "!",
         "fakesink"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=lab.environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@row("aiohttp as server of api-key-url", sample=True)
def key_server(lab):
    seen = []

    async def give(request):
        seen.append((await request.text(), request.headers.get("Content-Type")))
        return aiohttp.web.json_response({"apiKey": TOKEN})

    async def move(request):
        raise aiohttp.web.HTTPTemporaryRedirect("/key")

    async def refuse(request):
        raise aiohttp.web.HTTPForbidden()

    # A stand-in that takes no other key.
    control = lab.port()
    service = lab.standin("--api-key", TOKEN, "--control", str(control))

    def fails(url, words):
        with element(lab, url, service) as process:
            text = process.communicate(timeout=LIMIT)[1]
        expect(words in text, text[-400:])

    with aiohttp_server(lab, aiohttp.web.post("/key", give), aiohttp.web.post("/moved", move), aiohttp.web.post("/refused", refuse),
                        tls=context(lab)) as port:
        with element(lab, f"https://{HOST}:{port}/key", service):
            # The answer comes when there is a session.
            lab.curl(f"http://127.0.0.1:{control}/control/wait?timeout={LIMIT - 5}")
        fails(f"https://{HOST}:{port}/moved", "redirects (HTTP 307); redirects are not followed")
        fails(f"https://{HOST}:{port}/refused", "rejected the request (HTTP 403)")
    # Another host's certificate.
    with aiohttp_server(lab, aiohttp.web.post("/key", give), tls=context(lab, "host")) as port:
        fails(f"https://{HOST}:{port}/key", "for another host name")
    expect(seen == [("{}", "application/json")], f"the requests: {seen}")
