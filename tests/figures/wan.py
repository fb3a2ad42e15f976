"""Pictures and tables of wan_figures' points:   wan.py POINTS.tsv DIRECTORY"""
import csv
import sys

from chart import Axis, figure, table


def main(points, directory):
    with open(points) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    ways = list(dict.fromkeys(row["way"] for row in rows))
    losses = sorted({float(row["loss_percent"]) for row in rows})
    trips = sorted({float(row["rtt_ms"]) for row in rows})
    find = {(row["way"], float(row["rtt_ms"]), float(row["loss_percent"])): row for row in rows}
    share = Axis("of the path's bandwidth", [0, 0.25, 0.5, 0.75, 1])
    figure(f"{directory}/wan-share.svg", "Long paths, 10 Gbit/s", Axis("round trip, ms", trips, log=True), share,
           [(f"{loss:g} % loss", [(way, [(trip, min(1, float(find[way, trip, loss]["share"]))) for trip in trips if (way, trip, loss) in find])
                                  for way in ways]) for loss in losses])
    with open(f"{directory}/wan-tables.md", "w") as file:
        for title, form in (("Share of the path's bandwidth", lambda row: f"{float(row['share']):.3f}"),
                            ("Packets sent / lost / dropped by the queue / sent again / timeouts",
                             lambda row: " / ".join(row[key] for key in ("packets", "lost", "queue_dropped", "retransmitted", "timeouts")))):
            file.write(f"### {title}\n")
            file.write(table(["", *ways], [[f"{trip:g} ms, {loss:g} %", *(form(find[way, trip, loss]) if (way, trip, loss) in find else "" for way in ways)]
                                           for trip in trips for loss in losses]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
