"""Pictures and tables of congestion_figures' points:   congestion.py POINTS.tsv DIRECTORY"""
import csv
import statistics
import sys

from chart import Axis, figure, table
from same_network import Difference, TOLERANCE, checked, same_networks, same_simulated

PLACES = {"dc": "data centre, 20 us", "wan": "10 ms each way"}
NETWORK = "Simulator; port 10 Gbit/s, queue 1 MB (data centre) and 16 MB (10 ms); path MTU 4096; medians of three seeds."
NO_REACTION = " unknown: the queue was long before the second half of the flows began. No point: it never shrinks, or stays below 64 KB."
ALONE, FLOWS = "1", ["2", "4", "8", "16"]


class Point:
    """One point of all seeds."""

    def __init__(self, rows):
        self.rows = rows

    def values(self, column):
        return sorted(float(row[column]) for row in self.rows if row[column] != "-")

    def middle(self, column):
        values = self.values(column)
        return statistics.median(values) if values else None

    # The median, and the range of the seeds: "0.95 (0.94..0.96)"; "-": in none of them, "2 of 3": in so many.
    def cell(self, column, digits):
        values = [f"{value:.{digits}f}" for value in self.values(column)]
        if not values:
            return "-"
        text = f"{self.middle(column):.{digits}f}"
        if values[0] != values[-1]:
            text += f" ({values[0]}..{values[-1]})"
        return text if len(values) == len(self.rows) else text + f", {len(values)} of {len(self.rows)}"


def points_of(rows):
    points = {}
    for row in rows:
        points.setdefault((row["place"], row["way"], row["flows"]), []).append(row)
    return {key: Point(rows) for key, rows in points.items()}


def draw(points, ways, directory):
    def lines(place, column):
        unit = {"reaction_us": 1000, "queue_p99_kb": 1024}.get(column, 1)
        middles = {(way, each): points[place, way, each].middle(column) for way in ways for each in FLOWS}
        return [(way, [(float(each), middles[way, each] / unit) for each in FLOWS if middles[way, each] is not None]) for way in ways]

    flows = Axis("flows through the port, number", [float(each) for each in FLOWS], steps=True)
    for name, title, column, axis, note in (
            ("reaction", "From congestion to reaction", "reaction_us", Axis("until the queue shrinks, ms", [0.01, 0.1, 1, 10, 100], log=True, none="unknown"), NO_REACTION),
            ("queue", "Queue, 99th percentile", "queue_p99_kb", Axis("queue, MB", [0.01, 0.1, 1, 10, 100], log=True), ""),
            ("throughput", "Throughput", "share", Axis("share of the bottleneck", [0, 0.25, 0.5, 0.75, 1], high=1.1), ""),
            ("fairness", "Fairness", "jain", Axis("Jain's index, 1 = equal", [0, 0.25, 0.5, 0.75, 1], high=1.05), "")):
        figure(f"{directory}/congestion-{name}.svg", title, NETWORK + note, flows, axis,
               [(label, lines(place, column)) for place, label in PLACES.items()])


def tables(points, ways, directory):
    with open(f"{directory}/congestion-tables.md", "w") as file:
        file.write("Median of three seeds, and in brackets from where to where they lie.\n\n")
        for place, label in PLACES.items():
            for title, columns in (
                    ("reaction, us", [("reaction_us", 0)]),
                    ("queue, KB: median / 99th percentile / longest", [("queue_p50_kb", 0), ("queue_p99_kb", 0), ("queue_most_kb", 0)]),
                    ("throughput, of the bottleneck / Jain's index", [("share", 3), ("jain", 3)]),
                    ("packets dropped / sent again", [("dropped", 0), ("resent", 0)])):
                file.write(f"### {label}: {title}\n")
                cells = lambda way: [" / ".join(points[place, way, each].cell(*column) for column in columns) for each in FLOWS]
                file.write(table(["flows", *FLOWS], [[way, *cells(way)] for way in ways]) + "\n")


def check(rows):
    """The networks are the same except for the router's marks and their translation. One WRITE at a time is no
    congestion: there all modes carry the same."""
    same_networks(rows, ["seed", "place", "flows"], compared=["ecn", "ecn-to-rtt"])
    for place in PLACES:
        alone = [row for row in rows if (row["place"], row["flows"]) == (place, ALONE)]
        if any(row["dropped"] != "0" for row in alone):
            raise Difference(f"one WRITE at a time lost packets ({place})")
        for seed in {row["seed"] for row in alone}:
            same_simulated({row["way"]: row["share"] for row in alone if row["seed"] == seed}, tolerance=TOLERANCE)


def main(points, directory):
    with open(points) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    check(rows)
    ways = list(dict.fromkeys(row["way"] for row in rows))
    draw(points_of(rows), ways, directory)
    tables(points_of(rows), ways, directory)


if __name__ == "__main__":
    checked(main, sys.argv[1], sys.argv[2])
