#!/usr/bin/python3
"""A small network of namespaces with faults: client - router - server.

Veth pairs join the three namespaces, or a user-space link (router - server) with delay, jitter, loss and rate limit,
because not every kernel has tc's netem. Names contain the owner's PID, so that labs can run in parallel and the next
run can remove the leftovers of a killed one. `close` removes everything. Needs root, iproute2, nftables.

    netlab.py link NAMESPACE NAMESPACE SEED      runs the link; reads settings as JSON lines, see `Link`
"""

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import coturn  # noqa: E402

PREFIX = "decartlab"
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)

CLIENT, ROUTER_NEAR, ROUTER_FAR, SERVER = "10.77.1.2", "10.77.1.1", "10.77.2.1", "10.77.2.2"
CLIENT6, ROUTER_NEAR6, ROUTER_FAR6, SERVER6 = "fd77:1::2", "fd77:1::1", "fd77:2::1", "fd77:2::2"
PORT, CONTROL = 9001, 9002

_numbers = itertools.count(1)


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def available():
    """Returns why no lab is possible here, or ""."""
    if os.geteuid():
        return "needs root for network namespaces"
    try:
        with Lab():
            return ""
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return f"no network namespaces: {error}"


def sweep():
    """Removes the namespaces that killed runs left behind."""
    for name in re.findall(rf"^{PREFIX}-(\d+)-\S+", run("ip", "netns", "list"), re.M):
        if not os.path.exists(f"/proc/{name}"):
            for left in re.findall(rf"^({PREFIX}-{name}-\S+)", run("ip", "netns", "list"), re.M):
                remove(left)


def remove(namespace):
    subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)
    shutil.rmtree(f"/etc/netns/{namespace}", ignore_errors=True)


def begin_child():
    """For preexec_fn: the child dies with the run, and for measurements it gets priority over other load."""
    LIBC.prctl(1, signal.SIGKILL)
    if os.environ.get("DECART_VERIFY"):
        with contextlib.suppress(OSError):
            os.nice(-10)


@contextlib.contextmanager
def inside(namespace):
    """Creates the calling thread's new sockets in that namespace."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        enter(namespace)
        yield
    finally:
        LIBC.setns(home, CLONE_NEWNET)
        os.close(home)


def enter(namespace):
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if LIBC.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    finally:
        os.close(there)


class Lab:
    """`family`: 4, 6 or "both". `link`: settings of a `Link`."""

    def __init__(self, family="4", link=None, seed=1, mtu=1500):
        self.stem = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self.client, self.router, self.server = (f"{self.stem}-{end}" for end in "crs")
        self.family, self.mtu, self.seed = family, mtu, seed
        self.settings = link
        self.link = None
        self.processes = []

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def names(self):
        return [self.client, self.router, self.server]

    def build(self):
        for name in self.names():
            run("ip", "netns", "add", name)
            self.ip(name, "link set lo up")
        self.join()
        self.watch()

    def join(self):
        if self.family == "4":
            for name in self.names():
                self.sysctl(name, "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
        else:
            # Without this, link-local addresses and so neighbour discovery do not work for the first seconds.
            for name in self.names():
                self.sysctl(name, "net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0")
        run("ip", "link", "add", "c0", "netns", self.client, "type", "veth", "peer", "r0", "netns", self.router)
        if self.settings is None:
            run("ip", "link", "add", "r1", "netns", self.router, "type", "veth", "peer", "s0", "netns", self.server)
        else:
            self.link = Link(self)
        self.sysctl(self.router, *{"4": ["net.ipv4.ip_forward=1"], "6": ["net.ipv6.conf.all.forwarding=1"]}.get(
            self.family, ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]))
        for name, device in ((self.client, "c0"), (self.router, "r0"), (self.router, "r1"), (self.server, "s0")):
            # A buffer of several datagrams (UDP_SEGMENT) crosses no device whole: each is counted, delayed or lost alone.
            self.ip(name, f"link set {device} mtu {self.mtu} gso_max_segs 1 up")
        if self.family in ("4", "both"):
            self.address("", 24, (CLIENT, ROUTER_NEAR, ROUTER_FAR, SERVER))
        if self.family in ("6", "both"):
            self.address("-6 ", 64, (CLIENT6, ROUTER_NEAR6, ROUTER_FAR6, SERVER6))

    def address(self, option, bits, addresses):
        client, near, far, server = addresses
        extra = " nodad" if option else ""
        self.ip(self.client, f"{option}addr add {client}/{bits} dev c0{extra}")
        self.ip(self.router, f"{option}addr add {near}/{bits} dev r0{extra}")
        self.ip(self.router, f"{option}addr add {far}/{bits} dev r1{extra}")
        self.ip(self.server, f"{option}addr add {server}/{bits} dev s0{extra}")
        self.ip(self.client, f"{option}route add default via {near}")
        self.ip(self.server, f"{option}route add default via {far}")

    def watch(self):
        """Adds sets of dials at the client, counters of media, unaffected by drops further on, and a chain for faults."""
        # Dials count source ports, so that retransmitted SYNs do not.
        self.nft(self.client, f"""table inet lab {{
            set dials {{ type inet_service; size 65535; }}
            set elsewhere {{ type inet_service; size 65535; }}
            chain out {{ type filter hook output priority 0;
                tcp dport {PORT} tcp flags & (syn | ack) == syn add @dials {{ tcp sport }}
                tcp dport != {{ {PORT}, {CONTROL}, 3478 }} tcp flags & (syn | ack) == syn add @elsewhere {{ tcp sport }}
            }}
        }}""")
        # Media: SRTP's first byte is 128..191 (RFC 7983). Counted where the devices have cut large buffers.
        self.nft(self.router, """table inet lab {
            counter media { }
            counter large { }
            counter dropped { }
            chain passing { type filter hook prerouting priority 0;
                meta l4proto udp @th,64,2 2 counter name media
                udp length > 1208 counter name large
            }
            chain faults { type filter hook forward priority 0; }
        }""")

    # Faults

    def drop(self, match=""):
        """Drops matching packets in both directions, all packets if `match` is empty."""
        self.nft(self.router, f"add rule inet lab faults {match} counter name dropped drop")

    def heal(self):
        self.nft(self.router, "flush chain inet lab faults")

    def move_client(self, address="10.77.1.77"):
        """Replaces the client's address, as roaming does."""
        self.ip(self.client, "addr flush dev c0")
        self.ip(self.client, f"addr add {address}/24 dev c0")
        self.ip(self.client, f"route replace default via {ROUTER_NEAR}")

    def rebind(self, ports):
        """Maps the client's present UDP ports to others, as a NAT does that has forgotten its mappings: packets to the
        earlier ports are dropped. Ports that the client opens later stay as they are."""
        rules = "".join(f"""
                    ip saddr {CLIENT} udp sport {port} udp sport set {new}
                    ip daddr {CLIENT} udp dport {port} drop
                    ip daddr {CLIENT} udp dport {new} udp dport set {port}""" for port, new in ports)
        self.nft(self.router, f"table ip rebinding {{ chain ports {{ type filter hook forward priority 10; {rules}\n }}; }}")

    def udp_ports(self):
        """The UDP ports that the client has open."""
        text = run("ip", "netns", "exec", self.client, "ss", "-Hulna")
        return sorted({int(line.split()[3].rsplit(":", 1)[1]) for line in text.splitlines()})

    def configure(self, namespace, file, text):
        """Replaces a file of /etc for the programs of the namespace."""
        folder = f"/etc/netns/{namespace}"
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, file), "w", encoding="ascii") as replacement:
            replacement.write(text)

    def resolve_with(self, server):
        self.configure(self.client, "resolv.conf", f"nameserver {server}\n")

    def name(self, namespace, address, name):
        """Makes the name known to the programs of the namespace, and to no others."""
        self.configure(namespace, "hosts", f"127.0.0.1 localhost\n{address} {name}\n")

    # Counters

    def elements(self, name):
        text = run("ip", "netns", "exec", self.client, "nft", "list", "set", "inet", "lab", name)
        found = re.search(r"elements = \{([^}]*)\}", text)
        return found.group(1).split(",") if found else []

    def dials(self):
        """Returns the number of TCP connections that the client opened to the service's port."""
        return len(self.elements("dials"))

    def established(self):
        """Returns how many of them are established now."""
        return len(run("ip", "netns", "exec", self.client, "ss", "-Htn", "state", "established", f"dport = :{PORT}").splitlines())

    def dials_elsewhere(self):
        return len(self.elements("elsewhere"))

    def drop_dialled(self):
        """Drops what the client sends on the connections that it has opened to the service's port so far."""
        self.drop(f"tcp sport {{ {','.join(self.elements('dials'))} }}")

    def counter(self, name):
        text = run("ip", "netns", "exec", self.router, "nft", "list", "counter", "inet", "lab", name)
        return int(re.search(r"packets (\d+)", text).group(1))

    # Tools

    def ip(self, namespace, words):
        run("ip", "-n", namespace, *words.split())

    def nft(self, namespace, text):
        run("ip", "netns", "exec", namespace, "nft", "-f", "-", input=text)

    def sysctl(self, namespace, *settings):
        run("ip", "netns", "exec", namespace, "sysctl", "-q", "-w", *settings)

    def start(self, namespace, command, **options):
        """Starts a process in a namespace. `ip netns exec` replaces itself, so the PID is the program's."""
        process = subprocess.Popen(["ip", "netns", "exec", namespace, *command], preexec_fn=begin_child, **options)
        self.processes.append(process)
        return process

    def connect(self, namespace, address, port, timeout=5):
        with inside(namespace):
            return socket.create_connection((address, port), timeout)

    def start_turn(self, folder, user, *options):
        """Starts coturn on the server's address; see coturn.command."""
        self.start(self.server, coturn.command(folder, SERVER, user, *options), stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        with inside(self.server):
            coturn.wait(SERVER)

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        if self.link:
            self.link.close()
        for name in self.names():
            remove(name)


class Link:
    """A link between router and server, which a separate process forwards.

    Settings, applied to each direction separately: `delay` and `jitter` (s, uniform, ±), `loss` (0..1), `burst` (mean
    packets lost in a row), `rate` (bit/s, 0 = unlimited), `queue` (bytes that may wait for it). `down`: settings that only hold
    for datagrams (UDP) towards the client, so that its signalling lives.
    `seen` collects its report of every 0.2 s.
    """

    def __init__(self, lab):
        command = [sys.executable, os.path.abspath(__file__), "link", lab.router, lab.server, str(lab.seed)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=begin_child)
        if self.process.stdout.readline().strip() != "up":
            raise RuntimeError("the link did not come up")
        self.seen = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.set(**lab.settings)

    def read(self):
        for line in self.process.stdout:
            self.seen.append(json.loads(line))

    def set(self, **settings):
        self.process.stdin.write(json.dumps(settings) + "\n")
        self.process.stdin.flush()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdin.close()
        self.process.stdout.close()


class Direction:
    def __init__(self, target):
        self.target = target
        self.is_bad = False
        self.free_at = self.last_at = 0.0
        self.worst_wait = 0.0
        self.bytes = 0

    def is_lost(self, settings, rng):
        loss, burst = settings["loss"], max(1.0, settings["burst"])
        if burst <= 1:
            return rng.random() < loss
        # Gilbert model: packets are lost in the bad state; the mean stay in each state gives burst length and loss.
        if self.is_bad:
            self.is_bad = rng.random() >= 1 / burst
        else:
            self.is_bad = rng.random() < min(1.0, loss / (1 - loss) / burst)
        return self.is_bad

    def arrival(self, settings, size, now, rng):
        """Returns the packet's arrival time, or None if the queue is full. A link with a rate limit keeps the order."""
        late = max(0.0, settings["delay"] + settings["jitter"] * rng.uniform(-1, 1))
        if not settings["rate"]:
            return now + late
        wait = max(0.0, self.free_at - now)
        self.worst_wait = max(self.worst_wait, wait)
        if settings["queue"] and wait * settings["rate"] / 8 + size > settings["queue"]:
            return None
        self.free_at = now + wait + size * 8 / settings["rate"]
        self.last_at = max(self.last_at, self.free_at + late)
        return self.last_at


def carry(near, far, seed):
    """Forwards packets between two TUN devices in one loop, until standard input ends."""
    def device(namespace, name):
        enter(namespace)
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(descriptor, 0x400454CA, struct.pack("16sH", name.encode(), 0x0001 | 0x1000))  # IFF_TUN | IFF_NO_PI
        return descriptor

    ends = [device(near, "r1"), device(far, "s0")]
    directions = {ends[0]: Direction(ends[1]), ends[1]: Direction(ends[0])}
    settings = {"delay": 0, "jitter": 0, "loss": 0, "burst": 1, "rate": 0, "queue": 0, "down": {}}
    rng = random.Random(seed)
    heap, order, unread = [], itertools.count(), b""
    print("up", flush=True)
    poll = select.poll()
    for descriptor in (*ends, 0):
        poll.register(descriptor, select.POLLIN)
    report_at = time.monotonic() + 0.2
    while True:
        now = time.monotonic()
        wait = min(heap[0][0] if heap else report_at, report_at) - now
        for descriptor, _ in poll.poll(max(0, wait * 1000)):
            if descriptor == 0:
                chunk = os.read(0, 65536)
                if not chunk:
                    return
                *lines, unread = (unread + chunk).split(b"\n")
                for line in lines:
                    settings.update(json.loads(line))
                continue
            direction = directions[descriptor]
            with contextlib.suppress(BlockingIOError):
                while True:
                    packet = os.read(descriptor, 65536)
                    now = time.monotonic()
                    own = settings
                    if settings["down"] and descriptor == ends[1] and packet[0] >> 4 == 4 and packet[9] == 17:
                        own = {**settings, **settings["down"]}
                    if direction.is_lost(own, rng):
                        continue
                    arrives_at = direction.arrival(own, len(packet), now, rng)
                    if arrives_at is not None:
                        heapq.heappush(heap, (arrives_at, next(order), direction, packet))
        now = time.monotonic()
        while heap and heap[0][0] <= now:
            _, _, direction, packet = heapq.heappop(heap)
            direction.bytes += len(packet)
            with contextlib.suppress(OSError):
                os.write(direction.target, packet)
        if now >= report_at:
            report_at = now + 0.2
            up, down = directions.values()
            print(json.dumps({"t": round(now, 3), "up_wait": round(up.worst_wait, 4), "up_bytes": up.bytes,
                              "down_wait": round(down.worst_wait, 4), "down_bytes": down.bytes}), flush=True)
            for direction in directions.values():
                direction.worst_wait, direction.bytes = 0.0, 0


if __name__ == "__main__" and sys.argv[1:2] == ["link"]:
    carry(sys.argv[2], sys.argv[3], int(sys.argv[4]))
