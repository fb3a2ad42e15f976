"""Pictures and tables of how soon traffic leaves a link:   reroute.py POINTS.tsv DIRECTORY"""
import csv
import statistics
import sys

from chart import Axis, figure, table
from same_network import TOLERANCE, checked, same_networks, same_simulated

EVENTS = {"cut": "the link is cut", "slow": "the link carries a twentieth"}
NETWORK = ("Simulator: links 1 Gbit/s, one run. Lab on one machine of two processors: links 200 Mbit/s, medians of three runs. Path MTU 4096. "
           "none: the rate never fell below four fifths.")


WATCHED_MS = 3000


def check(rows):
    """Simulated: before the event all modes carry the same."""
    rows = [row for row in rows if row["where"] == "simulator"]
    same_networks(rows, ["event", "delay_ms"])
    for event, delay in {(row["event"], row["delay_ms"]) for row in rows}:
        same_simulated({row["way"]: row["before_mbps"] for row in rows if (row["event"], row["delay_ms"]) == (event, delay)}, tolerance=TOLERANCE)


def shown(value):
    return f"{value:.0f}" if value <= WATCHED_MS else "not within 3 s"


def spread(rows, name):
    """-1: it did not happen during the observation."""
    if any(row[name] is None for row in rows):  # measured before the column existed
        return ""
    times = name.endswith("_ms")
    values = sorted(WATCHED_MS + 1 if times and value < 0 else value for value in (float(row[name]) for row in rows))
    show = shown if times else "{:.0f}".format
    middle = statistics.median(values)
    return show(middle) if values[0] == values[-1] else f"{show(middle)} ({show(values[0])} .. {show(values[-1])})"


def main(points, directory):
    with open(points) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    check(rows)
    kinds = list(dict.fromkeys((row["where"], row["way"]) for row in rows))
    delays = sorted({int(row["delay_ms"]) for row in rows})

    def those(where, way, event, delay):
        return [row for row in rows if (row["where"], row["way"], row["event"], int(row["delay_ms"])) == (where, way, event, delay)]

    panels = []
    for event, words in EVENTS.items():
        for name, label in (("routes_ms", "routes installed"), ("back_ms", "traffic back")):
            series = []
            for where, way in kinds:
                found = [(delay, [float(row[name]) for row in those(where, way, event, delay)]) for delay in delays]
                series.append((f"{where}, {way}", [(delay, statistics.median(values)) for delay, values in found if values and min(values) >= 0]))
            panels.append((f"{words}: {label}", series))
    figure(f"{directory}/reroute.svg", "Until traffic has left a link", NETWORK, Axis("delay of the short path, one way, ms", delays, steps=True),
           Axis("after the event, ms", [1, 10, 100, 1000, 3000], log=True, none="none"), panels, direct=False)
    with open(f"{directory}/reroute-tables.md", "w") as file:
        for event, words in EVENTS.items():
            file.write(f"### {words[0].upper()}{words[1:]}: ms after it (median, lowest .. highest)\n")
            head = ["", "delay", "Mbit/s before", "routes installed", "traffic back", "traffic missed", "packets lost", "sent again", "Mbit/s in the 3 s after"]
            names = ("before_mbps", "routes_ms", "back_ms", "missed_ms", "lost", "resent", "after_mbps")
            body = [[f"{where}, {way}", f"{delay} ms", *(spread(found, name) for name in names)]
                    for where, way in kinds for delay in delays if (found := those(where, way, event, delay))]
            file.write(table(head, body) + "\n")


if __name__ == "__main__":
    checked(main, sys.argv[1], sys.argv[2])
