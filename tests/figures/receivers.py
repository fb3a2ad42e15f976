"""Picture and table of what one receiver gets while another one is congested:   receivers.py POINTS.tsv DIRECTORY"""
import csv
import statistics
import sys

from chart import Axis, figure, table

EVENTS = {"link": "the second one's link can do a twentieth", "host": "the second one stands still"}
LISTS = {"off": "without the managed list", "on": "with it"}


def main(points, directory):
    with open(points) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    ways = list(dict.fromkeys(row["way"] for row in rows))

    def those(way, managed, event):
        return [row for row in rows if (row["way"], row["managed"], row["event"]) == (way, managed, event)]

    def mean(found, name, disturbed):
        return statistics.mean(float(row[name]) for row in found if row["disturbed"] == str(int(disturbed)))

    times = sorted({float(row["s"]) for row in rows})
    panels = []
    for managed, words in LISTS.items():
        series = [(way, [(float(row["s"]), float(row["first_mbps"])) for row in those(way, managed, "link")]) for way in ways]
        panels.append((words, series))
    figure(f"{directory}/receivers.svg", "The first receiver, while the second one's link can do a twentieth (2 to 6 s)",
           Axis("s", [0, *(at for at in times if at == int(at))]), Axis("Mbit/s", [0, 250, 500, 750, 1000]), panels)
    with open(f"{directory}/receivers-tables.md", "w") as file:
        for event, words in EVENTS.items():
            file.write(f"### {words[0].upper()}{words[1:]}: Mbit/s, means of 4 s\n")
            body = []
            for way in ways:
                alone = mean(those(way, "off", "alone"), "first_mbps", True)
                for managed in LISTS:
                    found = those(way, managed, event)
                    first, second = (mean(found, f"{name}_mbps", True) for name in ("first", "second"))
                    least = min(float(row["first_mbps"]) for row in found if row["disturbed"] == "1")
                    lost, again = (sum(int(row[name]) for row in found if row["disturbed"] == "1") for name in ("dropped", "resent"))
                    body.append([way, managed, f"{alone:.0f}", f"{first:.0f}", f"{least:.0f}", f"{second:.0f}", f"{first / (alone - second):.3f}", str(lost), str(again)])
            head = ["", "managed list", "first, alone", "first", "its least in 0.2 s", "second", "first, of what the second leaves", "dropped", "sent again"]
            file.write(table(head, body) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
