"""Tables and pictures of recovery_figures' points:   recovery.py POINTS.tsv DIRECTORY"""
import csv
import sys

from chart import Axis, figure, table

WAYS = ["go-back-N", "selective", "fixed", "adaptive"]


def read(path):
    with open(path) as file:
        rows = [{key: value if key == "way" else float(value) for key, value in row.items()}
                for row in csv.DictReader(file, delimiter="\t")]
    return {(row["way"], row["loss_percent"], row["reorder_depth"], row["skew_us"]): row for row in rows}


def values(points, place):
    return sorted({key[place] for key in points})


def lines(points, key_of, xs, column, ways=WAYS):
    """One series a way, over `xs`."""
    return [(way, [(x, points[(way, *key_of(x))][column]) for x in xs if (way, *key_of(x)) in points]) for way in ways]


def draw(points, directory):
    losses, depths, skews = values(points, 1), values(points, 2), values(points, 3)
    lossy = [loss for loss in losses if loss > 0]
    share = Axis("goodput, of what the link carries without faults", [0, 0.25, 0.5, 0.75, 1])
    loss_axis, depth_axis = Axis("loss, %", lossy, log=True), Axis("places that 5 % of the packets come late", depths, steps=True)
    figure(f"{directory}/goodput-over-loss.svg", "Goodput over loss", loss_axis, share,
           [(f"reordering by {depth:g} places", lines(points, lambda x: (x, depth, 0), lossy, "of_lossless"))
            for depth in (0, 8, 32)])
    figure(f"{directory}/goodput-over-reordering.svg", "Goodput over reordering", depth_axis, share,
           [(f"{loss:g} % loss", lines(points, lambda x: (loss, x, 0), depths, "of_lossless")) for loss in (0, 1, 5)])
    if len(skews) > 1:
        figure(f"{directory}/goodput-over-skew.svg", "Goodput over the skew of four paths", Axis("skew, us", skews, steps=True), share,
               [(f"{loss:g} % loss", lines(points, lambda x: (loss, 0, x), skews, "of_lossless")) for loss in (0, 1, 5)])
    spurious = Axis("packets sent again for nothing, %", [0.01, 0.1, 1, 10, 100], log=True)
    figure(f"{directory}/spurious-retransmissions.svg", "Spurious retransmissions", depth_axis, spurious,
           [(f"{loss:g} % loss", lines(points, lambda x: (loss, x, 0), depths, "spurious_percent")) for loss in (0, 1, 5)])
    times = Axis("from loss to placement, us", [10, 100, 1000, 10_000, 100_000], log=True)
    figure(f"{directory}/recovery-time.svg", "Recovery time without reordering", loss_axis, times,
           [(name, lines(points, lambda x: (x, 0, 0), lossy, column))
            for name, column in (("median", "recovery_p50_us"), ("99th percentile", "recovery_p99_us"), ("longest", "recovery_max_us"))])


def write_tables(points, path):
    losses, depths, skews = values(points, 1), values(points, 2), values(points, 3)
    with open(path, "w") as file:
        for title, cells in (
                ("Goodput over loss, of what the link carries without faults; no reordering",
                 [(f"{loss:g} %", (loss, 0, 0)) for loss in losses]),
                ("Goodput over reordering (5 % of the packets so many places late), 1 % loss",
                 [(f"{depth:g} places", (1, depth, 0)) for depth in depths]),
                ("Goodput over the skew of four paths, 1 % loss", [(f"{skew:g} us", (1, 0, skew)) for skew in skews])):
            file.write(f"### {title}\n")
            file.write(table(["", *WAYS], [[name, *(f"{points[(way, *key)]['of_lossless']:.3f}" if (way, *key) in points else ""
                                                    for way in WAYS)] for name, key in cells]) + "\n")
        file.write("### Spurious retransmissions, % of the packets; no loss\n")
        file.write(table(["", *WAYS], [[f"{depth:g} places", *(f"{points[(way, 0, depth, 0)]['spurious_percent']:.3f}" for way in WAYS)]
                                       for depth in depths]) + "\n")
        file.write("### Recovery time, us: median, 99th percentile, longest; no reordering\n")
        columns = ("recovery_p50_us", "recovery_p99_us", "recovery_max_us")
        file.write(table(["", *WAYS], [[f"{loss:g} %", *(" / ".join(f"{points[(way, loss, 0, 0)][c]:.0f}" for c in columns) for way in WAYS)]
                                       for loss in losses if loss > 0]))


if __name__ == "__main__":
    points = read(sys.argv[1])
    draw(points, sys.argv[2])
    write_tables(points, f"{sys.argv[2]}/recovery-tables.md")
