"""Picture and table of one receiver's goodput while another one is congested:   receivers.py POINTS.tsv DIRECTORY"""
import csv
import statistics
import sys

from chart import Axis, figure, table
from same_network import TOLERANCE, checked, same_networks, same_simulated

EVENTS = {"link": "the second one's link can do a twentieth", "host": "the second one stands still"}
LISTS = {"off": "without the managed list", "on": "with the managed list"}
PLACES = {"simulator": "simulated", "lab": "in the lab"}
NETWORK = "Simulator; shared link 1 Gbit/s, 5 ms each way; path MTU 4096; one run, a point for each 0.2 s."


def ways_of(rows):
    return list(dict.fromkeys(row["way"] for row in rows))


def check(rows):
    """Simulated: before the disturbance, and when all flows have settled, all modes carry the same, with the managed
    list and without."""
    rows = [row for row in rows if row["where"] == "simulator"]
    same_networks(rows, ["event", "s"], ("way", "managed"))
    first = min(float(row["s"]) for row in rows if row["disturbed"] == "1")
    settled = max((row["s"] for row in rows if float(row["s"]) < first), key=float)
    for event in {row["event"] for row in rows}:
        same_simulated({f"{row['way']}, {row['managed']}": str(float(row["first_mbps"]) + float(row["second_mbps"]))
                        for row in rows if (row["event"], row["s"]) == (event, settled)}, tolerance=TOLERANCE)


def those(rows, way, managed, event):
    return [row for row in rows if (row["way"], row["managed"], row["event"]) == (way, managed, event)]


def summary(rows, event):
    """The table of the time of the disturbance: means, of all runs; packets are those of a run."""
    body = []
    for way in ways_of(rows):
        alone = [float(row["first_mbps"]) for row in those(rows, way, "off", "alone") if row["disturbed"] == "1"]
        runs, alone_mean = len(alone) / len({row["s"] for row in rows if row["disturbed"] == "1"}), statistics.mean(alone)
        for managed in LISTS:
            found = [row for row in those(rows, way, managed, event) if row["disturbed"] == "1"]
            first, second = (statistics.mean(float(row[f"{name}_mbps"]) for row in found) for name in ("first", "second"))
            least = min(float(row["first_mbps"]) for row in found)
            lost, again = (sum(int(row[name]) for row in found) / runs for name in ("dropped", "resent"))
            body.append([way, managed, f"{alone_mean:.0f}", f"{first:.0f}", f"{least:.0f}", f"{second:.0f}", f"{first / (alone_mean - second):.3f}", f"{lost:.0f}", f"{again:.0f}"])
    head = ["", "managed list", "first, alone", "first", "its least in 0.2 s", "second", "first, of what the second leaves", "dropped", "sent again"]
    return table(head, body)


def main(points, directory):
    with open(points) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    check(rows)
    times = sorted({float(row["s"]) for row in rows})
    simulated = [row for row in rows if row["where"] == "simulator"]
    panels = []
    for managed, words in LISTS.items():
        series = [(way, [(float(row["s"]), float(row["first_mbps"])) for row in those(simulated, way, managed, "link")]) for way in ways_of(simulated)]
        panels.append((words, series))
    figure(f"{directory}/receivers.svg", "The first receiver, while the second one's link carries a twentieth (2 to 6 s)", NETWORK,
           Axis("time, s", [0, *(at for at in times if at == int(at))]), Axis("goodput of the first receiver, Mbit/s", [0, 250, 500, 750, 1000]), panels, direct=False)
    with open(f"{directory}/receivers-tables.md", "w") as file:
        for where, place in PLACES.items():
            for event, words in EVENTS.items():
                here = [row for row in rows if row["where"] == where]
                if here:
                    file.write(f"### {words[0].upper()}{words[1:]}, {place}: Mbit/s, means of 4 s\n{summary(here, event)}\n")


if __name__ == "__main__":
    checked(main, sys.argv[1], sys.argv[2])
