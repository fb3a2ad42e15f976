#!/usr/bin/env python3
"""Unmodified programs that connect by RDMA-CM (librdmacm): each case a server on h1 and a client on h2 of a lab. Passed: both
exit with 0, on an impaired network only if it lost something, and nothing of RDMA-CM is left in use. The client starts when
the server listens. Last line: `N passed, M failed`.
"""

import argparse
import contextlib
import glob
import ipaddress
import os
import subprocess
import sys
import tempfile
import time
import traceback

from management import TIMEOUT_SECONDS, Lab
from programs import NETWORKS, for_nobody, with_any_clock

SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
SERVER6 = "fd77::1"
COPY = f"/tmp/brdma-e2e-copy-{os.getpid()}"  # the hosts of a lab share their files
# Before release 39.1 rping posts a receive to such a queue pair in RESET, which the specification forbids (IBTA
# C10-22).
OWN_QUEUE_PAIRS, OWN_QUEUE_PAIRS_FROM = "rping, queue pairs of its own", (39, 1)


def release_of_rdma_core():
    """The file of its library ends with it: librdmacm.so.1.3.44.0. Where there is none: older than any."""
    files = glob.glob("/usr/lib/*/librdmacm.so.1")
    return tuple(map(int, os.path.realpath(files[0]).split(".")[-2:])) if files else (0, 0)


# Before release 59 `-s SERVER` makes a cmtime the client. Since then all of them meet by TCP before one listens for RDMA-CM (`-L`), each
# has its own address (`-b`) and the place to meet (`-C`), and all end when they are done.
CMTIME_MEETS_FROM = (59, 0)


def cmtime(count):
    """Server, client, whether the server ends by itself, where it listens first."""
    if release_of_rdma_core() < CMTIME_MEETS_FROM:
        return ["cmtime", "-c", count], ["cmtime", "-s", SERVER, "-c", count], False, "cm"
    common = ["cmtime", "-C", SERVER, "-c", count]
    return [*common, "-b", SERVER, "-L"], [*common, "-b", CLIENT], True, "tcp:7471"


# Name, server, client, whether the server ends by itself, and where it listens first if that is not RDMA-CM.
CASES = [
    ("rping", ["rping", "-s", "-C", "20", "-V"], ["rping", "-c", "-a", SERVER, "-C", "20", "-V", "-v"], True),
    ("rping over IPv6", ["rping", "-s", "-a", "::", "-C", "5"], ["rping", "-c", "-a", SERVER6, "-C", "5", "-V", "-v"], True),
    ("rping, large", ["rping", "-s", "-C", "50", "-S", "65000"], ["rping", "-c", "-a", SERVER, "-C", "50", "-S", "65000", "-V", "-v"], True),
    (OWN_QUEUE_PAIRS, ["rping", "-s", "-q", "-C", "20", "-V"], ["rping", "-c", "-q", "-a", SERVER, "-C", "20", "-V", "-v"], True),
    ("ucmatose", ["ucmatose", "-c", "10", "-C", "10"], ["ucmatose", "-s", SERVER, "-c", "10", "-C", "10"], True),
    ("ucmatose, moved to another channel", ["ucmatose", "-m", "-c", "5"], ["ucmatose", "-m", "-s", SERVER, "-c", "5"], True),
    ("rdma_client", ["rdma_server"], ["rdma_client", "-s", SERVER], True),
    ("cmtime", *cmtime("100")),
    ("rstream", ["rstream", "-S", "4096", "-C", "100", "-I", "10"], ["rstream", "-s", SERVER, "-S", "4096", "-C", "100", "-I", "10"], True),
    ("rstream, verified", ["rstream", "-S", "65536", "-C", "10", "-I", "5", "-T", "v"], ["rstream", "-s", SERVER, "-S", "65536", "-C", "10", "-I", "5", "-T", "v"], True),
    ("riostream", ["riostream", "-S", "64", "-C", "10", "-I", "10"], ["riostream", "-s", SERVER, "-S", "64", "-C", "10", "-I", "10"], True),
    ("ib_send_bw -R", ["ib_send_bw", "-R", "-n", "500"], ["ib_send_bw", "-R", "-n", "500", SERVER], True),
    ("ib_write_lat -R", ["ib_write_lat", "-R", "-n", "500"], ["ib_write_lat", "-R", "-n", "500", SERVER], True),
    ("rcopy", ["rcopy"], ["rcopy", os.path.abspath(__file__), f"{SERVER}:{COPY}"], False),
    ("udaddy, only asking", ["udaddy", "-C", "0"], ["udaddy", "-C", "0", "-s", SERVER], True),
    ("ib_read_bw -R", ["ib_read_bw", "-R", "-n", "500"], ["ib_read_bw", "-R", "-n", "500", SERVER], True),
]
# Those whose programs wait for every datagram: none may be lost.
DATAGRAMS = [
    ("udaddy", ["udaddy"], ["udaddy", "-s", SERVER], True),
    ("udaddy over IPv6, four of them", ["udaddy", "-b", SERVER6, "-c", "4"], ["udaddy", "-s", SERVER6, "-c", "4"], True),
]
# Group, as /proc/net has it on the host that has joined, and the hosts' addresses.
GROUPS = [("239.1.1.1", "igmp", "010101EF", SERVER, CLIENT), ("ff0e::77", "igmp6", "ff0e0000000000000000000000000077", SERVER6, "fd77::2")]


def ended_in_its_own_race(client, done):
    """rping's client closes its event channel while its event thread may be about to request the next event. Then that
    thread gets EBADF, as from the kernel, and ends the program with 255, after all its work is done. It may have reported
    that the server disconnected."""
    pings = int(client[client.index("-C") + 1]) if client[0] == "rping" else 0
    all_done = pings > 0 and done.stdout.count("ping data: ") == pings
    said = done.stderr.strip().removeprefix("client DISCONNECT EVENT...\n")
    return all_done and done.returncode == 255 and said == "rdma_get_cm_event: Bad file descriptor"


def run_pair(lab, server, client, ends, listens="cm"):
    """Both ends; a problem or None."""
    serving = lab.start("h1", *with_any_clock(server))
    if listens == "cm":
        lab.wait_for("a listener", "h1", "resource", "show", "cm_id", until=lambda rows: any(row["state"] == "LISTEN" for row in rows) or serving.poll() is not None)
    else:
        wait_for_state(lab, "tcp", f":{int(listens.removeprefix('tcp:')):04X} 00000000:0000 0A", serving)
    done = subprocess.run(lab.on("h2", *with_any_clock(client)), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if done.returncode != 0 and not ended_in_its_own_race(client, done):
        return f"client: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    if not ends:
        serving.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        serving.wait(timeout=TIMEOUT_SECONDS)
    if serving.poll() is None:
        return "the server does not end"
    if ends and serving.returncode != 0:
        return f"server: exit code {serving.returncode}\n{serving.stdout.read()[-2000:]}"
    for host in ("h1", "h2"):
        lab.wait_for("ports given back", host, "resource", "show", "cm_id", until=lambda rows: not rows)
    return None


def killed_client(lab):
    """A killed client leaves nothing behind, and the server serves the next one."""
    serving = lab.start("h1", "rping", "-s", "-P")
    lab.wait_for("a listener", "h1", "resource", "show", "cm_id", until=lambda rows: any(row["state"] == "LISTEN" for row in rows))
    client = lab.start("h2", "rping", "-c", "-a", SERVER, "-C", "1000000", "-v")
    assert client.stdout.readline() != "", "no ping"
    client.kill()
    client.wait(timeout=TIMEOUT_SECONDS)
    again = ["rping", "-c", "-a", SERVER, "-C", "5", "-V", "-v"]
    done = subprocess.run(lab.on("h2", *again), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0 or ended_in_its_own_race(again, done), done.stdout + done.stderr
    assert serving.poll() is None, "the server ended"
    lab.wait_for("ports given back", "h2", "resource", "show", "cm_id", until=lambda rows: not rows)


def network_state(lab, file, host="h1"):
    return subprocess.run(lab.on(host, "cat", f"/proc/net/{file}"), capture_output=True, text=True, timeout=TIMEOUT_SECONDS).stdout


def wait_for_state(lab, file, text, program):
    end = time.monotonic() + TIMEOUT_SECONDS
    while text not in network_state(lab, file):
        assert time.monotonic() < end and program.poll() is None, f"no {text} in {file}"
        time.sleep(0.02)


def datagram_sockets(lab):
    """rsockets of datagrams: udpong, which waits on a UDP port and serves until it is killed."""
    serving = lab.start("h1", "udpong", "-b", SERVER)
    wait_for_state(lab, "udp", ":1C06 ", serving)  # port 7174
    done = subprocess.run(lab.on("h2", "udpong", "-s", SERVER, "-b", CLIENT, "-S", "64", "-C", "10"), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert serving.poll() is None, "the server ended"


def multicast(lab, group, file, joined, receiver, sender):
    """mckey: one host sends to a group that the other has joined, and leaves at the end."""
    receiving = lab.start("h1", "mckey", "-m", group, "-b", receiver)
    wait_for_state(lab, file, joined, receiving)
    done = subprocess.run(lab.on("h2", "mckey", "-m", group, "-b", sender, "-s"), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert receiving.wait(timeout=TIMEOUT_SECONDS) == 0, receiving.stdout.read()
    assert joined not in network_state(lab, file), "the group is still joined"


def tcp_cases(build):
    """A TCP program under rsockets' preload library, which takes each socket of the process for one of TCP's. It would
    also take the library's own, if that used socket(), in any thread, and while it starts brdmad. So first, in a new
    lab."""
    found = glob.glob("/usr/lib/*/rsocket/librspreload.so.1")
    assert found, "librspreload.so is not there: package librdmacm1"
    echo = lambda *words: ["sh", "-c", f'LD_PRELOAD="$LD_PRELOAD:{found[0]}" exec "$@"', "sh", os.path.join(build, "bin", "tcp_echo"), *words]
    return [(f"TCP under librspreload, {i}", echo(str(7700 + i)), echo(str(7700 + i), SERVER), True) for i in range(5)]


def link_local(lab, host):
    """Its link-local address and its interface, once duplicate address detection is over."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while True:
        for line in network_state(lab, "if_inet6", host).splitlines():
            digits, _, _, scope, flags, interface = line.split()
            if scope == "20" and int(flags, 16) & 0x40 == 0:  # not tentative
                return str(ipaddress.IPv6Address(int(digits, 16))), interface
        assert time.monotonic() < end, f"{host} has no link-local address"
        time.sleep(0.02)


def link_local_cases(lab):
    """Addresses that need an interface: named on both sides, or by the client alone."""
    (server, served), (client, asks) = link_local(lab, "h1"), link_local(lab, "h2")
    here, there, own = f"{server}%{served}", f"{server}%{asks}", f"{client}%{asks}"
    return [
        ("rping to a link-local address", ["rping", "-s", "-a", here, "-C", "5"], ["rping", "-c", "-a", there, "-C", "5", "-V", "-v"], True),
        ("rping from and to link-local addresses", ["rping", "-s", "-a", "::", "-C", "5"], ["rping", "-c", "-I", own, "-a", there, "-C", "5", "-V", "-v"], True),
        ("ucmatose, link-local", ["ucmatose", "-b", here, "-c", "3"], ["ucmatose", "-b", own, "-s", there, "-c", "3"], True),
        ("rstream, link-local", ["rstream", "-b", here, "-S", "4096", "-C", "50"], ["rstream", "-b", own, "-s", there, "-S", "4096", "-C", "50"], True),
    ]


def link_local_datagrams(lab):
    (server, served), (client, asks) = link_local(lab, "h1"), link_local(lab, "h2")
    return [("udaddy, link-local", ["udaddy", "-b", f"{server}%{served}"], ["udaddy", "-b", f"{client}%{asks}", "-s", f"{server}%{asks}"], True)]


def run(build, prefix, network):
    passed = failed = 0
    lab = Lab(build, prefix, NETWORKS[network], "e2ecm")
    lost = 0
    try:
        pairs = tcp_cases(build) + CASES + link_local_cases(lab) + (DATAGRAMS + link_local_datagrams(lab) if network == "clean" else [])
        cases = [(name, lambda ends=ends: run_pair(lab, *ends)) for name, *ends in pairs] + [("a killed client", lambda: killed_client(lab))]
        if network == "clean":
            cases.append(("udpong", lambda: datagram_sockets(lab)))
            cases += [(f"mckey {group[0]}", lambda group=group: multicast(lab, *group)) for group in GROUPS]
        for name, case in cases:
            if name == OWN_QUEUE_PAIRS and release_of_rdma_core() < OWN_QUEUE_PAIRS_FROM:
                print(f"skip          {network}: {name}: this rping posts to a queue pair in RESET", flush=True)
                continue
            began = time.monotonic()
            try:
                problem = case()
            except Exception:  # noqa: BLE001: reported, and the others still run
                problem = traceback.format_exc()
            took = time.monotonic() - began
            passed, failed = (passed + 1, failed) if problem is None else (passed, failed + 1)
            print(f"{'ok  ' if problem is None else 'FAIL'} {took:6.1f}s  {network}: {name}{'' if problem is None else ': ' + problem}", flush=True)
            for program in lab.programs:
                if program.poll() is None:
                    program.terminate()
                    program.wait(timeout=TIMEOUT_SECONDS)
            lab.programs.clear()
        lost = lab.lost_packets() if network != "clean" else 1
    finally:
        lab.down()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(COPY)
    if lost == 0:
        failed += 1
        print(f"FAIL {network}: the network counts no packet as lost")
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--network", choices=NETWORKS, default="clean")
    parser.add_argument("--as-nobody", action="store_true", help="when root: run as user nobody, in a user namespace")
    options = parser.parse_args()
    build, prefix = options.build, []
    if options.as_nobody and os.geteuid() == 0:
        home = tempfile.TemporaryDirectory(prefix="brdma-nobody-")
        build = for_nobody(options.build, home.name)
        prefix = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR", f"HOME={home.name}/home"]
    return run(build, prefix, options.network)


if __name__ == "__main__":
    sys.exit(main())
