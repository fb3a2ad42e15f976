"""Unmodified programs over `brdma lab pair`, for figures: one run, its output, and runs of several modes turn by
turn."""
import json
import os
import statistics
import subprocess

RESENT = tuple(f"retransmitted_by_{why}" for why in ("ffm", "nak", "ack", "timeout", "probe", "path", "edn", "wait"))


class Pair:
    """One run: counters of both hosts, the switch's, and the client's row of perftest's table."""

    def __init__(self, build, network, program, environment):
        command = [f"{build}/bin/brdma", "lab", "pair", "-j", "--name", f"figure{os.getpid()}", *network, "--", *program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **environment})
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
        report = json.loads(done.stdout)
        self.counters = {host["host"]: host["counters"] for host in report["hosts"]}
        self.output = next(host["output"] for host in report["hosts"] if host["host"] == "h2")
        self.switch = report["switch"]
        self.network = self.switch["network"]

    def row(self, size):
        return next(line.split() for line in self.output.splitlines() if line.split()[:1] == [str(size)])

    def resent(self, host="h2"):
        return sum(self.counters[host].get(name, 0) for name in RESENT)

    def dropped(self):
        """By the switch, faults and queues alike, uplinks included."""
        links = self.switch["hosts"]
        down = sum(host["to_host"][what] for host in links for what in ("lost", "burst_lost", "queue_dropped", "buffer_dropped", "random_dropped"))
        return down + sum(host["from_host"]["queue_dropped"] for host in links)

    def lost_by_machine(self):
        """Packets that the switch itself lost: then the machine is too slow, and the run proves little."""
        return sum(self.switch["switch_trouble"].values())


def turn_by_turn(ways, repetitions, measure):
    """All modes once, then all again: other load of the machine affects them alike. Returns `measure(way, turn)` by
    mode."""
    runs = {way: [] for way in ways}
    for turn in range(1, repetitions + 1):
        for way in ways:
            runs[way].append(measure(way, turn))
    return runs


def spread(values, digits=2):
    """Median (lowest .. highest)."""
    text = f"{statistics.median(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} .. {max(values):.{digits}f})"
