"""Pictures and tables of congestion_figures' points:   congestion.py POINTS.tsv DIRECTORY"""
import csv
import sys

from chart import Axis, figure, table

PLACES = {"dc": "data centre, 20 us", "wan": "10 ms behind it"}
FLOWS = ["2", "4", "8", "16"]


def draw(rows, directory):
    ways = list(dict.fromkeys(row["way"] for row in rows))

    def lines(place, column):
        unit = {"reaction_us": 1000, "queue_p99_kb": 1024}.get(column, 1)
        return [(way, [(float(row["flows"]), float(row[column]) / unit) for row in rows
                       if (row["place"], row["way"]) == (place, way) and row[column] != "-"]) for way in ways]

    flows = Axis("flows", [float(each) for each in FLOWS], steps=True)
    for name, title, column, axis in (
            ("reaction", "From congestion to reaction", "reaction_us", Axis("ms until the queue shrinks", [0.01, 0.1, 1, 10, 100], log=True)),
            ("queue", "Queue, 99th percentile", "queue_p99_kb", Axis("MB", [0.01, 0.1, 1, 10, 100], log=True)),
            ("throughput", "Throughput", "share", Axis("of the bottleneck", [0, 0.25, 0.5, 0.75, 1])),
            ("fairness", "Fairness", "jain", Axis("Jain's index", [0, 0.25, 0.5, 0.75, 1]))):
        figure(f"{directory}/congestion-{name}.svg", title, flows, axis,
               [(label, lines(place, column)) for place, label in PLACES.items()])


def tables(rows, directory):
    ways = list(dict.fromkeys(row["way"] for row in rows))
    find = {(row["place"], row["way"], row["flows"]): row for row in rows}
    with open(f"{directory}/congestion-tables.md", "w") as file:
        for place, label in PLACES.items():
            for title, form in (
                    ("reaction, us", lambda row: row["reaction_us"] if row["reaction_us"] == "-" else f"{float(row['reaction_us']):.0f}"),
                    ("queue, KB: median / 99th percentile / longest", lambda row: f"{float(row['queue_p50_kb']):.0f} / {float(row['queue_p99_kb']):.0f} / {float(row['queue_most_kb']):.0f}"),
                    ("throughput, of the bottleneck / Jain's index", lambda row: f"{float(row['share']):.3f} / {float(row['jain']):.3f}"),
                    ("packets dropped", lambda row: row["dropped"])):
                file.write(f"### {label}: {title}\n")
                file.write(table(["flows", *FLOWS], [[way, *(form(find[place, way, each]) for each in FLOWS)] for way in ways]) + "\n")


if __name__ == "__main__":
    with open(sys.argv[1]) as points:
        rows = list(csv.DictReader(points, delimiter="\t"))
    draw(rows, sys.argv[2])
    tables(rows, sys.argv[2])
