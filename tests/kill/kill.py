#!/usr/bin/env python3
"""Kills either side of a connection, or brdmad's worker or holder, at a moment that the seed chooses, and checks the
others:

- nobody hangs: every survivor does its work, or gets an error and ends by itself;
- a process without relation to the dead one does its work (after a killed worker or holder: everybody);
- no lease, port or descriptor is left behind, and a new pair of programs works on the same port.

  kill.py --build BUILD --seeds N --from S     a failing seed is printed with the command that replays it

Last line: `N passed, M failed`.
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

TIMEOUT_SECONDS = 60  # seconds; far above any step here, on a busy machine
DONE, FAILED, KILLED = 0, 2, -9
# The maximal number of calls (twice, see kill_point.cc) of the victim in this test; its end is chosen below that.
CALLS = {"client": 4000, "server": 6000, "worker": 1500, "holder": 60}


def enter_network(nobody):
    """A network namespace of its own for this process; without root in a user namespace, where it is root of no more than that."""
    libc = ctypes.CDLL(None, use_errno=True)
    if nobody and os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: or /proc/self stays root's
    user, group, root = os.geteuid(), os.getegid(), os.geteuid() == 0
    new_user, new_network = 0x10000000, 0x40000000
    if libc.unshare(new_network | (0 if root else new_user)) != 0:
        sys.exit(f"kill: no network namespace to be had: {os.strerror(ctypes.get_errno())}")
    if not root:
        for file, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{file}", "w") as map_file:
                map_file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:  # lo is to be up: SIOCSIFFLAGS, IFF_UP
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))


def ask(question, **more):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        connection.connect(b"\0brdmad")
        connection.sendall(json.dumps({"query": question, **more}).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            part = connection.recv(65536)
            if not part:
                raise ConnectionError("brdmad closed the connection")
            answer += part
    return json.loads(answer)


def ask_patiently(question, until=lambda answer: True):
    """Queries until the answer is as expected; a worker may die meanwhile."""
    end = time.monotonic() + TIMEOUT_SECONDS
    answer = None
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            answer = ask(question)
            if until(answer):
                return answer
    raise AssertionError(f"{question}: {answer} after {TIMEOUT_SECONDS} s")


def threads_of(pid):
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        gdb = ["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all backtrace"]
        return subprocess.run(gdb, capture_output=True, text=True, timeout=TIMEOUT_SECONDS).stdout.splitlines()
    lines = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            words = [open(f"/proc/{pid}/task/{task}/{file}").read().strip() for file in ("comm", "wchan", "syscall")]
            lines.append(" ".join(words))
    return lines


class Seed:
    def __init__(self, build, seed, folder):
        self.random = random.Random(seed)
        self.bin, self.lib = os.path.join(build, "bin"), os.path.join(build, "lib")
        self.token = os.path.join(folder, f"token-{seed}")
        self.processes = []
        self.victim = self.random.choice(["client", "server", "worker", "holder", "client", "server"])
        # Early moments, when most is being set up, as often as late ones.
        self.call = int(2 ** self.random.uniform(1, CALLS[self.victim].bit_length()))
        self.work = [str(n) for n in (self.random.randint(1, 4), self.random.randint(1, 12), self.random.choice([1, 1000, 20000, 65536]))]

    def story(self):
        return f"{self.victim} at {self.call}, {self.work[0]} connections of {self.work[1]} messages of {self.work[2]} bytes"

    def start(self, role, *arguments, program=None, **pipes):
        environment = dict(os.environ, HOME="/nonexistent", BRDMA_IDLE_SECONDS="60", BRDMA_DAEMON=os.path.join(self.bin, "brdmad"))
        preload = [] if role == "brdmad" else [os.path.join(self.lib, "libbitmaprdma.so")]
        generation = {"worker": 1}.get(self.victim, 0)
        if role == self.victim or (role == "brdmad" and self.victim in ("worker", "holder")):
            preload.append(os.path.join(self.lib, "libbrdma_kill_point.so"))
            environment["BRDMA_KILL_POINT"] = f"{generation}:{self.call}:{self.token}"
        # By name: the loader splits LD_PRELOAD at blanks, which their path may have.
        environment["LD_PRELOAD"], environment["LD_LIBRARY_PATH"] = ":".join(map(os.path.basename, preload)), self.lib
        process = subprocess.Popen([os.path.join(self.bin, program or "kill_peer"), *arguments], env=environment, stderr=subprocess.PIPE, **pipes)
        self.processes.append(process)
        return process

    def start_server(self, role):
        server = self.start(role, "server", "7471", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        readable, _, _ = select.select([server.stdout], [], [], TIMEOUT_SECONDS)
        assert readable, "the server neither listens nor ends"
        return server, server.stdout.readline() == b"listening\n"

    def start_client(self, role):
        return self.start(role, "client", "7471", *self.work, stdout=subprocess.DEVNULL)

    def end_of(self, process, what, *codes):
        try:
            _, words = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{what} hangs\n{self.state_of_all()}") from None
        assert process.returncode in codes, f"{what}: exit code {process.returncode}, not {codes}: {words.decode()}"
        return process.returncode

    def run(self):
        open(self.token, "w").close()
        ready, ready_end = os.pipe()
        daemon = self.start("brdmad", "--foreground", "--ready-fd", str(ready_end), program="brdmad", pass_fds=[ready_end])
        os.close(ready_end)
        while os.read(ready, 100):  # until it serves, or has ended
            pass
        os.close(ready)
        self.kill_one(daemon)
        killed = not os.path.exists(self.token)
        self.nothing_is_left(daemon)
        return killed

    def kill_one(self, daemon):
        """A server and two clients, one of them as the seed has it; then the same again, unaffected."""
        server, listens = self.start_server("server")
        # Which processes must be unaffected?
        all_well = self.victim in ("worker", "holder")
        bystander_well = all_well or self.victim == "client"
        if bystander_well and not listens:
            self.end_of(server, "the server", DONE)
        first, second = self.start_client("client"), self.start_client("bystander")
        self.end_of(first, "the client", *([DONE] if all_well else [DONE, KILLED] if self.victim == "client" else [DONE, FAILED]))
        self.end_of(second, "the other client", *([DONE] if bystander_well else [DONE, FAILED]))
        self.end_of(server, "the server", *([DONE] if bystander_well else [DONE, KILLED] if self.victim == "server" else [DONE, FAILED]))
        if self.victim == "holder" and not os.path.exists(self.token):
            self.end_of(daemon, "the daemon", KILLED)
        server, listens = self.start_server("next server")
        assert listens, f"the next server: {server.communicate()[1].decode()}"
        self.end_of(self.start_client("next client"), "the next client", DONE)
        self.end_of(server, "the next server", DONE)

    def nothing_is_left(self, daemon):
        ask_patiently("leases", lambda answer: answer["leases"] == [])
        ask_patiently("cm_ids", lambda answer: answer["cm_ids"] == [])
        holder = ask_patiently("version")["pid"]
        # The holder keeps two descriptors for each lease; the rest are its own, far fewer than two a slot.
        end = time.monotonic() + TIMEOUT_SECONDS
        while (kept := self.kept_by(holder)) and time.monotonic() < end:
            pass
        assert not kept, f"the holder keeps {kept}"
        self.stop(holder)
        if daemon.poll() is None and daemon.pid == holder:
            self.end_of(daemon, "the daemon", DONE)

    @staticmethod
    def kept_by(holder):
        """Pages of leases and connections of programs: none without leases."""
        kept = []
        for fd in os.listdir(f"/proc/{holder}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{holder}/fd/{fd}")
                if "statistics" in target:
                    kept.append(target)
        return kept

    @staticmethod
    def stop(holder):
        """A worker that dies at the command to stop gets it again."""
        process = os.pidfd_open(holder)
        end = time.monotonic() + TIMEOUT_SECONDS
        ended = False
        while not ended and time.monotonic() < end:
            with contextlib.suppress(OSError):
                ask("shutdown", force=True)
            ended = bool(select.select([process], [], [], 1)[0])
        os.close(process)
        assert ended, "the daemon does not end"

    def state_of_all(self):
        """Facts that explain a hang: where each thread waits (with gdb, if it is there), and brdmad's state."""
        lines = []
        for question in ("cm_ids", "leases", "statistics"):
            try:
                lines.append(f"{question}: {json.dumps(ask(question))}")
            except OSError as problem:
                lines.append(f"{question}: {problem}")
        for process in self.processes:
            if process.poll() is not None:
                said = process.stdout.read() if process.stdout and not process.stdout.closed else b""
                lines.append(f"{process.args[1:]} has ended with {process.returncode}: {said.decode(errors='replace')[-500:]}")
                continue
            lines.append(f"{process.args[1:]} is process {process.pid}")
            lines += threads_of(process.pid)
        return "\n".join(lines)

    def clean_up(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        with contextlib.suppress(OSError):
            os.unlink(self.token)


def run_seeds(world_of, what, summary):
    """`world_of(build, seed, folder).run()` for each; counts whether the intended event occurred."""
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--as-nobody", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    enter_network(arguments.as_nobody)
    passed = failed = count = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            world = world_of(os.path.abspath(arguments.build), seed, folder)
            began = time.monotonic()
            try:
                count += world.run()
                passed += 1
                if arguments.verbose:
                    print(f"ok   {time.monotonic() - began:5.1f}s  seed {seed}: {world.story()}", flush=True)
            except Exception as problem:  # noqa: BLE001: reported, and the others still run
                failed += 1
                words = problem if isinstance(problem, AssertionError) else traceback.format_exc()
                print(f"FAIL {time.monotonic() - began:5.1f}s  seed {seed}: {world.story()}: {words}", flush=True)
                print(f"replay: python3 {sys.argv[0]} --build {arguments.build} --seeds 1 --from {seed}", flush=True)
                world.clean_up()
                with contextlib.suppress(OSError, AssertionError):
                    Seed.stop(ask("version")["pid"])
            finally:
                world.clean_up()
    print(summary.format(count=count, seeds=arguments.seeds))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(run_seeds(Seed, __doc__, "in {count} of {seeds} the victim had not ended before its moment came"))
