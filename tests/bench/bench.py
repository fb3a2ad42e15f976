#!/usr/bin/env python3
"""Speed of unmodified perftest over this library, as ratios to yardsticks of the same run (see README.md here)."""

import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import time


class Lab:
    """Two hosts; torn down at the end whatever happens."""

    def __init__(self, build, network=()):
        self.brdma = os.path.join(build, "bin", "brdma")
        self.name = f"bench{os.getpid()}"
        self.network = list(network)

    def __enter__(self):
        subprocess.run([self.brdma, "lab", "up", "--name", self.name, "--hosts", "2", *self.network], check=True, timeout=60, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        subprocess.run([self.brdma, "lab", "down", "--name", self.name], timeout=60, stdout=subprocess.DEVNULL)

    def command(self, host, program, environment=None):
        prefix = ["env", *(f"{k}={v}" for k, v in environment.items())] if environment else []
        return [self.brdma, "lab", "exec", "--name", self.name, host, "--", *prefix, *program]

    def run(self, host, program, seconds=120, **kwargs):
        done = subprocess.run(self.command(host, program, **kwargs), capture_output=True, text=True, timeout=seconds)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(program)} on {host}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def pair(self, program, port, seconds=120, environment=None, server=None):
        """Server on h1, client (with h1's address) on h2; the client's output."""
        first = subprocess.Popen(self.command("h1", server or program, environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            self.wait_listening(port)
            output = self.run("h2", [*program, "10.77.0.1"], seconds, environment=environment)
            first.communicate(timeout=20)
            return output
        finally:
            if first.poll() is None:
                first.kill()
                first.communicate()

    def wait_listening(self, port, seconds=15):
        until = time.monotonic() + seconds
        wanted = f":{port:04X} "
        while time.monotonic() < until:
            table = self.run("h1", ["cat", "/proc/net/tcp", "/proc/net/tcp6"])
            if any(wanted in line and " 0A " in line for line in table.splitlines()):
                return
            time.sleep(0.02)
        raise RuntimeError(f"nobody listens on port {port}")

    def set_mtu(self, mtu):
        for host in ("h1", "h2"):
            links = self.run(host, ["ip", "-o", "link", "show", "up"])
            for name in re.findall(r"^\d+: ([^:@]+)", links, re.M):
                if name != "lo":
                    self.run(host, ["ip", "link", "set", "dev", name, "mtu", str(mtu)])


def perftest_row(output):
    rows = [line.split() for line in output.splitlines() if re.match(r"^ \d+ ", line)]
    if not rows:
        raise RuntimeError("no result row in:\n" + output)
    return rows[-1]


class Bench:
    def __init__(self, options):
        self.options = options
        self.raw = os.path.join(options.build, "bin", "raw_udp")
        self.rows = []

    def add(self, group, name, unit, values):
        self.rows.append({"group": group, "name": name, "unit": unit, "median": statistics.median(values), "min": min(values), "max": max(values), "runs": len(values)})

    def median(self, group, name):
        return next(r["median"] for r in self.rows if (r["group"], r["name"]) == (group, name))

    def gbit(self, lab, program, **kwargs):
        return float(perftest_row(lab.pair([*program, "--report_gbits"], 18515, **kwargs))[3])

    def tcp(self, lab):
        server = subprocess.Popen(lab.command("h1", ["iperf3", "-s", "-1"]), stdout=subprocess.DEVNULL)
        try:
            lab.wait_listening(5201)
            out = lab.run("h2", ["iperf3", "-c", "10.77.0.1", "-t", "2", "-J"])
            server.wait(timeout=20)
            return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 1e9
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()

    def raw_server(self, lab):
        return subprocess.Popen(lab.command("h1", [self.raw, "serve", "5999"]))

    def raw_value(self, lab, *arguments):
        mode, *rest = arguments
        return float(lab.run("h2", [self.raw, mode, "10.77.0.1", "5999", *map(str, rest)]).split()[1])

    def bandwidth(self, lab, group, mtu, segments):
        tcp, ours, read, send, pure, work = [], [], [], [], [], []
        for _ in range(self.options.rounds):
            tcp.append(self.tcp(lab))
            count = "40000"
            ours.append(self.gbit(lab, ["ib_write_bw", "-s", "65536", "-m", str(mtu), "-n", count]))
            read.append(self.gbit(lab, ["ib_read_bw", "-s", "65536", "-m", str(mtu), "-n", "20000"]))
            send.append(self.gbit(lab, ["ib_send_bw", "-s", "65536", "-m", str(mtu), "-n", "20000"]))
            server = self.raw_server(lab)
            try:
                pure.append(self.raw_value(lab, "bulk", mtu, segments, 0, 1))
                work.append(self.raw_value(lab, "bulk", mtu, segments, 1, 1))
            finally:
                lab.run("h2", [self.raw, "stop", "10.77.0.1", "5999"])
                server.wait(timeout=20)
        for name, values in (("iperf3 TCP", tcp), ("ib_write_bw 64 KiB", ours), ("ib_read_bw 64 KiB", read), ("ib_send_bw 64 KiB", send), ("raw UDP GSO/GRO", pure), ("raw UDP GSO/GRO with a transport's work", work)):
            self.add(group, name, "Gbit/s", values)

    def latency(self, lab):
        raw, write, send, read = [], [], [], []
        for _ in range(self.options.rounds):
            server = self.raw_server(lab)
            try:
                raw.append(self.raw_value(lab, "pingpong", 64, 20000))
            finally:
                lab.run("h2", [self.raw, "stop", "10.77.0.1", "5999"])
                server.wait(timeout=20)
            for tool, values in (("ib_write_lat", write), ("ib_send_lat", send), ("ib_read_lat", read)):
                values.append(float(perftest_row(lab.pair([tool, "-s", "8", "-n", "20000"], 18515))[4]))
        self.add("latency 8 B", "raw UDP polling ping-pong, half round trip", "us", raw)
        self.add("latency 8 B", "ib_write_lat typical", "us", write)
        self.add("latency 8 B", "ib_send_lat typical", "us", send)
        self.add("latency 8 B", "ib_read_lat typical (whole round trip)", "us", read)

    def message_rate(self, lab):
        gso, mmsg, lists, single = [], [], [], []
        for _ in range(self.options.rounds):
            server = self.raw_server(lab)
            try:
                gso.append(self.raw_value(lab, "small", 64, "gso", 1) / 1e6)
                mmsg.append(self.raw_value(lab, "small", 64, "mmsg", 1) / 1e6)
            finally:
                lab.run("h2", [self.raw, "stop", "10.77.0.1", "5999"])
                server.wait(timeout=20)
            lists.append(float(perftest_row(lab.pair(["ib_write_bw", "-s", "64", "-l", "64", "-t", "512", "-n", "1024000"], 18515))[4]))
            single.append(float(perftest_row(lab.pair(["ib_write_bw", "-s", "64", "-n", "500000"], 18515))[4]))
        self.add("64-byte WRITEs", "posting lists of 64", "M/s", lists)
        self.add("64-byte WRITEs", "single posts", "M/s", single)
        self.add("64-byte WRITEs", "raw UDP GSO", "M/s", gso)
        self.add("64-byte WRITEs", "raw UDP sendmmsg", "M/s", mmsg)

    def goodput(self):
        for mode in ("bitmap", "gobackn"):
            for loss in (0, 1, 5):
                network = ["--delay", "50us", "--rate", self.options.rate, "--mtu", "4096", "--queue", "4mb", "--seed", "3", *(["--loss", f"{loss}%"] if loss else [])]
                count = "3000" if mode == "bitmap" or loss == 0 else "400"
                with Lab(self.options.build, network) as lab:
                    values = [self.gbit(lab, ["ib_write_bw", "-s", "65536", "-n", count], environment={"BRDMA_RECOVERY": mode}) for _ in range(self.options.rounds)]
                self.add("goodput", f"{mode}, {loss} % loss", "Gbit/s", values)

    def memory(self, lab):
        words = lab.run("h1", [os.path.join(self.options.build, "bin", "idle_qps"), "2000"]).split()
        self.add("memory", "idle RC queue pair, connected", "bytes", [float(words[5])])

    def write(self):
        folder = os.path.join(self.options.build, "bench")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "results.csv"), "w", newline="") as out:
            writer = csv.DictWriter(out, fieldnames=list(self.rows[0]))
            writer.writeheader()
            writer.writerows(self.rows)
        for group in dict.fromkeys(r["group"] for r in self.rows):
            print(f"\n{group}")
            for r in (r for r in self.rows if r["group"] == group):
                print(f"  {r['name']:<44} {r['median']:>10.3f} {r['unit']:<7} ({r['min']:.3f} .. {r['max']:.3f}, {r['runs']} runs)")

    def goals(self):
        """Each goal with its figure; the benchmark reports, it does not judge by exit code."""
        print("\ngoals")
        def line(text, value, goal, at_most=False):
            met = value <= goal if at_most else value >= goal
            print(f"  {text:<58} {value:>6.2f}  goal {'<=' if at_most else '>='} {goal}  {'met' if met else 'NOT MET'}")
        groups = {r["group"] for r in self.rows}
        for group, goal in (("MTU 4096", 2.0), ("MTU 1024", 1.5)):
            if group in groups:
                ours = self.median(group, "ib_write_bw 64 KiB")
                line(f"ib_write_bw 64 KiB over TCP, {group}", ours / self.median(group, "iperf3 TCP"), goal)
                print(f"  {'  over raw UDP / with the same work':<58} {ours / self.median(group, 'raw UDP GSO/GRO'):>6.2f} / {ours / self.median(group, 'raw UDP GSO/GRO with a transport' + chr(39) + 's work'):.2f}")
        if "latency 8 B" in groups:
            line("ib_write_lat 8 B over raw UDP half round trip", self.median("latency 8 B", "ib_write_lat typical") / self.median("latency 8 B", "raw UDP polling ping-pong, half round trip"), 1.6, at_most=True)
        if "goodput" in groups:
            base = self.median("goodput", "bitmap, 0 % loss")
            line("goodput at 1 % loss over lossless, bitmap", self.median("goodput", "bitmap, 1 % loss") / base, 0.95)
            line("goodput at 5 % loss over lossless, bitmap", self.median("goodput", "bitmap, 5 % loss") / base, 0.85)
            for loss in (1, 5):
                print(f"  {f'  the same with go-back-N, {loss} %':<58} {self.median('goodput', f'gobackn, {loss} % loss') / self.median('goodput', 'gobackn, 0 % loss'):>6.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", default="500mbit", help="link rate of the goodput table, below what the machine can do")
    parser.add_argument("--only", default="bandwidth latency rate goodput memory")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    bench = Bench(options)
    wanted = options.only.split()
    with Lab(options.build) as lab:
        if "memory" in wanted:
            bench.memory(lab)
        if "latency" in wanted:
            bench.latency(lab)
        if "rate" in wanted:
            bench.message_rate(lab)
        if "bandwidth" in wanted:
            bench.bandwidth(lab, "MTU 4096", 4096, 15)
            lab.set_mtu(1500)
            bench.bandwidth(lab, "MTU 1024", 1024, 62)
    if "goodput" in wanted:
        bench.goodput()
    bench.write()
    bench.goals()
    return 0


if __name__ == "__main__":
    sys.exit(main())
