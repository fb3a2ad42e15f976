#!/usr/bin/env python3
"""`brdma check PEER` between two hosts: two network namespaces joined by one cable. Faults of the path and of the other
end are named; hostile ends cost neither side more than an error.

    peers.py [--build DIR] [--only CASE,...] [--list]

Last line: `N passed, M failed`.
"""

import json
import os
import socket
import subprocess
import sys

import world as w
from world import BRDMA, BUILD, expect, found, keys, named, shell

PORT = 18491
PEER = "10.0.0.2"


class Listening:
    """`brdma check --listen --once` in the peer's namespace, until the block ends."""

    def __init__(self, world, once=True, program=BRDMA, environment=None):
        words = [*world.peer.prefix, program, "check", "--listen", *(["--once"] if once else [])]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=world.peer.environment | (environment or {}))

    def __enter__(self):
        expect("listening on TCP port" in self.process.stderr.readline(), "it does not listen")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def measure(world, once=True, **options):
    with Listening(world, once, **options):
        return world.check(PEER)


def sound(world):
    w.make_interface(world)
    report = measure(world)
    expect(report["ok"], f"errors without a fault: {report['findings']}")
    peer = report["peer"]
    for way in ("to_peer", "from_peer"):
        one = peer[way]
        expect(one["sent"] > 500 and one["received"] == one["sent"], f"{way}: {one}")
        expect(one["path_mtu"] == 4096 and one["reordered"] == one["duplicated"] == 0, f"{way}: {one}")
        expect(one["mbps"] > 0 and one["tcp_mbps"] > 0, f"{way}: {one}")
    expect(peer["mode"] == "bitmap" and peer["read_us"] > 0 and peer["tcp_us"] > 0, f"{peer}")
    expect(peer["ifname"] == peer["peer_ifname"] == "brdma_eth0", f"{peer}")
    for key in ("loss", "reordering", "bitmap_not_agreed", "path_mtu", "mtu_differs", "peer_version"):
        expect(found(report, key) is None, f"without a fault: {found(report, key)}")
    text = measure_text(world)
    expect("round trip" in text and "by TCP" in text, text)


def measure_text(world):
    with Listening(world):
        return world.command("check", PEER).stdout


def fault(key, severity, plant, words=(), mtu=9000, **options):
    def case(world):
        w.make_interface(world, mtu)
        plant(world)
        named(measure(world, **options), key, severity, words)

    return case


def closed_to_peer(world):
    w.make_interface(world)
    w.filter_packets("eth0", w.DROP, world.enter)
    named(measure(world), "port_blocked_to_peer", "error", ["towards", PEER, "4791"])
    text = measure_text(world)
    expect("0 reordered; path MTU unknown\n" in text, f"a path MTU of a path that no datagram has passed: {text}")


def short_path(world):
    """Packets are dropped that are longer than a path of MTU 1500 takes. Batches are split here, as before a real link."""
    shell("ip link set eth0 gso_max_segs 1")
    w.filter_packets("eth0", w.DROP_LONG, world.enter)


def reordered(world):
    """The lab's network holds packets back."""
    up = world.command("lab", "up", "--name", "checked", "--reorder", "10%,3")
    expect(up.returncode == 0, up.stderr)
    hosts = {name: [BRDMA, "lab", "exec", "--name", "checked", name, "--"] for name in ("h1", "h2")}
    world.peer, world.prefix = w.World(), hosts["h2"]
    world.peer.prefix = hosts["h1"]
    with Listening(world):
        report = world.check("10.77.0.1")
    named(report, "reordering", "warning", ["reorders"])
    expect(report["peer"]["mode"] == "bitmap", f"{report['peer']}")


def older_peer(world):
    """A copy of the programs whose version differs."""
    w.make_interface(world)
    expect(world.command("version").stdout == "brdma 0.1.0\n", "another version: the bytes below need it")
    shell(f"mkdir -p /tmp/old/bin; ln -s {BUILD}/lib /tmp/old/lib; cp {BUILD}/bin/brdmad /tmp/old/bin")
    with open(BRDMA, "rb") as file:
        program = file.read()
    with open("/tmp/old/bin/brdma", "wb") as file:
        file.write(program.replace(b"0.1.", b"0.9."))  # 0.1.0: in strings, and in code that makes one
    os.chmod("/tmp/old/bin/brdma", 0o755)
    report = measure(world, program="/tmp/old/bin/brdma")
    named(report, "peer_version", "warning", ["0.9.0", "same version"])


def no_listener(world):
    w.make_interface(world)
    named(world.check(PEER), "peer_unreachable", "error", [str(PORT), "--listen"])


def translated_address(world):
    """The peer's address is none of a device."""
    w.make_interface(world)
    shell(f"{world.enter} ip address add 10.9.9.9/32 dev lo; ip route add 10.9.9.9/32 via {PEER}")
    with Listening(world):
        named(world.check("10.9.9.9"), "peer_no_device", "error", ["10.9.9.9"])


def hostile_server(world):
    """What a listener may send instead of a reply: each is an error of the peer, in time."""
    w.make_interface(world)
    hello = {"protocol": 1, "version": "\u001b[31m0.1", "device": "x" * 300, "mtu": 4096}
    lines = [b"HTTP/1.0 400 Bad Request\r\n\r\n", b"[" * 3000 + b"\n", b"x" * 10000, b"\n", b"{}\n", b"",
             json.dumps(hello | {"mtu": 1 << 40}).encode() + b"\n", json.dumps(hello | {"mtu": -1}).encode() + b"\n",
             json.dumps(hello | {"protocol": 99}).encode() + b"\n",
             json.dumps(hello).encode() + b'\n{"qpn":16777216}\n', json.dumps(hello).encode() + b'\n{"qpn":"a"}\n',
             b'{"error":"\\u001b[2J","key":"library_missing"}\n']
    for line in lines:
        reply = f"import socket,sys\ns=socket.create_server(('{PEER}',{PORT}))\nprint('ready',flush=True)\nc,_=s.accept()\nc.recv(4096)\nc.sendall({line!r})\nc.recv(4096)\n"
        with subprocess.Popen([*world.peer.prefix, sys.executable, "-c", reply], stdout=subprocess.PIPE, text=True) as server:
            expect(server.stdout.readline() == "ready\n", "no server")
            report = world.check(PEER)
            server.kill()
        errors = keys(report, "error")
        expect(errors and errors <= {"peer_protocol", "peer_failed"}, f"{line[:60]!r}: {report['findings']}")
        expect("\x1b" not in world_text(report), f"{line[:60]!r}: an escape sequence passes")


def world_text(report):
    return json.dumps(report, ensure_ascii=False)


def hostile_client(world):
    """Clients that send nonsense; then an honest one is served by the same process."""
    w.make_interface(world)
    hello = b'{"step":"hello","protocol":1,"version":"0.1.0"}\n'
    datagrams = hello + b'{"step":"datagrams","qpn":77}\n'
    attempts = [b"", b"GET / HTTP/1.0\r\n\r\n", b"{" * 5000, b"\n", b'{"step":"write"}\n', b'{"step":"connect"}\n', hello + b'{"step":"nothing"}\n',
                hello + b'{"step":"expect","count":1,"bytes":256,"first":0}\n', datagrams + b'{"step":"expect","count":4000000000,"bytes":256,"first":0}\n',
                datagrams + b'{"step":"send","count":64,"bytes":99999,"first":0}\n', datagrams + b'{"step":"count","quiet_ms":99999999}\n',
                hello + b'{"step":"connect","qpn":-1,"psn":0,"rkey":0,"address":0,"path_mtu":1024}\n',
                hello + b'{"step":"connect","qpn":70,"psn":0,"rkey":0,"address":0,"path_mtu":1000000}\n', hello * 3]
    with Listening(world, once=False) as listening:
        for attempt in attempts:
            with socket.create_connection((PEER, PORT), timeout=30) as client:
                client.sendall(attempt)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
            expect(listening.process.poll() is None, f"{attempt[:60]!r} ends it")
        report = world.check(PEER)
        expect(report["ok"], f"an honest client afterwards: {report['findings']}")


CASES = {
    "sound": sound,
    "closed_to_peer": closed_to_peer,
    "closed_from_peer": fault("port_blocked_from_peer", "error", lambda world: w.filter_packets("eth0", w.DROP), ["from", PEER, "4791"]),
    "path_mtu": fault("path_mtu", "error", short_path, ["1024 bytes", "4096"]),
    "mtu_differs": fault("mtu_differs", "warning", lambda world: shell(f"{world.enter} ip link set eth0 mtu 1500"), ["4096", "1024"]),
    "loss": fault("loss", "warning", lambda world: w.filter_packets("eth0", w.DROP_5_PERCENT, world.enter), ["loses"]),
    "reordered": reordered,
    "not_bitmap": fault("bitmap_not_agreed", "warning", lambda _: None, ["standard"], environment={"BRDMA_RECOVERY": "standard"}),
    "older_peer": older_peer,
    "no_listener": no_listener,
    "translated_address": translated_address,
    "hostile_server": hostile_server,
    "hostile_client": hostile_client,
}

if __name__ == "__main__":
    sys.exit(w.run_cases(CASES, __doc__))
