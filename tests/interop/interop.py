#!/usr/bin/env python3
"""Unmodified programs between this library (h1 of a lab) and the kernel's Soft-RoCE (a guest in h2's place), each side serving
once. Passed: both ends exit with 0, and on an impaired network it lost something. Last line: `N passed, M failed`.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

import beside  # noqa: E402
from guest import Guest  # noqa: E402
from cases import ended_well  # noqa: E402
from management import Lab  # noqa: E402

TIMEOUT_SECONDS = 120  # seconds; emulation is slow, and other guests may run
NETWORKS = {"clean": [], "loss1": ["--loss", "1%"], "loss5": ["--loss", "5%"], "reorder": ["--reorder", "5%,8"]}
GID = "1"  # of the IPv4 address, on both
# A side with all its pings ends, and for a kernel queue pair its acknowledgement of the last one, if lost, is never
# repeated. So not on lossy networks.
# The same holds for ib_write_lat, the one of perftest without a final exchange: the server's last WRITE. There the
# guest only serves.
# Server's command; the client's is the same with the server's address, or the second one.
PINGPONG = [f"ibv_rc_pingpong -g {GID} -n 200", f"ibv_rc_pingpong -g {GID} -n 50 -s 65536 -m 1024 -e"]
PERFTEST = [
    *(f"{tool} -x {GID} -F -n 100 -s {size}" for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw") for size in (64, 65536)),
    *(f"{tool} -x {GID} -F -n 100" for tool in ("ib_send_lat", "ib_write_lat", "ib_read_lat")),
    f"ib_write_bw -x {GID} -F -n 50 -s 16384 -q 4",
    f"ib_send_bw -x {GID} -F -n 100 -s 8192 -b",
    f"ib_atomic_bw -x {GID} -F -n 100 -A FETCH_AND_ADD",
    f"ib_atomic_lat -x {GID} -F -n 100 -A CMP_AND_SWAP",
]
# perftest's server with -R closes its listener after the first of two connections and listens again: an emulated server
# is too slow for the second request, and rejects it (reason 8: nobody listens). So with -R the guest is the client
# only.
CONNECTED = [
    ("rping -s -C 10 -V", "rping -c -a {server} -C 10 -V"),
    ("rping -s -a :: -C 3", "rping -c -a {server6} -C 3 -V"),
    ("ucmatose -c 3", "ucmatose -s {server} -c 3"),
    ("ib_send_bw -R -F -n 100 -s 4096", "ib_send_bw -R -F -n 100 -s 4096 {server}"),
    ("ib_write_lat -R -F -n 100", "ib_write_lat -R -F -n 100 {server}"),
]
SHARED = [  # receives shared by queue pairs
    f"ibv_srq_pingpong -g {GID} -n 100 -q 4",
    f"ibv_srq_pingpong -g {GID} -n 100 -q 4 -e",
    f"ib_send_bw -x {GID} -F -n 100 -s 4096 -q 2 --use-srq",
]
UNRELIABLE = [  # on a clean network only: a wait for a lost datagram never ends, on any device
    f"ibv_uc_pingpong -g {GID} -n 200",
    f"ibv_ud_pingpong -g {GID} -n 200",
    f"ib_send_bw -c UC -x {GID} -F -n 100 -s 4096",
    f"ib_write_bw -c UC -x {GID} -F -n 100 -s 4096",
    f"ib_send_bw -c UD -x {GID} -F -n 100 -s 1024",
    f"ib_send_lat -c UD -x {GID} -F -n 100",
]


# The receiver ends when it has its datagrams; a member may be attached a little late, so the sender is restarted until
# then.
GROUP, GROUP_IN_PROC = "239.1.1.1", "010101EF"
MULTICAST = (f"mckey -m {GROUP} -b {{own}} -C 5", f"mckey -m {GROUP} -b {{own}} -C 5 -s")

# Each has its own device, and the guest sees this host's files elsewhere.
WINDOWS, CHANGED = (f"/usr/bin/python3 {{files}}{HERE}/{name} {{device}} {GID}" for name in ("windows.py", "changed_region.py"))


class Ours:
    device, files = "brdma_eth0", ""

    """A lab host with this library; the same interface as a guest."""

    def __init__(self, lab, host):
        self.lab, self.host, self.address = lab, host, "10.77.0." + host[1:]

    class Command:
        def __init__(self, process):
            self.process, self.output = process, ""

        def wait(self, timeout):
            try:
                self.output += self.process.communicate(timeout=timeout)[0]
            except subprocess.TimeoutExpired as expired:
                raise TimeoutError(f"not done after {timeout} s: {(expired.stdout or b'')[-2000:]}") from None
            return self.process.returncode

        def poll(self):
            return self.process.poll()

        def stop(self):
            if self.process.poll() is None:
                self.process.terminate()

    def start(self, command):
        return self.Command(self.lab.start(self.host, *command.split()))

    def run(self, command, timeout=TIMEOUT_SECONDS):
        done = subprocess.run(self.lab.on(self.host, "bash", "-c", command), capture_output=True, text=True, timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def has_cm_listener(self):
        return any(row["state"] == "LISTEN" for row in self.lab.ask_json(self.host, "resource", "show", "cm_id"))


class Rxe(Guest):
    device, files = "rxe0", "/host"

    def has_cm_listener(self):
        return "LISTEN" in self.run("rdma resource show cm_id")


def listens(host, command):
    """ibverbs-utils, perftest without -R and windows.py meet over TCP, all others by RDMA-CM."""
    if command.startswith(("ibv_", "ib_", "/usr/bin/python3")) and " -R" not in command:
        return "LISTEN" in host.run("ss -Hltn sport = :18515")
    if command.startswith("mckey"):
        return GROUP_IN_PROC in host.run("cat /proc/net/igmp")
    return host.has_cm_listener()


def ended(program, seconds):
    try:
        program.wait(seconds)
    except TimeoutError:
        return False
    return True


class ServerWaits(Exception):
    """The client ended well, and the server did not."""


def pair(server, client, serve, ask, output=None):
    """Both ends; a problem or None. The client's output is appended to `output`."""
    serving = server.start(serve)
    try:
        end = time.monotonic() + TIMEOUT_SECONDS
        while not listens(server, serve) and serving.poll() is None:
            assert time.monotonic() < end, "the server does not listen"
            time.sleep(0.1)
        while True:
            asking = client.start(ask)
            try:
                code = asking.wait(TIMEOUT_SECONDS)
            finally:
                asking.stop()
            if code != 0 or not ask.startswith("mckey") or ended(serving, 2):
                break
            assert time.monotonic() < end, "no datagram arrives"
        if output is not None:
            output.append(asking.output)
        if not ended_well(code, asking.output):
            serving.stop()
            with contextlib.suppress(TimeoutError):
                serving.wait(10)
            return f"client: exit code {code}\n{asking.output[-1500:]}\nserver:\n{serving.output[-1500:]}"
        try:
            code = serving.wait(TIMEOUT_SECONDS)
        except TimeoutError as error:
            raise ServerWaits(str(error)) from None
        return None if code == 0 else f"server: exit code {code}\n{serving.output[-1500:]}"
    finally:
        serving.stop()


def cases(network):
    for command in [*(PINGPONG if "loss" not in network else []), *PERFTEST, *([*SHARED, *UNRELIABLE] if network == "clean" else [])]:
        yield command, command, command + " {server}"
    if network == "clean":
        yield "windows.py", WINDOWS, WINDOWS + " {server}"
        yield "changed_region.py", CHANGED, CHANGED + " {server}"
        yield f"mckey -m {GROUP}", *MULTICAST
    for serve, ask in CONNECTED:
        yield serve, serve, ask


def run(build, image, networks, only, with_beside):
    passed = failed = 0
    lab = Lab(build, [], ["--mtu", "1024", "--loss", "0%", "--seed", "21"], "interop")
    guest = None
    try:
        guest = Rxe(lab, "h2", image)
        ours = Ours(lab, "h1")
        guest.wait_until_up()
        for network in networks:
            subprocess.run([lab.brdma, "lab", "set", "--name", lab.name, "--loss", "0%", "--reorder", "0%,1", *NETWORKS[network]], check=True, timeout=TIMEOUT_SECONDS)
            before = lab.totals()
            for name, serve, ask in cases(network):
                if only not in name:
                    continue
                for way, server, client in (("rxe serves", guest, ours), ("rxe asks", ours, guest)):
                    if server is guest and (" -R " in name or name == "changed_region.py"):  # Linux 6.1's rxe: EOPNOTSUPP
                        continue
                    if client is guest and "loss" in network and name.startswith("ib_write_lat"):
                        continue
                    began = time.monotonic()
                    number = server.address.rsplit(".", 1)[1]
                    ends = (server, client, serve.format(device=server.device, files=server.files, own=server.address),
                            ask.format(server=server.address, server6=f"fd77::{number}", device=client.device, files=client.files, own=client.address))
                    try:
                        try:
                            problem = pair(*ends)
                        except ServerWaits:
                            # The kernel forgets a DREQ as its program destroys the id (rping does so at once): if the
                            # network loses that one message, no server learns of the end.
                            if client is not guest or "loss" not in network or "rping" not in ask:
                                raise
                            print(f"again: {network}: {way}: {name}: the server did not end", flush=True)
                            problem = pair(*ends)
                    except Exception:  # noqa: BLE001: reported, and the others still run
                        problem = traceback.format_exc()
                    passed, failed = (passed + 1, failed) if problem is None else (passed, failed + 1)
                    print(f"{'ok  ' if problem is None else 'FAIL'} {time.monotonic() - began:6.1f}s  {network}: {way}: {name}{'' if problem is None else ': ' + problem}", flush=True)
            after = lab.totals()
            if network != "clean" and not only and all(after[what] == before[what] for what in ("lost", "reordered")):
                failed += 1
                print(f"FAIL {network}: the network counts no packet as lost or reordered")
        if with_beside:
            more = beside.run(guest, build, only)
            passed, failed = passed + more[0], failed + more[1]
    finally:
        if guest:
            guest.stop()
        lab.down()
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--image", required=True, help="directory that `image` made")
    parser.add_argument("--network", choices=NETWORKS, action="append", help="default: clean and loss1")
    parser.add_argument("--beside", action="store_true", help="kernel devices and ours on one host; without --network it is run too")
    parser.add_argument("--only", default="", help="run only the programs whose command line holds this text")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # takes down the lab and the guest
    networks = options.network if options.network or options.beside else ["clean", "loss1"]
    return run(os.path.abspath(options.build), os.path.abspath(options.image), networks or [], options.only, options.beside or not options.network)


if __name__ == "__main__":
    sys.exit(main())
