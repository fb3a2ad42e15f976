#!/usr/bin/env python3
"""The first program started brdmad, which shares its place: its pid namespace, cgroup, container. That place ends, at a
moment that the seed chooses, while other programs work; or holder and worker are killed alone, more than once. Then

- nobody outside notices: every other program does its work, each byte of it checked;
- another program, if one is left, has started a daemon that continues;
- once all have ended nothing is left: no lease, port, process, or socket of port 4791.

  first.py --build BUILD --seeds N --from S     a failing seed is printed with the command that replays it

Last line: `N passed, M failed`.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

from kill import DONE, KILLED, TIMEOUT_SECONDS, Seed, ask, ask_patiently, run_seeds

# The places: for a kill process by process, and for a kill of all at once.
CGROUPS = {"cgroup": ["/sys/fs/cgroup/cpu"], "cgroup v2": ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]}


def cgroup_parents():
    """Of each available version, if cgroups can be made."""
    found = {}
    for version, folders in CGROUPS.items():
        for folder in folders:
            second = os.path.exists(f"{folder}/cgroup.controllers")
            if os.path.exists(f"{folder}/cgroup.procs") and second == (version == "cgroup v2") and os.access(folder, os.W_OK):
                found.setdefault(version, folder)
    return found


class Cgroup:
    """A cgroup of our own, removed with the object."""

    def __init__(self, version, name):
        self.folder = f"{cgroup_parents()[version]}/{name}"
        os.mkdir(self.folder)

    def enter(self):
        with open(f"{self.folder}/cgroup.procs", "w") as processes:
            processes.write(str(os.getpid()))

    def end(self):
        """Kills everything in it; returns when it is empty."""
        limit = time.monotonic() + TIMEOUT_SECONDS
        while os.path.exists(self.folder) and time.monotonic() < limit:
            if os.path.exists(f"{self.folder}/cgroup.kill"):
                with open(f"{self.folder}/cgroup.kill", "w") as kill:
                    kill.write("1")
            else:
                with open(f"{self.folder}/cgroup.procs") as processes:
                    for pid in processes.read().split():
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(int(pid), signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.rmdir(self.folder)
        assert not os.path.exists(self.folder), "the cgroup does not end"


class First(Seed):
    def __init__(self, build, seed, folder):
        super().__init__(build, seed, folder)
        kinds = ["pid namespace", "container", "daemon", *cgroup_parents()]
        self.kind = self.random.choice(kinds)
        self.victim = None
        self.deaths = self.random.choice([1, 1, 2, 3]) if self.kind == "daemon" else 1
        # The next daemon dies at any time, or while programs are still coming back to it.
        self.moments = [self.random.uniform(0, 0.15 if first else self.random.choice([0.005, 0.15])) for first in [True] + [False] * (self.deaths - 1)]
        self.programs = self.random.random() < 0.1
        self.work = [str(n) for n in (self.random.randint(2, 8), self.random.randint(20, 200), self.random.choice([1, 1000, 20000, 65536]))]
        self.cgroup = Cgroup(self.kind, f"brdma-kill-{os.getpid()}-{seed}") if self.kind in CGROUPS else None
        self.adopted = False

    def story(self):
        others = "perftest and rping" if self.programs else f"{self.work[0]} connections of {self.work[1]} messages of {self.work[2]} bytes"
        return f"{self.kind} ends after {', '.join(f'{1000 * moment:.0f} ms' for moment in self.moments)}; {others}"

    def environment(self):
        return dict(os.environ, HOME="/nonexistent", BRDMA_IDLE_SECONDS="60", BRDMA_DAEMON=os.path.join(self.bin, "brdmad"),
                    LD_PRELOAD=os.path.join(self.lib, "libbitmaprdma.so"))

    def start_first(self):
        """A server without clients; returns once it listens: brdmad has been started by then, beside it."""
        confined = {"pid namespace": ["unshare", "--pid", "--fork", "--kill-child"],
                    "container": ["unshare", "--pid", "--mount", "--cgroup", "--ipc", "--uts", "--fork", "--kill-child"]}.get(self.kind, [])
        first = subprocess.Popen([*confined, os.path.join(self.bin, "kill_peer"), "server", "7470"], env=self.environment(),
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 preexec_fn=self.cgroup.enter if self.cgroup else None)
        self.processes.append(first)
        assert select.select([first.stdout], [], [], TIMEOUT_SECONDS)[0], "the first program neither listens nor ends"
        assert first.stdout.readline() == b"listening\n", f"the first program: {first.communicate()[1].decode()}"
        return first

    def end_first(self, first):
        if self.kind == "daemon":
            return self.kill_daemons()
        time.sleep(self.moments[0])  # the moment is the test's
        if self.cgroup:
            self.cgroup.end()
        else:
            first.kill()
        self.end_of(first, "the first program", KILLED)

    def kill_daemons(self):
        for moment in self.moments:
            time.sleep(moment)
            version = ask_patiently("version")
            victims = [version["pid"], version["worker_pid"]]
            self.random.shuffle(victims)
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def start_program(self, *words):
        process = subprocess.Popen(words, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process

    def unmodified(self):
        """The clients' waits: for each server to listen, by its TCP port or RDMA-CM's."""
        pairs = [(["ib_write_bw", "-F", "-n", "20000", "-p", "18600"], ["ib_write_bw", "-F", "-n", "20000", "-p", "18600", "127.0.0.1"]),
                 (["ib_read_bw", "-F", "-n", "20000", "-p", "18601"], ["ib_read_bw", "-F", "-n", "20000", "-p", "18601", "127.0.0.1"]),
                 (["rping", "-s", "-C", "2000", "-V", "-p", "7480"], ["rping", "-c", "-a", "127.0.0.1", "-C", "2000", "-V", "-p", "7480"])]
        servers = [self.start_program(*server) for server, _ in pairs]
        for port in (18600, 18601):
            self.wait_for_tcp(port)
        ask_patiently("cm_ids", lambda answer: any(each["src-port"] == 7480 and each["state"] == "LISTEN" for each in answer["cm_ids"]))
        return servers + [self.start_program(*client) for _, client in pairs]

    @staticmethod
    def wait_for_tcp(port):
        end = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < end:
            with open("/proc/self/net/tcp") as four, open("/proc/self/net/tcp6") as six:
                if any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in four.readlines()[1:] + six.readlines()[1:]):
                    return
        raise AssertionError(f"nobody listens at TCP port {port}")

    def run(self):
        first = self.start_first()
        if self.programs:
            others = self.unmodified()
            self.end_first(first)
            for process in others:
                self.end_of(process, " ".join(process.args), DONE)
        else:
            server, listens = self.start_server("server")
            assert listens, f"the server: {server.communicate()[1].decode()}"
            clients = [self.start_client("client"), self.start_client("client")]
            self.end_first(first)
            for client in clients:
                self.end_of(client, "a client", DONE)
            self.adopted = ask_patiently("version")["worker_starts"] > 1
            self.end_of(server, "the server", DONE)
        if self.kind == "daemon":
            self.end_of(first, "the first program", DONE)
        self.next_ones_work()
        return self.adopted

    def next_ones_work(self):
        server, listens = self.start_server("next server")
        assert listens, f"the next server: {server.communicate()[1].decode()}"
        self.end_of(self.start_client("next client"), "the next client", DONE)
        self.end_of(server, "the next server", DONE)
        ask_patiently("leases", lambda answer: answer["leases"] == [])
        ask_patiently("cm_ids", lambda answer: answer["cm_ids"] == [])
        self.stop(ask_patiently("version")["pid"])
        end = time.monotonic() + TIMEOUT_SECONDS
        while (left := self.left_behind()) and time.monotonic() < end:
            pass
        assert not left, f"left behind: {left}"

    @staticmethod
    def left_behind():
        """Sockets of port 4791 in this network namespace, and daemons in it."""
        left = []
        for table in ("udp", "udp6"):
            with open(f"/proc/self/net/{table}") as sockets:
                left += [line.split()[1] for line in sockets.readlines()[1:] if line.split()[1].endswith(":12B7")]
        network = os.readlink("/proc/self/ns/net")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/net") == network and open(f"/proc/{pid}/comm").read().startswith("brdmad"):
                    left.append(f"brdmad {pid}")
        return left

    def clean_up(self):
        super().clean_up()
        if self.cgroup:
            self.cgroup.end()


if __name__ == "__main__":
    sys.exit(run_seeds(First, __doc__, "in {count} of {seeds} another daemon went on before the others had ended"))
