"""Pictures and tables of drop_figures' points:   drops.py POINTS.tsv DIRECTORY"""
import sys

from chart import Axis, figure, table

SIZES = {"google": "Google RPCs", "webserver": "Facebook web server"}
LOSSES = ["0.1", "1", "10", "20"]


def ways_of(rows):
    return list(dict.fromkeys(row["way"] for row in rows))


def over_loss(rows, sizes, way, column):
    return [(float(row["loss_percent"]), float(row[column])) for row in rows
            if (row["kind"], row["sizes"], row["way"]) == ("random", sizes, way) and row["loss_percent"] in LOSSES]


# How many flows took longer: what a cumulative distribution hides in its upper corner.
def longer(curve, sizes, way):
    return [(float(time), max(1 - float(share), 1e-4)) for _, s, w, share, time in curve if (s, w) == (sizes, way)]


def draw(rows, curve, directory):
    ways = ways_of(rows)
    losses = Axis("packets dropped at random, %", [float(loss) for loss in LOSSES], steps=True)
    times = Axis("flow completion time, us", [10, 100, 1000, 10_000, 100_000], log=True)
    figure(f"{directory}/fct-over-loss.svg", "Flow completion time over random drops", losses, times,
           [(f"{title}: {name}", [(way, over_loss(rows, sizes, way, column)) for way in ways])
            for sizes, title in SIZES.items() for name, column in (("mean", "mean_us"), ("99th percentile", "p99_us"))])
    shares = Axis("share of flows that take longer", [1e-4, 1e-3, 1e-2, 1e-1, 1], log=True)
    figure(f"{directory}/incast.svg", "Six senders to one receiver: who takes longer", times, shares,
           [(title, [(way, longer(curve, sizes, way)) for way in ways]) for sizes, title in SIZES.items()])


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
        told = [way for way in ways if "EDN" in way]
        points = [("random", loss) for loss in LOSSES] + [("answers", "1"), ("answers", "10"), ("incast", "0")]
        cell = lambda row: f"{row['notice_packets_percent']} / {row['notice_bytes_percent']}; {row['flows_in_table_most']}"
        file.write(table(["", *(f"{loss} %" for loss in LOSSES), "1 % both ways", "10 % both ways", "incast"],
                         [[f"{title}, {way}", *(cell(find(kind, sizes, way, loss)) for kind, loss in points)]
                          for sizes, title in SIZES.items() for way in told]))
        file.write("\n### Incast: packets lost / sent again / timeouts\n")
        file.write(table(["", *SIZES.values()], [[way, *(" / ".join(find("incast", sizes, way, "0")[column] for column in ("lost", "resent", "timeouts"))
                                                        for sizes in SIZES)] for way in ways]))


if __name__ == "__main__":
    with open(sys.argv[1]) as points:
        lines = [line.rstrip("\n").split("\t") for line in points]
    draw_rows = [dict(zip(lines[0], line)) for line in lines[1:] if line[0] != "cdf"]
    draw(draw_rows, [line for line in lines if line[0] == "cdf"], sys.argv[2])
    tables(draw_rows, sys.argv[2])
