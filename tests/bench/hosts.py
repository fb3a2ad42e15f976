"""Two hosts of a lab, and programs on them: their output and their CPU time."""
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

ADDRESS = "10.77.0.1"  # of h1, where servers run


@dataclass(frozen=True)
class Ended:
    output: str
    cpu_seconds: float
    wall_seconds: float


class Program:
    """A running program, its output in a file. Only wait() reaps it (Popen's own functions would, and lose its resource
    usage). Its CPU time is known once it has ended: it includes that of `brdma lab exec`, some milliseconds."""

    def __init__(self, command, shown):
        self.shown, self.started = shown, time.monotonic()
        self.file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.file, stderr=subprocess.STDOUT)
        self.pidfd = os.pidfd_open(self.process.pid)

    def wait(self, seconds):
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        late = not poll.poll(seconds * 1000)
        if late:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        os.close(self.pidfd)
        self.file.seek(0)
        output = self.file.read()
        self.file.close()
        if late or self.process.returncode != 0:
            why = f"not done after {seconds} s" if late else f"exit {self.process.returncode}"
            raise RuntimeError(f"{self.shown}: {why}: {' '.join(output.split())[-300:]}")
        return Ended(output, usage.ru_utime + usage.ru_stime, time.monotonic() - self.started)

    def end(self):
        """After success or failure."""
        if self.process.returncode is None:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            try:
                self.wait(10)
            except RuntimeError:
                pass


class Lab:
    """Torn down at the end in any case. `mtu` is that of the interfaces; `network` are options of `brdma lab up`."""

    def __init__(self, build, mtu=9000, network=()):
        self.build, self.mtu, self.network = build, mtu, list(network)
        self.brdma = os.path.join(build, "bin", "brdma")
        self.name = f"bench{os.getpid()}"

    def __enter__(self):
        subprocess.run([self.brdma, "lab", "up", "--name", self.name, "--hosts", "2", *self.network], check=True, timeout=60, stdout=subprocess.DEVNULL)
        if not self.network:
            self.set_mtu()
        return self

    def __exit__(self, *_):
        subprocess.run([self.brdma, "lab", "down", "--name", self.name], timeout=60, stdout=subprocess.DEVNULL)

    def set_mtu(self):
        for host in ("h1", "h2"):
            for name in re.findall(r"^\d+: ([^:@]+)", self.run(host, ["ip", "-o", "link", "show", "up"]).output, re.M):
                if name != "lo":
                    self.run(host, ["ip", "link", "set", "dev", name, "mtu", str(self.mtu)])

    @property
    def path_mtu(self):
        return 4096 if self.mtu >= 4200 else 1024

    def start(self, host, program, environment=None):
        words = [*(f"{name}={value}" for name, value in (environment or {}).items()), *map(str, program)]
        prefix = ["env"] if environment else []
        return Program([self.brdma, "lab", "exec", "--name", self.name, host, "--", *prefix, *words], f"{' '.join(words)} on {host}")

    def run(self, host, program, environment=None, seconds=60):
        return self.start(host, program, environment).wait(seconds)

    def pair(self, client, port, server=None, environment=None, seconds=60, server_ends=True):
        """Server on h1, client on h2: by default the same words and h1's address. Returns both outputs, client first.
        Port "cm": of RDMA-CM."""
        first = self.start("h1", server or client, environment)
        try:
            self.wait_bound(port)
            second = self.run("h2", client if server else [*client, ADDRESS], environment, seconds)
            return (second, first.wait(20)) if server_ends else (second,)
        finally:
            first.end()

    def served(self, program, port, words, seconds=60):
        """A program with `serve PORT` on h1 as one end; the other on h2 ends both."""
        server = self.start("h1", [program, "serve", port])
        try:
            self.wait_bound(port)
            client = self.run("h2", [program, *words], seconds=seconds)
            return client, server.wait(20)
        finally:
            server.end()

    def wait_bound(self, port, seconds=15):
        """Until a program listens on h1's TCP port, or has the UDP port."""
        until = time.monotonic() + seconds
        if port == "cm":
            wanted, command = re.compile("LISTEN"), [self.brdma, "resource", "show", "cm_id"]
        else:
            wanted, command = re.compile(rf"^ *\d+: \w+:{port:04X} [\w:]+ (0A|07) ", re.M), ["cat", "/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6"]
        while time.monotonic() < until:
            if wanted.search(self.run("h1", command).output):
                return
        raise RuntimeError(f"nobody has port {port}")
