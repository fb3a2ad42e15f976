"""Tables and pictures of recovery_figures' points:   recovery.py POINTS.tsv DIRECTORY"""
import csv
import sys

from chart import Axis, figure, table
from same_network import checked, same_networks, same_simulated, shorter_by

WAYS = ["go-back-N", "selective", "fixed", "adaptive"]
PACKET_BYTES = 4096
ONE_PATH = "Simulator; link 10 Gbit/s, 50 us each way, queue 256 KiB; path MTU 4096; one run of 100 ms a point, after 300 ms."
FOUR_PATHS = ONE_PATH.replace("link", "four paths of one link,", 1)
# recovery_figures counts whole messages of 64 KiB, over 100 ms of 10 Gbit/s, and prints four digits: two streams that are
# as fast may differ by one message.
ONE_MESSAGE = 65536 * 8 / (10e9 * 0.1) + 0.0001


def read(path):
    with open(path) as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    same_networks(lines, ["loss_percent", "reorder_depth", "paths", "skew_us"])
    rows = [{key: value if key in ("way", "network") else float(value) for key, value in line.items()} for line in lines]

    def of(paths):
        return {(row["way"], row["loss_percent"], row["reorder_depth"], row["skew_us"]): row for row in rows if row["paths"] == paths}
    return of(1), of(4)


# If nothing is lost and nothing overtakes, all modes carry the same.
def check(points):
    same_simulated({way: points[way, 0, 0, 0]["share"] for way in WAYS}, {"go-back-N": shorter_by(PACKET_BYTES)}, tolerance=ONE_MESSAGE)


def values(points, place):
    return sorted({key[place] for key in points})


def lines(points, key_of, xs, column, ways=WAYS):
    """One series a way, over `xs`."""
    return [(way, [(x, points[(way, *key_of(x))][column]) for x in xs if (way, *key_of(x)) in points]) for way in ways]


def draw(points, on_paths, directory):
    losses, depths, skews = values(points, 1), values(points, 2), values(on_paths, 3)
    lossy = [loss for loss in losses if loss > 0]
    share = Axis("goodput, share of that without faults", [0, 0.25, 0.5, 0.75, 1], high=1.05)
    loss_axis, depth_axis = Axis("loss, % of the packets", lossy, log=True), Axis("places by which 5 % of the packets are late", depths, steps=True)
    figure(f"{directory}/goodput-over-loss.svg", "Goodput over loss", ONE_PATH, loss_axis, share,
           [(f"reordering by {depth:g} places" if depth else "no reordering", lines(points, lambda x: (x, depth, 0), lossy, "of_lossless"))
            for depth in (0, 8, 32)])
    figure(f"{directory}/goodput-over-reordering.svg", "Goodput over reordering", ONE_PATH, depth_axis, share,
           [(f"{loss:g} % loss", lines(points, lambda x: (loss, x, 0), depths, "of_lossless")) for loss in (0, 1, 5)])
    skew_axis = Axis("skew of the paths, us", skews, steps=True)
    figure(f"{directory}/goodput-over-skew.svg", "Goodput over the skew of four paths", FOUR_PATHS, skew_axis, share,
           [(f"{loss:g} % loss", lines(on_paths, lambda x: (loss, 0, x), skews, "of_lossless")) for loss in (0, 1, 5)])
    spurious = Axis("spurious retransmissions, % of packets", [0.0001, 0.001, 0.01, 0.1, 1, 10, 100, 1000], log=True, none="none")
    figure(f"{directory}/spurious-retransmissions.svg", "Spurious retransmissions over reordering", ONE_PATH, depth_axis, spurious,
           [(f"{loss:g} % loss", lines(points, lambda x: (loss, x, 0), depths, "spurious_percent")) for loss in (0, 1, 5)])
    figure(f"{directory}/spurious-over-skew.svg", "Spurious retransmissions over the skew of four paths", FOUR_PATHS, skew_axis, spurious,
           [(f"{loss:g} % loss", lines(on_paths, lambda x: (loss, 0, x), skews, "spurious_percent")) for loss in (0, 1, 5)])
    times = Axis("from loss to placement, us", [100, 1000, 10_000, 100_000, 1_000_000], log=True)
    figure(f"{directory}/recovery-time.svg", "Recovery time without reordering", ONE_PATH, loss_axis, times,
           [(name, lines(points, lambda x: (x, 0, 0), lossy, column))
            for name, column in (("median", "recovery_p50_us"), ("99th percentile", "recovery_p99_us"), ("longest", "recovery_max_us"))])


def write_tables(points, on_paths, path):
    losses, depths, skews = values(points, 1), values(points, 2), values(on_paths, 3)
    over_skew = [(f"{loss:g} %, {skew:g} us", (loss, 0, skew)) for loss in (0, 1, 5) for skew in skews]
    with open(path, "w") as file:
        def write(title, points, cells, form):
            file.write(f"### {title}\n" + table(["", *WAYS], [[name, *(form(points[(way, *key)]) for way in WAYS)] for name, key in cells]) + "\n")

        def share(point):
            return f"{point['of_lossless']:.3f}"

        def spurious(point):
            return f"{point['spurious_percent']:.3f}"

        def times(point):
            return " / ".join(f"{point[f'recovery_{which}_us']:.0f}" for which in ("p50", "p99", "max"))
        write("Goodput over loss, of what the link carries without faults; no reordering", points,
              [(f"{loss:g} %", (loss, 0, 0)) for loss in losses], share)
        for lossy in (1, 20):
            write(f"Goodput over reordering (5 % of the packets so many places late), {lossy} % loss", points,
                  [(f"{depth:g} places", (lossy, depth, 0)) for depth in depths], share)
        write("Goodput over loss and the skew of four paths", on_paths, over_skew, share)
        write("Spurious retransmissions, % of the packets; no loss", points, [(f"{depth:g} places", (0, depth, 0)) for depth in depths], spurious)
        write("Spurious retransmissions over loss and the skew of four paths, % of the packets", on_paths, over_skew, spurious)
        write("Recovery time, us: median, 99th percentile, longest; no reordering", points,
              [(f"{loss:g} %", (loss, 0, 0)) for loss in losses if loss > 0], times)
        write("Recovery time, us, over the skew of four paths", on_paths, [cell for cell in over_skew if cell[1][0] > 0], times)


def main(path, directory):
    single, several = read(path)
    check(single)
    check(several)
    draw(single, several, directory)
    write_tables(single, several, f"{directory}/recovery-tables.md")


if __name__ == "__main__":
    checked(main, sys.argv[1], sys.argv[2])
