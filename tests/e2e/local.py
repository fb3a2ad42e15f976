#!/usr/bin/env python3
"""Two processes of one host: data is passed by local reference, or sent if that is not allowed. Last line: `N passed, M
failed`.

Each runs on the loopback of a network namespace of its own. `--compare` tests nothing: it prints how fast data of some
sizes moves, by reference and sent in turn, as medians in MB/s and their ratio.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time

import cases

SKIPPED = 77
SIZE = 65536


class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


class Cases:
    def __init__(self, build):
        self.bin = os.path.join(build, "bin")
        self.brdma = os.path.join(self.bin, "brdma")
        self.environment = {**os.environ, "BRDMA_LO": "1", "BRDMA_IDLE_SECONDS": "60"}
        self.running = []

    # --- helpers ---
    def start(self, program, prefix=(), **settings):
        process = subprocess.Popen([*prefix, self.brdma, "run", "--", *program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**self.environment, **settings}, start_new_session=True)
        self.running.append(process)
        return process

    def wait_listening(self, port, seconds=20):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            lines = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}")]
            if any(len(line) > 3 and line[1].endswith(f":{port:04X}") and line[3] == "0A" for line in lines):
                return
            time.sleep(0.02)
        raise Failure(f"nobody listens on {port}")

    def rows(self, *words):
        done = subprocess.run([self.brdma, "-j", *words], capture_output=True, text=True, env=self.environment, timeout=30)
        expect(done.returncode == 0, done.stderr)
        return json.loads(done.stdout)

    def ways(self, *expected, seconds=20):
        """Waits until data of the two queue pairs moves in the expected mode, after the agreement on bitmap mode; in
        the end checks it. If data is sent, waits for enough of it to know that it is not passed by reference later."""
        before, ways, until = self.counters().get("sent_data_pkts", 0), [], time.monotonic() + seconds
        while time.monotonic() < until:
            pairs = [row for row in self.rows("resource", "show", "qp") if row.get("mode") == "bitmap" and row["state"] in ("RTR", "RTS")]
            ways = sorted(row["data"] for row in pairs) or ways
            if ways == sorted(expected) and ("fetched" in expected or self.counters()["sent_data_pkts"] > before + 10_000):
                break
            time.sleep(0.05)
        return ways

    def expect_ways(self, *expected):
        ways = self.ways(*expected)
        expect(ways == sorted(expected), f"{ways}, not {expected}")

    def counters(self):
        sums = {}
        for row in self.rows("statistic", "show"):
            for key, value in row.items():
                if isinstance(value, int):
                    sums[key] = sums.get(key, 0) + value
        return sums

    def pair(self, program, prefixes=((), ()), settings=({}, {})):
        """Starts the two, with a connection that lasts; the caller inspects it, then both are ended."""
        server = self.start(program, prefixes[0], **settings[0])
        self.wait_listening(18515)
        client = self.start([*program, "127.0.0.1"], prefixes[1], **settings[1])
        return server, client

    def finish(self, *processes, measuring=(), seconds=60):
        """All end well. The duration of measuring programs is over at once."""
        for process in measuring:
            cases.end_duration(process.pid)
        for process in processes:
            output, _ = process.communicate(timeout=seconds)
            expect(process.returncode == 0, f"exit code {process.returncode}:\n{output}")

    def end_all(self):
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        self.running = []

    @staticmethod
    def bandwidth(kind):
        """Continues until it is ended."""
        return [f"ib_{kind}_bw", "-d", "brdma_lo", "-s", str(SIZE), "-F", "-D", "120"]

    # --- cases ---
    def fetched(self):
        """WRITEs, SENDs and READs between two programs of one user."""
        for kind in ("write", "send", "read"):
            before = self.counters().get("fetched_bytes", 0) if kind != "write" else 0
            server, client = self.pair(self.bandwidth(kind))
            self.expect_ways("fetched", "fetched")
            moved = self.counters()["fetched_bytes"]
            expect(moved > before, f"{kind}: nothing is fetched")
            self.finish(server, client, measuring=(client, server) if kind == "send" else (client,))

    def integrity(self):
        """Every byte of every kind of message, mixed."""
        integrity = [os.path.join(self.bin, "verbs_integrity"), "-d", "brdma_lo", "-p", "18515", "-n", "40"]
        server = self.start(integrity)
        self.wait_listening(18515)
        client = self.start([*integrity, "127.0.0.1"])
        self.finish(server, client)

    def switched_off(self):
        before = self.counters().get("fetched_pkts", 0)
        for side in range(2):
            settings = [{}, {}]
            settings[side] = {"BRDMA_LOCAL": "0"}
            server, client = self.pair(self.bandwidth("write"), settings=settings)
            # The server has nothing to send: if only the client is off, the server gets no reason to ask.
            self.expect_ways("sent: not stated" if side == 0 else "sent: nothing large yet", "sent: off")
            expect(self.counters().get("fetched_pkts", 0) == before, "something is fetched")
            self.finish(server, client, measuring=(client,))

    def another_user(self):
        """Served by one brdmad: data is sent, and both report the reason."""
        if os.geteuid() != 0 or os.environ.get("BRDMA_MAPPED_ROOT"):
            return SKIPPED
        brdmad = os.path.join(self.bin, "brdmad")
        ready, ready_end = os.pipe()
        self.running.append(subprocess.Popen([brdmad, "--system", "--foreground", "--idle-seconds", "0", "--ready-fd", str(ready_end)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment, pass_fds=(ready_end,), start_new_session=True))
        os.close(ready_end)
        expect(os.read(ready, 1) != b"", "brdmad does not start")
        nobody = ("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR")
        server, client = self.pair(self.bandwidth("write"), prefixes=((), nobody))
        self.expect_ways("sent: other user", "sent: other user")
        self.finish(server, client, measuring=(client,))
        return None

    def a_killed_peer(self):
        """On either side: the other one ends with the retry error or still waits, and the next two programs pass data
        by reference."""
        for victim in range(2):
            processes = self.pair(self.bandwidth("write"))
            self.expect_ways("fetched", "fetched")
            os.killpg(processes[victim].pid, signal.SIGKILL)
            processes[victim].communicate()
            if victim == 0:
                output, _ = processes[1].communicate(timeout=60)
                expect(processes[1].returncode != 0, f"the client ended well although its peer died:\n{output}")
            self.end_all()
        server, client = self.pair(self.bandwidth("write"))
        self.expect_ways("fetched", "fetched")
        self.finish(server, client, measuring=(client,))


    def compare(self, rounds=3):
        print(f"{'':>14} {'fetched':>9} {'sent':>9} ratio   (MB/s, medians of {rounds})")
        for kind in ("write", "send", "read"):
            for size in (4096, 8192, 16384, 65536, 1 << 20):
                measured = {"1": [], "0": []}
                for _ in range(rounds):
                    for local in measured:
                        program = [f"ib_{kind}_bw", "-d", "brdma_lo", "-s", str(size), "-F", "-D", "2", "-f", "0"]
                        settings = {"BRDMA_LOCAL": local, "BRDMA_LOCAL_THRESHOLD": "1"}
                        server, client = self.pair(program, settings=(settings, settings))
                        output, _ = client.communicate(timeout=60)
                        server.communicate(timeout=60)
                        rows = [line.split() for line in output.splitlines() if line.split()[:1] == [str(size)]]
                        expect(rows, f"no result:\n{output}")
                        measured[local].append(float(rows[0][3]) * 1.048576)
                medians = [sorted(values)[len(values) // 2] for values in measured.values()]
                print(f"{kind:>5} {size:>8} {medians[0]:>9.0f} {medians[1]:>9.0f} {medians[0] / medians[1]:>5.2f}", flush=True)


NAMES = ["fetched", "integrity", "switched_off", "another_user", "a_killed_peer"]


def inside(options):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if options.compare:
        Cases(options.build).compare()
        return 0
    passed = failed = skipped = 0
    for name in NAMES:
        if options.only not in ("", name):
            continue
        local = Cases(options.build)
        try:
            if getattr(local, name)() == SKIPPED:
                skipped += 1
                print(f"SKIP {name}: needs root")
            else:
                passed += 1
                print(f"PASS {name}")
        except (Failure, subprocess.TimeoutExpired) as failure:
            failed += 1
            print(f"FAIL {name}: {failure}")
        finally:
            local.end_all()
            subprocess.run([os.path.join(local.bin, "brdmad"), "--stop", "--force"], capture_output=True, check=False)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else SKIPPED if skipped and not passed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="", choices=["", *NAMES])
    parser.add_argument("--compare", action="store_true", help="measure instead")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    if options.inside:
        sys.exit(inside(options))
    root = os.geteuid() == 0
    namespaces = ["--net", "--mount"] if root else ["--user", "--map-root-user", "--net", "--mount"]
    environment = os.environ if root else {**os.environ, "BRDMA_MAPPED_ROOT": "1"}
    sys.exit(subprocess.run(["unshare", *namespaces, "--kill-child", sys.executable, __file__, "--inside", "--build", options.build, "--only", options.only, *(["--compare"] if options.compare else [])], env=environment).returncode)


if __name__ == "__main__":
    main()
