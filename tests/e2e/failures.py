#!/usr/bin/env python3
"""Cases that must end with a clear error instead of a hang or a crash. Last line: `N passed, M failed`.

Each case runs real programs and checks exit codes and messages.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import programs


class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


class Cases:
    def __init__(self, build):
        self.brdma = os.path.join(build, "bin", "brdma")
        self.build = os.path.abspath(build)

    # --- helpers ---
    def lab(self, *arguments):
        return subprocess.run([self.brdma, "lab", *arguments], capture_output=True, text=True, timeout=60)

    def alone(self, program, setup="", environment=None, seconds=30):
        """Runs a shell command in a network namespace of its own (and a mount namespace), lo up unless `setup` sets
        another state. The build is visible at /mnt, because it may lie below a place that `setup` mounts over."""
        script = f"set -e; ip link set lo up; mount --rbind {shlex.quote(self.build)} /mnt; {setup}\nexec {program}"
        return subprocess.run(["unshare", *self.namespaces(), "bash", "-c", script], capture_output=True, text=True, timeout=seconds, env={**os.environ, **(environment or {})})

    @staticmethod
    def namespaces():
        return ["--net", "--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net", "--mount"]

    # --- cases ---
    def peer_dies(self):
        """The other side's work completes with the retry error after its retries; nobody hangs. Of two programs that
        answer each other the surviving one may have nothing in flight, and cannot notice: here it always has."""
        name = f"dies{os.getpid()}"
        up = self.lab("up", "--name", name)
        expect(up.returncode == 0, up.stderr)
        try:
            command = [self.brdma, "lab", "exec", "--name", name]
            sends = ["ib_send_bw", "-s", "4096", "-D", "120"]
            server = subprocess.Popen([*command, "h1", "--", *sends], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
            self.wait_listening(command, 18515)
            client = subprocess.Popen([*command, "h2", "--", *sends, "10.77.0.1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.wait_traffic(name)
            if "BRDMA_DATAPATH" in os.environ:
                devices = json.loads(self.lab("exec", "--name", name, "h1", "--", self.brdma, "-j", "statistic", "show").stdout)
                expect(all(row["xdp_rcvd_pkts"] > row["rcvd_pkts"] // 2 for row in devices), f"not by AF_XDP: {devices}")
            os.killpg(server.pid, signal.SIGKILL)
            server.communicate()
            began = time.monotonic()
            output, _ = client.communicate(timeout=30)
            expect(client.returncode != 0, "the client ended well although its peer died")
            expect("Failed status 12" in output, f"not the retry error:\n{output}")
            expect(time.monotonic() - began < 20, "it took longer than its retries")
            again = self.lab("pair", "--", "ibv_rc_pingpong", "-g", "1", "-n", "50")
            expect(again.returncode == 0, f"a later pair fails:\n{again.stdout}{again.stderr}")
        finally:
            self.lab("down", "--name", name)

    def peer_stopped(self):
        """A peer's process is stopped for longer than all retries take (2.15 s with perftest's 14 and 7), as by a
        debugger: its host answers for it, and the traffic continues with it. Once it is killed there, its peer is given
        up."""
        name = f"stopped{os.getpid()}"
        up = self.lab("up", "--name", name)
        expect(up.returncode == 0, up.stderr)
        try:
            command = [self.brdma, "lab", "exec", "--name", name]
            writes = ["ib_write_bw", programs.ANY_CLOCK, "-s", "4096", "-D", "8"]
            server = subprocess.Popen([*command, "h1", "--", *writes], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
            self.wait_listening(command, 18515)
            client = subprocess.Popen([*command, "h2", "--", *writes, "10.77.0.1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
            self.wait_counted(name, "h2", "acks_received", 20)
            os.killpg(server.pid, signal.SIGSTOP)
            time.sleep(3)  # unnoticed by the programs
            expect(client.poll() is None, f"the client gave up: {client.stdout.read() if client.poll() is not None else ''}")
            os.killpg(server.pid, signal.SIGCONT)
            output, _ = client.communicate(timeout=60)
            expect(client.returncode == 0, f"the client failed:\n{output}")
            said, _ = server.communicate(timeout=60)
            expect(server.returncode == 0, f"the server failed:\n{said}")
            counted = json.loads(self.lab("exec", "--name", name, "h2", "--", self.brdma, "-j", "statistic", "show").stdout)
            expect(any(row["stopped_replies"] > 0 for row in counted), f"nobody was asked: {counted}")
        finally:
            self.lab("down", "--name", name)

    def wait_counted(self, name, host, counter, least, seconds=20):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            rows = self.lab("exec", "--name", name, host, "--", self.brdma, "-j", "statistic", "show").stdout
            if any(row[counter] >= least for row in (json.loads(rows) if rows.strip() else [])):
                return
            time.sleep(0.05)
        raise Failure(f"{counter} did not come to {least}")

    def wait_listening(self, command, port, seconds=15):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            table = subprocess.run([*command, "h1", "--", "cat", "/proc/net/tcp", "/proc/net/tcp6"], capture_output=True, text=True).stdout
            if any(f":{port:04X} " in line and " 0A " in line for line in table.splitlines()):
                return
            time.sleep(0.02)
        raise Failure(f"nobody listens on {port}")

    def wait_traffic(self, name, seconds=20):
        """Both ends have exchanged messages, by their daemon's counters."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            text = self.lab("exec", "--name", name, "h1", "--", self.brdma, "-j", "statistic", "show").stdout
            values = [int(word.strip(" ,")) for part in text.split('"rdma_recvs":')[1:] for word in [part.split(",")[0].split("}")[0]]]
            if any(v > 20 for v in values):
                return
            time.sleep(0.05)
        raise Failure("no traffic between the two")

    def no_daemon(self):
        done = self.alone("/mnt/bin/brdma run -- ibv_devinfo", environment={"BRDMA_DAEMON": "/nonexistent/brdmad", "BRDMA_LO": "1"})
        expect(done.returncode != 0, "it ended well")
        expect("/nonexistent/brdmad" in done.stderr and "BRDMA_DAEMON" in done.stderr, f"does not say what to do:\n{done.stderr}")

    def port_taken(self):
        # The holder of the port runs the program, so that it ends with it.
        holder = "import socket, subprocess, sys; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 4791)); sys.exit(subprocess.run(sys.argv[1:]).returncode)"
        done = self.alone(f'python3 -c "{holder}" /mnt/bin/brdma run -- ibv_devinfo', environment={"BRDMA_LO": "1"})
        expect(done.returncode != 0, "it ended well")
        expect("4791" in done.stderr and "python3" in done.stderr, f"does not name the port and its holder:\n{done.stderr}")

    def no_network(self):
        done = self.alone("/mnt/bin/brdma run -- ibv_devices", setup="ip link set lo down;")
        expect("no network interface is up" in done.stderr + done.stdout, f"does not say why there is no device:\n{done.stdout}{done.stderr}")

    # Places for the device files: a file system without a free block, and ones without a free inode.
    FULL_RUNTIME = "mount -t tmpfs -o nr_inodes=2 tmpfs /tmp; mkdir /tmp/run; mount -t tmpfs -o size=4k tmpfs /tmp/run; dd if=/dev/zero of=/tmp/run/fill bs=4k count=1 2>/dev/null; export XDG_RUNTIME_DIR=/tmp/run;"
    FULL_SHM = "mount -t tmpfs -o nr_inodes=1 tmpfs /dev/shm;"

    def full_disk(self):
        done = self.alone("/mnt/bin/brdma run -- ibv_devices", setup=self.FULL_RUNTIME + self.FULL_SHM, environment={"BRDMA_LO": "1"})
        for words in ("set XDG_RUNTIME_DIR", "/tmp/run/brdma", "/dev/shm/brdma", "No space left"):
            expect(words in done.stderr, f"does not say what is full and what to do ({words}):\n{done.stdout}{done.stderr}")
        expect("brdma_lo" not in done.stdout, f"shows a device whose files cannot be there:\n{done.stdout}")

    def one_place_left(self):
        done = self.alone("/mnt/bin/brdma run -- ibv_devices", setup=self.FULL_RUNTIME + "mount -t tmpfs tmpfs /dev/shm;", environment={"BRDMA_LO": "1"})
        expect(done.returncode == 0 and "brdma_lo" in done.stdout, f"does not use the place that is left:\n{done.stdout}{done.stderr}")

    def no_such_program(self):
        done = subprocess.run([self.brdma, "run", "--", "no-such-program-here"], capture_output=True, text=True, timeout=10)
        expect(done.returncode != 0 and "no-such-program-here" in done.stderr, f"{done.returncode}: {done.stderr}")

    def misuse(self):
        done = subprocess.run([self.brdma, "lab", "pair", "--loss", "150%", "--", "true"], capture_output=True, text=True, timeout=10)
        expect(done.returncode == 2, f"exit code {done.returncode}, not 2: {done.stderr}")
        done = subprocess.run([self.brdma, "nonsense"], capture_output=True, text=True, timeout=10)
        expect(done.returncode == 2, f"exit code {done.returncode}, not 2")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    cases = Cases(options.build)
    names = ["no_such_program", "misuse", "no_daemon", "port_taken", "no_network", "full_disk", "one_place_left", "peer_dies", "peer_stopped"]
    passed = failed = 0
    for name in names:
        if options.only not in ("", name):
            continue
        try:
            getattr(cases, name)()
            print(f"ok    {name}", flush=True)
            passed += 1
        except (Failure, subprocess.TimeoutExpired) as problem:
            print(f"FAIL  {name}: {problem}", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
