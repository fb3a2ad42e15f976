"""Pictures and tables of drop_figures' points:   drops.py POINTS.tsv DIRECTORY"""
import statistics
import sys

from chart import Axis, figure, table
from same_network import Difference, checked, same_networks, same_simulated, shorter_by

SIZES = {"google": "Google RPCs", "webserver": "Facebook web server"}
LOSSES = ["0.1", "1", "10", "20"]
PACKET_BYTES = 1024
NETWORK = "Simulator; link 25 Gbit/s, 5 us each way, load 5 %; path MTU 1024; one run of 10,000 flows (Google) and 1,000 (web server) a point."
INCAST = ("Simulator; links 25 Gbit/s, 5 us each way, load 60 %, queue 64 KiB; path MTU 1024; one run of 10,000 flows (Google) and 1,000 "
          "(web server). The slowest flow has no place on a logarithmic axis.")
WIDE_KB = "256"  # of the queues of the incasts: drops nothing
TIMEOUTS = "timeouts"  # a kind of its own: the gain's dependence in an incast


def ways_of(rows):
    return list(dict.fromkeys(row["way"] for row in rows if row["kind"] != TIMEOUTS))


def check(rows):
    """The networks are the same except for the notifications. Without a drop all modes take as long: without losses and
    incast; and in the incast before a queue that takes all of it, except for go-back-N, whose window ignores the queue.
    Go-back-N is compared in the mean: which flow meets another, and so the 99th percentile, changes with the length of
    its packets."""
    same_networks(rows, ["kind", "sizes", "loss_percent", "queue_kb", "sender", "seed"], compared=["edn"])
    clean = [row for row in rows if row["loss_percent"] == "0" and (row["kind"] in ("random", "roomy") or (row["kind"], row["queue_kb"]) == (TIMEOUTS, WIDE_KB))]
    points = {}
    for row in clean:
        if row["lost"] != "0":
            raise Difference(f"'{row['way']}' lost packets where nothing is to be dropped ({row['kind']}, {row['sizes']})")
        points.setdefault((row["kind"], row["sizes"], row["sender"], row["seed"]), {})[row["way"]] = row
    for found in points.values():
        shorter = {way: shorter_by(PACKET_BYTES) for way in found if way.startswith("go-back-N")}
        same_simulated({way: row["mean_us"] for way, row in found.items()}, shorter)
        same_simulated({way: row["p99_us"] for way, row in found.items() if way not in shorter})


def over_loss(rows, sizes, way, column):
    return [(float(row["loss_percent"]), float(row[column])) for row in rows
            if (row["kind"], row["sizes"], row["way"]) == ("random", sizes, way) and row["loss_percent"] in LOSSES]


# How many flows took longer: a cumulative distribution hides that in its upper corner. Nothing took longer than the
# slowest flow: its share would be zero.
def longer(curve, sizes, way, flows):
    found = [(float(time), 1 - float(share)) for _, s, w, share, time in curve if (s, w) == (sizes, way)]
    return [(time, share) for time, share in found if share > 0.99 / flows]


def draw(rows, curve, directory):
    ways = ways_of(rows)
    losses = Axis("packets dropped at random, %", [float(loss) for loss in LOSSES], steps=True)
    times = Axis("flow completion time, us", [10, 100, 1000, 10_000, 100_000, 1_000_000], log=True)
    figure(f"{directory}/fct-over-loss.svg", "Flow completion time over random drops", NETWORK, losses, times,
           [(f"{title}: {name}", [(way, over_loss(rows, sizes, way, column)) for way in ways])
            for sizes, title in SIZES.items() for name, column in (("mean", "mean_us"), ("99th percentile", "p99_us"))])
    flows = {row["sizes"]: int(row["flows"]) for row in rows if row["kind"] == "incast"}
    shares = Axis("share of the flows that take longer", [1e-4, 1e-3, 1e-2, 1e-1, 1], log=True, low=5e-5)
    figure(f"{directory}/incast.svg", "Six senders to one receiver: flows that take longer", INCAST, Axis(times.label, times.ticks[:-1], log=True), shares,
           [(title, [(way, longer(curve, sizes, way, flows[sizes])) for way in ways]) for sizes, title in SIZES.items()], direct=False)


def tables(rows, directory):
    find = lambda *key: next(row for row in rows if (row["kind"], row["sizes"], row["way"], row["loss_percent"]) == key)
    ways = ways_of(rows)
    with open(f"{directory}/drops-tables.md", "w") as file:
        for sizes, title in SIZES.items():
            file.write(f"### {title}: flow completion time, us: mean / 99th percentile\n")
            points = [("random", loss) for loss in ["0", *LOSSES]] + [("answers", "1"), ("answers", "10"), ("incast", "0")]
            names = [f"{loss} %" for loss in ["0", *LOSSES]] + ["1 % both ways", "10 % both ways", "incast"]
            file.write(table(["", *names], [[way, *(" / ".join((find(kind, sizes, way, loss)["mean_us"], find(kind, sizes, way, loss)["p99_us"]))
                                                    for kind, loss in points)] for way in ways]))
            file.write("\n")
        file.write("### What it costs: notifications as a share of what the switch passed on, packets / bytes, %; flows in its table at most\n")
        notified = [way for way in ways if "EDN" in way]
        points = [("random", loss) for loss in LOSSES] + [("answers", "1"), ("answers", "10"), ("incast", "0")]
        cell = lambda row: f"{row['notice_packets_percent']} / {row['notice_bytes_percent']}; {row['flows_in_table_most']}"
        file.write(table(["", *(f"{loss} %" for loss in LOSSES), "1 % both ways", "10 % both ways", "incast"],
                         [[f"{title}, {way}", *(cell(find(kind, sizes, way, loss)) for kind, loss in points)]
                          for sizes, title in SIZES.items() for way in notified]))
        for sizes, title in SIZES.items():
            file.write(f"\n### {title}: packets dropped / sent again / timeouts\n")
            points = [("random", loss) for loss in ["0", *LOSSES]] + [("answers", "1"), ("answers", "10"), ("incast", "0")]
            names = [f"{loss} %" for loss in ["0", *LOSSES]] + ["1 % both ways", "10 % both ways", "incast"]
            file.write(table(["", *names], [[way, *(" / ".join(find(kind, sizes, way, loss)[column] for column in ("lost", "resent", "timeouts"))
                                                    for kind, loss in points)] for way in ways]))
        timeouts(rows, file)


def spread(values, form):
    """Median (lowest .. highest)."""
    middle, low, high = (form.format(each) for each in (statistics.median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} .. {high})"


SENDERS = {"window": "congestion control", "path": "what the path holds"}


def timeouts(rows, file):
    """Dependence of the gain in an incast: the queue, the sender's limit, IRN's timeouts."""
    rows = [row for row in rows if row["kind"] == TIMEOUTS]
    ways, seeds = (list(dict.fromkeys(row[column] for row in rows)) for column in ("way", "seed"))
    irn, notified = [way for way in ways if way.startswith("IRN")], [way for way in ways if "EDN" in way]
    for sizes, title in SIZES.items():
        points = list(dict.fromkeys((row["queue_kb"], row["sender"]) for row in rows if row["sizes"] == sizes))
        of = lambda point, way, column: [float(row[column]) for row in rows
                                         if (row["sizes"], row["queue_kb"], row["sender"], row["way"]) == (sizes, *point, way)]
        gain = lambda point, better, worse: spread([100 * (a / b - 1) for a, b in zip(of(point, better, "p99_us"), of(point, worse, "p99_us"))], "{:.2f}")
        names = [[f"{queue} KiB", SENDERS[sender]] for queue, sender in points]
        file.write(f"\n### {title}, 6-to-1 incast: 99th percentile, us; median (lowest .. highest) of {len(seeds)} seeds\n")
        file.write(table(["queue", "bounds the sender", *ways], [[*name, *(spread(of(point, way, "p99_us"), "{:.0f}") for way in ways)] for name, point in zip(names, points)]))
        file.write(f"\n### {title}, 6-to-1 incast: 99th percentile against IRN's, %\n")
        pairs = [(better, worse) for better in notified for worse in irn]
        file.write(table(["queue", "bounds the sender", *(f"{better} against {worse}" for better, worse in pairs)],
                         [[*name, *(gain(point, *pair) for pair in pairs)] for name, point in zip(names, points)]))
        file.write(f"\n### {title}, 6-to-1 incast: packets dropped / sent again / timeouts, medians\n")
        counts = lambda point, way: " / ".join(f"{statistics.median(of(point, way, column)):.0f}" for column in ("lost", "resent", "timeouts"))
        file.write(table(["queue", "bounds the sender", *ways], [[*name, *(counts(point, way) for way in ways)] for name, point in zip(names, points)]))


def main(points, directory):
    with open(points) as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    rows = [dict(zip(lines[0], line)) for line in lines[1:] if line[0] != "cdf"]
    check(rows)
    draw(rows, [line for line in lines if line[0] == "cdf"], directory)
    tables(rows, directory)


if __name__ == "__main__":
    checked(main, sys.argv[1], sys.argv[2])
