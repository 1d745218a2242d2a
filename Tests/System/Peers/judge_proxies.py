"""Rows with foreign proxies between our client and the stand-in."""

import os
import socket
import subprocess
import threading

from judges import ADDRESS, ADDRESS6, HOST, KEY, expect, program, row

SQUID = """
http_port {address}:{port} name=open
http_port {address}:{locked} name=locked
visible_hostname judge.test
auth_param basic program {helper} {passwords}
acl locked myportname locked
acl users proxy_auth REQUIRED
acl refused port {refused}
http_access deny refused
http_access deny locked !users
http_access allow all
cache deny all
access_log none
cache_log {state}/squid.log
cache_store_log none
pid_filename none
netdb_filename none
dns_nameservers 127.0.0.1
connect_timeout 2 seconds
dns_timeout 1 seconds
shutdown_lifetime 0 seconds
coredump_dir {state}
pinger_enable off
"""
PASSWORD = "a password: %&"


def squid(lab):
    """Returns the addresses of a proxy for all, of one for users, and a port to which neither connects."""
    port, locked, refused = lab.port(), lab.port(), lab.port()
    # Its own user writes there.
    state = f"{lab.folder}/squid-{port}"
    os.makedirs(state)
    os.chmod(state, 0o777)
    hashed = subprocess.run(["openssl", "passwd", "-apr1", PASSWORD], capture_output=True, text=True, check=True).stdout
    path = lab.file(f"squid-{port}.conf", SQUID.format(
        address=ADDRESS, port=port, locked=locked, refused=refused, state=state, helper=program("basic_ncsa_auth"),
        passwords=lab.file(f"squid-{port}-passwords", f"user:{hashed}")))
    lab.start(program("squid"), "-N", "-f", path, port=locked)
    return f"{ADDRESS}:{port}", f"{ADDRESS}:{locked}", refused


@row("squid as proxy", sample=True, needs=("squid", "basic_ncsa_auth"))
def squid_proxy(lab):
    place, locked, refused = squid(lab)
    base = f"wss://{HOST}:{lab.secure}"
    expect("opened a tunnel" in lab.accepts(base, "--http-proxy", f"http://{place}"), "no tunnel")
    lab.accepts(base, "--http-proxy", f"http://{place}", key=KEY)
    lab.accepts(base, "--http-proxy", f"http://user:a%20password%3a%20%25%26@{locked}")
    for url, target, words in (
            (f"http://user:wrong@{locked}", base, "rejected the user name or the password (HTTP 407)"),
            (f"http://{locked}", base, "requires a user name and a password (HTTP 407)"),
            (f"http://{place}", f"wss://{HOST}:{refused}", f"refuses connections to {HOST}:{refused} (HTTP 403)"),
            (f"http://{place}", f"wss://{HOST}:{lab.port()}", "(HTTP 503). Check the service and the proxy"),
            (f"http://{place}", f"wss://unknown.test:{lab.secure}", f"cannot reach unknown.test:{lab.secure}")):
        lab.refuses(target, "tcp", words, "--http-proxy", url)


@row("squid as proxy: addresses as names, and certificates behind it", needs=("squid", "basic_ncsa_auth"))
def squid_addresses(lab):
    place, _, _ = squid(lab)
    proxy = ["--http-proxy", f"http://{place}"]
    lab.accepts(f"wss://{ADDRESS}:{lab.secure}", *proxy)
    lab.accepts(f"wss://[{ADDRESS6}]:{lab.secure6}", *proxy)
    lab.refuses(f"wss://six.test:{lab.secure6}", "tls", "for another host name", *proxy)
    lab.refuses(f"wss://{HOST}:{lab.secure}", "tls", "authority is unknown", *proxy, authority="other")


@row("tinyproxy as proxy: IPv6", sample=True, needs=("tinyproxy",))
def tinyproxy(lab):
    port = lab.port()
    path = lab.file("tinyproxy.conf", f"Port {port}\nListen {ADDRESS6}\nTimeout 30\nMaxClients 50\nLogLevel Error\n")
    lab.start(program("tinyproxy"), "-d", "-c", path, port=port, address=ADDRESS6)
    proxy = ["--http-proxy", f"http://[{ADDRESS6}]:{port}"]
    lab.accepts(f"wss://[{ADDRESS6}]:{lab.secure6}", *proxy)
    lab.accepts(f"wss://{HOST}:{lab.secure}", *proxy, key=KEY)


HAPROXY = """
global
    maxconn 100
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    timeout tunnel 30s
frontend front
    bind {address}:{port}
    default_backend squid
backend squid
    server squid {squid}
"""


@row("HAProxy in front of a proxy", needs=("haproxy", "squid", "basic_ncsa_auth"))
def haproxy_chain(lab):
    _, locked, _ = squid(lab)
    port = lab.port()
    path = lab.file("haproxy-chain.conf", HAPROXY.format(address=ADDRESS, port=port, squid=locked))
    lab.start(program("haproxy"), "-db", "-f", path, port=port)
    lab.accepts(f"wss://{HOST}:{lab.secure}", "--http-proxy", f"http://user:a%20password%3a%20%25%26@{ADDRESS}:{port}")
    lab.refuses(f"wss://{HOST}:{lab.secure}", "tcp", "requires a user name and a password (HTTP 407)", "--http-proxy",
                f"http://{ADDRESS}:{port}")


@row("HAProxy as a proxy that refuses", sample=True, needs=("haproxy",))
def haproxy_refuses(lab):
    cases = [(407, "requires a user name and a password (HTTP 407)"), (401, "(HTTP 401)"), (403, "refuses connections to"),
             (405, "(HTTP 405). Permit CONNECT"), (502, "cannot reach"), (504, "(HTTP 504). Check the service"),
             (200, None), (302, "answered with HTTP 302 to CONNECT"), (400, "answered with HTTP 400 to CONNECT")]
    lines = [HAPROXY.partition("frontend")[0]]
    ports = [lab.port() for _ in cases]
    for port, (status, _) in zip(ports, cases):
        lines.append(f"frontend f{status}\n    bind {ADDRESS}:{port}\n    http-request return status {status} content-type text/plain "
                     f"string no hdr Proxy-Authenticate Basic\n")
    path = lab.file("haproxy-refuses.conf", "".join(lines))
    lab.start(program("haproxy"), "-db", "-f", path, port=ports[0])
    for port, (_, words) in zip(ports, cases):
        if words:
            lab.refuses(f"wss://{HOST}:{lab.secure}", "tcp", words, "--http-proxy", f"http://{ADDRESS}:{port}")
        else:
            # A tunnel to nothing: TLS does not begin.
            found, text = lab.check(f"wss://{HOST}:{lab.secure}", "--http-proxy", f"http://{ADDRESS}:{port}")
            expect(found["tls"] not in ("ok", "not-tried"), text)


@row("servers that are no proxy", sample=True, needs=("openssl",))
def no_proxy(lab):
    """A server of TLS, one that closes at once, one that speaks first, and our own."""
    base = f"wss://{HOST}:{lab.secure}"
    closing = socket.create_server((ADDRESS, lab.port()))
    speaking = socket.create_server((ADDRESS, lab.port()))

    def serve(listener, greeting):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(greeting)
                connection.shutdown(socket.SHUT_WR)

    for listener, greeting in ((closing, b""), (speaking, b"220 mail.test ESMTP\r\n")):
        threading.Thread(target=serve, args=[listener, greeting], daemon=True).start()
    for port, words in ((closing.getsockname()[1], "closed the connection before it answered"),
                        (speaking.getsockname()[1], "answered with something else than HTTP"),
                        (lab.port(), "The HTTP proxy cannot be reached")):
        lab.refuses(base, "tcp", words, "--http-proxy", f"http://{ADDRESS}:{port}")
    lab.refuses(base, "tcp", "Check", "--http-proxy", f"http://{ADDRESS}:{lab.secure}")
    lab.refuses(base, "tcp", "HTTP 40", "--http-proxy", f"http://{ADDRESS}:{lab.standin('--host', ADDRESS)}")
