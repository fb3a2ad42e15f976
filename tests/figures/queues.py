"""A table of many flows behind one queue:   queues.py POINTS.tsv DIRECTORY

Three runs a point, in the order of tests/figures/queues; their RTTs differ a little.
"""
import csv
import statistics
import sys

from chart import table

RUNS = 3
# Percent dropped in the first second, and after it; Jain's index; share of the rate in payload, of 0.976.
GOALS = {"first": 1, "later": 0.1, "jain": 0.9, "share": 0.927}


def size(bytes_):
    return f"{bytes_ / 1000:.0f} KB" if bytes_ < 1_000_000 else f"{bytes_ / 1e6:.3g} MB"


def network_of(row):
    return dict(pair.split("=") for pair in row["network"].split(";"))


def queue_of(row):
    return int(network_of(row)["queue"].rstrip("b"))


def absences(row):
    every, most = network_of(row)["absent"].split(",") if "absent" in network_of(row) else ("", "")
    return f"up to {most} ms, every {every} ms" if every else "none"


def cell(runs, name, digits):
    """The mean; in brackets the run that is farthest from the goal; bold where the mean misses it."""
    values = [float(row[name]) for row in runs]
    low = name in ("first", "later")
    mean, worst = statistics.mean(values), max(values) if low else min(values)
    misses = mean > GOALS[name] if low else mean < GOALS[name]
    mark = "**" if misses else ""
    return f"{mark}{mean:.{digits}f}{mark} ({worst:.{digits}f})"


def main(points, directory):
    with open(points, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    if not rows or len(rows) % RUNS:
        sys.exit(f"queues: {len(rows)} rows, which are not {RUNS} a point")
    body = []
    for at in range(0, len(rows), RUNS):
        runs = rows[at:at + RUNS]
        first = runs[0]
        if len({(row["rate_gbit"], row["queue_bdp"], row["flows"], absences(row)) for row in runs}) != 1:
            sys.exit(f"queues: rows {at + 1} to {at + RUNS} are not one point")
        reached = max(float(row["reached_ms"]) for row in runs)
        body.append([f"{first['rate_gbit']} Gbit/s, {first['rtt_us']} us", f"{size(queue_of(first))} ({first['queue_bdp']})", first["flows"], absences(first),
                     cell(runs, "first", 2), cell(runs, "later", 2), cell(runs, "jain", 2), cell(runs, "share", 3), "never" if reached < 0 else f"{reached:.0f} ms"])
    with open(f"{directory}/queues-tables.md", "w", encoding="utf-8") as file:
        file.write(table(["rate, RTT", "queue (BDPs)", "flows", "hosts without a core", "dropped in the first second, %", "after it, %", "Jain's index", "share of the rate", "0.9 of it after"], body))


main(*sys.argv[1:])
