#!/usr/bin/env python3
"""Faults planted one at a time, which `brdma check` must name: the stable key of its finding, and no other error.

    faults.py [--build DIR] [--only CASE,...] [--list]

Each case has a network of its own. `sound` shows that without a fault there is no error, so no case passes for the
machine's own state: a fault's key must not be among the findings there. Last line: `N passed, M failed`.
"""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import world as w
from world import BUILD, RUN, expect, keys, named, shell

# Not possible with this library, and replaced: a small limit of locked memory (nothing is pinned: RLIMIT_MEMLOCK does
# not matter), by refused process_vm_readv; the socket file of a dead brdmad (an abstract name ends with its process),
# by a stopped brdmad.


def planted(key, severity, plant, words=(), arguments=(), interface=True, absent_before=True):
    """A case: the finding is absent, then the fault is planted, then it is named."""

    def case(world):
        if interface:
            w.make_interface(world)
        if absent_before:
            before = world.check(*arguments)
            expect(key not in keys(before), f"{key} is there before the fault: {before['findings']}")
            world.command("system", "shutdown", "--force")
        plant(world)
        named(world.check(*arguments), key, severity, words)

    return case


def advised(plant, *words):
    """A case: the sentence that a program gets on standard error names the next step too."""

    def case(world):
        w.make_interface(world)
        plant(world)
        said = world.command("run", "--", "ibv_devinfo").stderr
        expect(all(word in said for word in words), f"{words} are not in: {said}")

    return case


def variable(name, value):
    return lambda world: world.environment.update({name: value})


def limit_files(_):
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))


def one_processor(_):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])


def take_port(_):
    taker = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    deadline = time.monotonic() + 10
    while True:  # the brdmad of the check before has answered, and closes its sockets as it ends
        try:
            taker.bind(("::", 4791))
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    taker.set_inheritable(False)
    KEPT.append(taker)


# As an ordinary user: as much as the system allows.
with open("/proc/sys/net/core/rmem_max", encoding="ascii") as limit:
    LARGE_BUFFERS = int(limit.read()) >= 1 << 20

KEPT = []  # until the process ends


def listen_as_daemon(reply, to_all=False):
    """A listener with brdmad's name; `reply`: to each line, None: none. `to_all`: also to what is no line."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind("\0brdmad")
    listener.listen(16)
    KEPT.append(listener)

    def serve():
        while True:
            connection, _ = listener.accept()
            KEPT.append(connection)
            if (connection.recv(65536)[:1] == b"{" or to_all) and reply:
                connection.sendall(reply)
            else:
                connection.close()

    threading.Thread(target=serve, daemon=True).start()


def older_daemon(_):
    listen_as_daemon(b'{"version":"0.0.9","lease_protocol":1,"uid":0,"system":false}\n')


def stopped_daemon(world):
    started = subprocess.run([f"{BUILD}/bin/brdmad"], env=world.environment | {"BRDMA_IDLE_SECONDS": "0"}, capture_output=True, text=True, check=False)
    expect(started.returncode == 0, f"brdmad does not start: {started.stderr}")
    daemon = json.loads(world.command("-j", "system").stdout)[0]["brdmad"]
    for pid in (daemon["pid"], daemon["worker_pid"]):
        os.kill(pid, signal.SIGSTOP)


def other_users_daemon(world):
    """brdmad of user nobody: it serves nobody else."""
    if open("/proc/self/uid_map", encoding="ascii").read().split()[2] == "1":
        print("no second user in this namespace")
        sys.exit(w.SKIPPED)
    shell("chmod 755 /tmp; mkdir /tmp/nobody; cp /mnt/bin/brdmad /tmp/nobody; chmod 755 /tmp/nobody /tmp/nobody/brdmad")
    started = subprocess.run([*w.NOBODY, "/tmp/nobody/brdmad"], env=world.environment | {"BRDMA_IDLE_SECONDS": "0"}, capture_output=True, text=True, check=False)
    expect(started.returncode == 0, f"brdmad does not start: {started.stderr}")


def other_device(_):
    shell("mkdir /tmp/class; mount -t tmpfs tmpfs /sys/class; mkdir -p /sys/class/infiniband/rxe0 /sys/class/infiniband_verbs/uverbs0;"
          "echo rxe0 > /sys/class/infiniband_verbs/uverbs0/ibdev; echo 1 > /sys/class/infiniband_verbs/uverbs0/abi_version; echo 6 > /sys/class/infiniband_verbs/abi_version")


def slow_clock(_):
    shell("echo hpet > /tmp/clock; mount --bind /tmp/clock /sys/devices/system/clocksource/clocksource0/current_clocksource")


def full_places(_):
    """A place without a free block, and ones without a free inode."""
    shell(f"mount -t tmpfs -o nr_inodes=2 tmpfs /tmp; mkdir -m 700 {RUN}; mount -t tmpfs -o size=4k,mode=700 tmpfs {RUN};"
          f"dd if=/dev/zero of={RUN}/fill bs=4k count=1 2>/dev/null; mount -t tmpfs -o nr_inodes=1 tmpfs /dev/shm")


def open_place(_):
    shell(f"rm -rf {RUN}/brdma; mkdir {RUN}/brdma; chmod 777 {RUN}/brdma")


def alone(world):
    """A copy of the programs without the library."""
    shell(f"mkdir -p /tmp/part/bin; cp {BUILD}/bin/brdma {BUILD}/bin/brdmad /tmp/part/bin")
    world.brdma = "/tmp/part/bin/brdma"


def static_program(_):
    """The smallest ELF file: no loader is named in it."""
    machine = {"x86_64": 62, "aarch64": 183}[os.uname().machine]
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + b"".join(number.to_bytes(size, "little") for number, size in (
        (2, 2), (machine, 2), (1, 4), (0x400078, 8), (64, 8), (0, 8), (0, 4), (64, 2), (56, 2), (1, 2), (0, 2), (0, 2), (0, 2)))
    segment = b"".join(number.to_bytes(size, "little") for number, size in ((1, 4), (5, 4), (0, 8), (0x400000, 8), (0x400000, 8), (120, 8), (120, 8), (4096, 8)))
    with open("/tmp/program", "wb") as file:
        file.write(header + segment)
    os.chmod("/tmp/program", 0o755)


def plain_program(mode, then="true"):
    return lambda _: shell(f"cp /bin/true /tmp/program; chmod {mode} /tmp/program; {then}")


def settings_file(text):
    def plant(_):
        with open("/tmp/home/.config/bitmaprdma.toml", "w", encoding="utf-8") as file:
            file.write(text)

    return plant


def sound(world):
    w.make_interface(world)
    report = world.check()
    expect(report["ok"], f"errors without a fault: {report['findings']}")
    device = report["devices"][0]
    expect(device["ifname"] == "brdma_eth0" and device["state"] == "ACTIVE", f"{device}")
    expect({"index": 1, "address": "10.0.0.1"} in device["gids"], f"{device['gids']}")
    opened = report["chosen"]["devices"][0]
    expect(opened["usable"] and opened["receive"] in ("udp", "xdp") and opened["receive_buffer_bytes"] > 0, f"{opened}")
    expect(report["from"]["library"].rsplit("/", 1)[-1] in ("libbitmaprdma.so", "libbitmaprdma.so.1"), f"{report['from']}")
    text = world.command("check")
    expect(text.returncode == 0 and "programs see" in text.stdout and "brdma_eth0" in text.stdout, text.stdout + text.stderr)
    full = subprocess.run(f"{w.BRDMA} check > /dev/full", shell=True, env=world.environment, capture_output=True, text=True, check=False)
    expect(full.returncode == 1 and "cannot be written" in full.stderr, f"/dev/full: {full.returncode} {full.stderr}")


PROGRAM = ("--", "/tmp/program")
CASES = {
    "sound": sound,
    "firewall": planted("port_blocked", "error", lambda _: w.filter_packets("lo", w.DROP), ["4791"]),
    "port_taken": planted("port_taken", "error", take_port, ["4791", "python3"]),
    "interface_down": planted("interface_down", "warning", lambda _: shell("ip link set eth0 down"), ["ip link set eth0 up"]),
    "no_device": planted("no_device", "error", lambda _: shell("ip link set lo down"), ["ip link set lo up"], interface=False),
    "gid_index": planted("gid_index_wrong", "error", variable("NCCL_IB_GID_INDEX", "9"), ["NCCL_IB_GID_INDEX", "brdma_eth0 1 = 10.0.0.1"]),
    "device_variable": planted("device_variable_wrong", "error", variable("UCX_NET_DEVICES", "mlx5_0:1"), ["mlx5_0"]),
    "no_netlink": planted("netlink_refused", "warning", lambda _: w.refuse("socket", 0, [16]), ["AF_NETLINK"]),
    "no_proc": planted("proc_missing", "warning", lambda _: shell("mount -t tmpfs tmpfs /proc"), ["mount -t proc"]),
    "seccomp": planted("call_refused", "error", lambda _: w.refuse("memfd_create"), ["memfd_create"]),
    "seccomp_local": planted("call_refused", "warning", lambda _: w.refuse("process_vm_readv"), ["process_vm_readv"]),
    "small_buffers": planted("socket_buffer_small", "warning", lambda _: w.refuse("setsockopt", 2, [8, 33]), ["net.core.rmem_max"], absent_before=LARGE_BUFFERS),
    "one_processor": planted("one_processor", "warning", one_processor, ["taskset"], absent_before=len(os.sched_getaffinity(0)) > 1),
    "other_device": planted("other_device_first", "warning", other_device, ["rxe0", "brdma_eth0"]),
    "daemon_version": planted("daemon_version", "error", older_daemon, ["0.0.9", "brdmad --stop"], absent_before=False),
    "daemon_stopped": planted("daemon_silent", "error", stopped_daemon, ["kill -CONT"], absent_before=False),
    "daemon_of_another_user": planted("daemon_other_user", "error", other_users_daemon, ["nobody"], absent_before=False),
    "daemon_missing": planted("daemon_missing", "error", variable("BRDMA_DAEMON", "/tmp/none/brdmad"), ["/tmp/none/brdmad"]),
    "clock": planted("clock_slow", "warning", slow_clock, ["hpet"]),
    "open_files": planted("open_files_limit", "error", limit_files, ["200", "ulimit -Hn"]),
    "full_disk": planted("runtime_directory_full", "error", full_places, ["XDG_RUNTIME_DIR", "No space left"]),
    "runtime_permission": planted("runtime_directory_permission", "warning", open_place, [RUN, "0700"]),
    "missing_library": planted("library_missing", "error", alone, ["libbitmaprdma.so"]),
    "static_program": planted("program_static", "error", static_program, ["statically"], PROGRAM, absent_before=False),
    "setuid_program": planted("program_privileged", "error", plain_program("4755"), ["set-user-ID", "--namespace"], PROGRAM, absent_before=False),
    "capable_program": planted("program_privileged", "error", plain_program("755", "setcap cap_net_raw+ep /tmp/program"), ["file capabilities"], PROGRAM, absent_before=False),
    "no_program": planted("program_missing", "error", lambda _: None, ["/tmp/program"], PROGRAM, absent_before=False),
    "unknown_variable": planted("setting_unknown", "error", variable("BRDMA_DEPTHMAX", "3"), ["BRDMA_DEPTHMAX", "BRDMA_DEPTH_MAX"]),
    "unknown_key": planted("setting_unknown", "error", settings_file("[recovery]\ndepthmax = 3\n"), ["bitmaprdma.toml:2", "recovery.depth_max"]),
    "advice_stopped": advised(stopped_daemon, "brdmad does not answer", "kill -CONT"),
    "advice_impostor": advised(lambda _: listen_as_daemon(bytes(4096), to_all=True), "another program listens at @brdmad", "ss -xlp"),
    "advice_other_program": advised(variable("BRDMA_DAEMON", "/bin/true"), "ended before it was ready", "--foreground"),
    "bad_value": planted("setting_value", "error", variable("BRDMA_WINDOW", "1000000000"), ["recovery.window"]),
}

if __name__ == "__main__":
    sys.exit(w.run_cases(CASES, __doc__))
