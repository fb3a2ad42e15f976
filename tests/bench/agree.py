#!/usr/bin/env python3
"""`brdma perf` beside perftest where both measure the same: in turn, on one pair of hosts. A table of medians, of each one's
spread and of the ratio; exit code 1 if a ratio is beyond noise: outside both of 0.8 to 1.25 and of what perftest's own
rounds differ by.

    tests/bench/agree.py [--build DIR] [--rounds N]
"""
import argparse
import json
import os
import statistics
import sys

from hosts import Lab

PERF_PORT, PERFTEST_PORT = 18520, 18515
NEAR = 1.25
MIB = 1.048576


def rows(output, size):
    found = [line.split() for line in output.splitlines() if line.split()[:1] == [str(size)]]
    if not found:
        raise RuntimeError(f"no result of {size} bytes: {output[-300:]}")
    return [float(value) for value in found[0]]


def perftest(lab, tool, size, count, column):
    client, _ = lab.pair([tool, "-F", "-s", size, "-n", count], PERFTEST_PORT)
    return rows(client.output, size)[column]


def ours(lab, operation, mode, size, count):
    words = [lab.brdma, "perf", operation, mode]
    client, _ = lab.pair([*words, "10.77.0.1", "-s", str(size), "-n", str(count), "-j"], PERF_PORT, server=words)
    return json.loads(client.output)


# Name and unit; ours; perftest's.
POINTS = [
    ("ib_write_bw 64K, MB/s", lambda lab: ours(lab, "write", "bw", 65536, 10000)["goodput"]["whole_run"], lambda lab: perftest(lab, "ib_write_bw", 65536, 10000, 3) * MIB),
    ("ib_send_bw 64K, MB/s", lambda lab: ours(lab, "send", "bw", 65536, 10000)["goodput"]["whole_run"], lambda lab: perftest(lab, "ib_send_bw", 65536, 10000, 3) * MIB),
    ("ib_read_bw 64K, MB/s", lambda lab: ours(lab, "read", "bw", 65536, 10000)["goodput"]["whole_run"], lambda lab: perftest(lab, "ib_read_bw", 65536, 10000, 3) * MIB),
    ("ib_send_lat 64, us, median", lambda lab: ours(lab, "send", "lat", 64, 20000)["latency"]["percentiles"][0]["us"], lambda lab: perftest(lab, "ib_send_lat", 64, 20000, 4)),
    ("ib_read_lat 64, us, median", lambda lab: ours(lab, "read", "lat", 64, 20000)["latency"]["percentiles"][0]["us"], lambda lab: perftest(lab, "ib_read_lat", 64, 20000, 4)),
]


def within_noise(own, other):
    """Of two lists of rounds."""
    ratio = statistics.median(own) / statistics.median(other)
    spread = max(other) / min(other)
    return 1 / NEAR <= ratio <= NEAR or 1 / spread <= ratio <= spread


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    found = {name: ([], []) for name, *_ in POINTS}
    with Lab(os.path.abspath(options.build)) as lab:
        for _ in range(options.rounds):
            for name, own, other in POINTS:
                found[name][0].append(own(lab))
                found[name][1].append(other(lab))
    beyond = 0
    print(f"{'':28} {'brdma perf':>26} {'perftest':>26} ratio")
    for name, sides in found.items():
        cells = [f"{statistics.median(side):.1f} ({min(side):.1f} .. {max(side):.1f})" for side in sides]
        agree = within_noise(*sides)
        beyond += not agree
        print(f"{name:28} {cells[0]:>26} {cells[1]:>26} {statistics.median(sides[0]) / statistics.median(sides[1]):5.2f}{'' if agree else '  beyond noise'}")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
