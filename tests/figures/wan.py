"""Pictures and tables of wan_figures' points:   wan.py POINTS.tsv DIRECTORY"""
import csv
import sys

from chart import Axis, figure, table
from same_network import TOLERANCE, Difference, checked, same_networks, same_simulated, shorter_by

PACKET_BYTES = 4096
NETWORK = "Simulator; link 10 Gbit/s, queue a quarter of what the path holds; path MTU 4096; one run of 40 round trips a point."
ROOMY_KB = str(1 << 20)


def check(rows):
    """Without losses and behind a queue that takes all of a start, so that nothing is dropped, all modes carry the
    same."""
    same_networks(rows, ["rate_mbps", "rtt_ms", "loss_percent", "queue_kb"])
    clean = [row for row in rows if row["queue_kb"] == ROOMY_KB]
    dropping = [row["way"] for row in clean if row["lost"] != "0" or row["queue_dropped"] != "0"]
    if dropping or not clean:
        raise Difference(f"'{dropping[0] if dropping else 'nothing'}' ran where nothing is to be dropped, and lost packets")
    same_simulated({row["way"]: row["share"] for row in clean}, {"go-back-N": shorter_by(PACKET_BYTES)}, tolerance=TOLERANCE)


def main(points, directory):
    with open(points) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    check(rows)
    rows = [row for row in rows if row["queue_kb"] != ROOMY_KB]
    ways = list(dict.fromkeys(row["way"] for row in rows))
    losses = sorted({float(row["loss_percent"]) for row in rows})
    trips = sorted({float(row["rtt_ms"]) for row in rows})
    find = {(row["way"], float(row["rtt_ms"]), float(row["loss_percent"])): row for row in rows}
    share = Axis("share of the path's bandwidth", [0, 0.25, 0.5, 0.75, 1], high=1.05)
    figure(f"{directory}/wan-share.svg", "Share of a long path's bandwidth", NETWORK, Axis("round trip, ms", trips, log=True), share,
           [(f"{loss:g} % loss", [(way, [(trip, float(find[way, trip, loss]["share"])) for trip in trips if (way, trip, loss) in find])
                                  for way in ways]) for loss in losses])
    with open(f"{directory}/wan-tables.md", "w") as file:
        for title, form in (("Share of the path's bandwidth", lambda row: f"{float(row['share']):.3f}"),
                            ("Packets sent / lost / dropped by the queue / sent again / timeouts",
                             lambda row: " / ".join(row[key] for key in ("packets", "lost", "queue_dropped", "retransmitted", "timeouts")))):
            file.write(f"### {title}\n")
            file.write(table(["", *ways], [[f"{trip:g} ms, {loss:g} %", *(form(find[way, trip, loss]) if (way, trip, loss) in find else "" for way in ways)]
                                           for trip in trips for loss in losses]) + "\n")


if __name__ == "__main__":
    checked(main, sys.argv[1], sys.argv[2])
