#!/usr/bin/env python3
"""Tables of docs/figures/README.md, from the points of docs/figures; those of docs/explanation/performance.md and scaling.md,
from performance.tsv and tests/bench_micro/budget.tsv:

    python3 tests/figures/quoted.py ROOT            writes them between their marks: <!-- measured: NAME -->
    python3 tests/figures/quoted.py ROOT --check    exit code 1 if a page has other numbers than its points, or lacks marks
"""
import csv
import os
import re
import statistics
import sys

from chart import table

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import report  # noqa: E402

PAGES = {"figures": "docs/figures/README.md", "performance": "docs/explanation/performance.md", "scaling": "docs/explanation/scaling.md"}
RECOVERY = ["go-back-N", "selective", "fixed", "adaptive"]


class Points:
    """Rows of a file of points, by the values of columns."""

    def __init__(self, root, name):
        with open(os.path.join(root, "docs", "figures", f"{name}.tsv")) as file:
            self.rows = [row for row in csv.DictReader(file, delimiter="\t") if row.get("kind") != "cdf"]

    def of(self, **columns):
        return [row for row in self.rows if all(row[name] == value for name, value in columns.items())]

    def median(self, column, **columns):
        return statistics.median(float(row[column]) for row in self.of(**columns))

    def spread(self, column, form, **columns):
        values = sorted(float(row[column]) for row in self.of(**columns))
        middle, low, high = (form.format(each) for each in (statistics.median(values), values[0], values[-1]))
        return middle if low == high else f"{middle} ({low} .. {high})"


def recovery(root):
    points = Points(root, "recovery")
    place = lambda loss, depth="0", paths="1", skew="0": {"loss_percent": loss, "reorder_depth": depth, "paths": paths, "skew_us": skew}

    def each(column, form, cells):
        return [[name, *(form.format(points.median(column, way=way, **cell)) for way in RECOVERY)] for name, cell in cells]
    times = [[f"{loss} %", *(" / ".join(f"{points.median(f'recovery_{which}_us', way=way, **place(loss)):.0f}" for which in ("p50", "p99", "max")) for way in RECOVERY)] for loss in ("0.1", "1", "5", "20")]
    return {
        "goodput over loss": table(["loss", *RECOVERY], each("of_lossless", "{:.3f}", [(f"{loss} %", place(loss)) for loss in ("0.1", "1", "5", "20")])),
        "goodput over reordering": table(["1 % loss, 5 % of the packets late by", *RECOVERY], each("of_lossless", "{:.3f}", [(f"{depth} places", place("1", depth)) for depth in ("0", "4", "8", "32")])),
        "recovery time": table(["loss", *(f"{way}, us" for way in RECOVERY)], times),
        "spurious retransmissions": table(["no loss, 5 % of the packets late by", *(f"{way}, %" for way in RECOVERY)], each("spurious_percent", "{:.3f}", [(f"{depth} places", place("0", depth)) for depth in ("0", "4", "8", "32")])),
        "goodput over skew": table(["1 % loss, skew", *RECOVERY], each("of_lossless", "{:.3f}", [(f"{skew} us", place("1", "0", "4", skew)) for skew in ("0", "20", "50", "100")])),
        "spurious over skew": table(["1 % loss, skew", *(f"{way}, %" for way in RECOVERY)], each("spurious_percent", "{:.3f}", [(f"{skew} us", place("1", "0", "4", skew)) for skew in ("0", "20", "50", "100")])),
    }


def lab(root):
    points, twice = Points(root, "lab"), Points(root, "duplicates-lab")
    rows = []
    for name, loss, reordered in (("no loss", "0", "0"), ("1 % loss", "1", "0"), ("5 % loss", "5", "0"), ("1 % loss, 5 % of the packets 8 places late", "1", "5")):
        cells = []
        for way in ("ib_write_bw", "ib_send_bw", "simulator"):
            here, clean = {"way": way, "loss_percent": loss, "reordered_percent": reordered}, points.median("bits_per_second", way=way, loss_percent="0", reordered_percent="0")
            again = [float(row["retransmitted"]) / float(row["lost"]) for row in points.of(**here) if float(row["lost"])]
            cells.append(f"{points.median('bits_per_second', **here) / clean:.3f}; {statistics.median(again):.2f}" if again else "1.000; none")
        rows.append([name, *cells])
    networks = list(dict.fromkeys(row["network"] for row in twice.rows))
    return {
        "lab": table(["goodput, share of that without loss; retransmissions for each lost packet", "`ib_write_bw`", "`ib_send_bw`", "simulator"], rows),
        "duplicates": table(["", "program", "lost", "retransmitted", "data that arrived twice", "READ requests that arrived twice"],
                            [[network, f"`{program}`", *(twice.spread(column, "{:.0f}", network=network, program=program) for column in ("dropped", "resent", "duplicates", "requests_twice"))]
                             for network in networks for program in ("ib_write_bw", "ib_send_bw", "ib_read_bw")]),
    }


FLOWS = {"google": "Google", "webserver": "web server"}


def drops(root):
    points = Points(root, "drops")
    ways = list(dict.fromkeys(row["way"] for row in points.rows if row["kind"] == "random"))
    less = lambda better, worse, column, **at: 100 * (points.median(column, way=better, **at) / points.median(column, way=worse, **at) - 1)
    fct = [[way, *(f"{points.median('mean_us', **at):.1f} / {points.median('p99_us', **at):.1f}" for sizes in FLOWS for loss in ("0", "20")
                   for at in [{"kind": "random", "way": way, "sizes": sizes, "loss_percent": loss}])] for way in ways]
    gains = [[f"{title}, {queue} KiB", *(gain(points, sizes, queue, irn) for irn in ("IRN", "IRN, 4 ms", "IRN, 67 ms"))] for sizes, title in FLOWS.items() for queue in ("16", "32", "64", "256")]
    both = [[f"{title}, {name}", *(f"{points.median(column, kind=kind, way='EDN', sizes=sizes, loss_percent='10'):.1f}" for kind in ("random", "answers"))]
            for sizes, title in FLOWS.items() for name, column in (("mean", "mean_us"), ("99th percentile", "p99_us"))]
    incast = [[name, *(f"{points.median(column, kind='incast', sizes='webserver', way=way):.0f}" for way in ("selective", "FFM", "EDN", "FFM + EDN"))]
              for name, column in (("packets dropped", "lost"), ("timeouts", "timeouts"), ("mean FCT, us", "mean_us"), ("99th percentile, us", "p99_us"))]
    costs = [[f"{FLOWS[sizes]}, {name}", *(f"{points.median(f'notice_{what}_percent', kind=kind, sizes=sizes, way='EDN', loss_percent=loss):.2f}" for what in ("packets", "bytes"))]
             for sizes, name, kind, loss in (("google", "1 % drops", "random", "1"), ("google", "10 % drops", "random", "10"), ("google", "10 % drops both ways", "answers", "10"),
                                             ("webserver", "incast behind 64 KiB", "incast", "0"))]
    at = lambda sizes: {"kind": "random", "sizes": sizes, "loss_percent": "20"}
    published = [[name, *(f"{less('EDN', irn, column, **at(sizes)):.1f}" for irn in ("IRN", "IRN, 4 ms") for sizes in FLOWS)] for name, column in (("mean: -98.83", "mean_us"), ("99th percentile: -98.82", "p99_us"))]
    return {
        "fct": table(["mean / 99th percentile, us", *(f"{title}, {loss} % drops" for title in FLOWS.values() for loss in ("0", "20"))], fct),
        "published": table(["published, %", "IRN, Google", "IRN, web server", "IRN with 4 ms, Google", "IRN with 4 ms, web server"], published),
        "incast gains": table(["flows, queue", "IRN as published", "IRN, 4 ms", "IRN, 67 ms"], gains),
        "both ways": table(["FCT with EDN, us", "drops one way", "drops both ways"], both),
        "incast": table(["", "selective", "FFM", "EDN", "FFM + EDN"], incast),
        "notifications": table(["notifications, share of what the switch forwards", "packets, %", "bytes, %"], costs),
    }


def gain(points, sizes, queue, irn):
    """EDN's 99th percentile against IRN's, %, seed by seed."""
    at = {"kind": "timeouts", "sizes": sizes, "queue_kb": queue, "sender": "window"}
    pairs = zip(points.of(way="EDN", **at), points.of(way=irn, **at))
    values = sorted(100 * (float(a["p99_us"]) / float(b["p99_us"]) - 1) for a, b in pairs)
    if not values:
        return ""
    form = lambda value: f"{value:.2f}" if value < -99 else f"{value:.1f}"
    low, middle, high = map(form, (values[0], statistics.median(values), values[-1]))
    return middle if low == high else f"{middle} ({low} .. {high})"


def wan(root):
    points = Points(root, "wan")
    ways, losses = ["go-back-N", "selective", "FFM", "wan", "wan+FFM"], ("0", "0.01", "0.1", "1")
    share = lambda trip, loss, way: f"{points_of(points, trip, loss, way):.3f}"
    real = {mtu: Points(root, name) for mtu, name in (("1024", "wan-lab"), ("4096", "wan-lab-4096"))}

    def measured(mtu, way):
        found = real[mtu].of(way=way, rtt_ms="100", loss_percent="1")
        return f"{statistics.median(float(row['mbps']) for row in found) / 200:.3f}" if found else ""
    counts = [[way, *(next(row[column] for row in points.rows if narrow(row, "100", "1", way)) for column in ("retransmitted", "lost", "queue_dropped"))] for way in ways[2:]]
    return {
        "wan": table(["round trip 100 ms, loss", *ways], [[f"{loss} %", *(share("100", loss, way) for way in ways)] for loss in losses]),
        "wan retransmissions": table(["100 ms, 1 % loss", "retransmitted", "lost on the path", "dropped by the queue"], counts),
        "wan lab": table(["100 ms, 1 % loss", "path MTU 1024", "path MTU 4096"],
                         [[way, measured("1024", way), measured("4096", way)] for way in ("TCP CUBIC", "TCP BBR", "go-back-N", "selective", "default", "wan", "wan+FFM")]),
    }


def narrow(row, trip, loss, way):
    return (float(row["rtt_ms"]), float(row["loss_percent"]), row["way"]) == (float(trip), float(loss), way) and row["queue_kb"] != str(1 << 20)


def points_of(points, trip, loss, way):
    return statistics.median(float(row["share"]) for row in points.rows if narrow(row, trip, loss, way))


def controller(root):
    points, receivers = Points(root, "reroute"), Points(root, "receivers")
    kinds = (("simulator, default", "simulator", "default"), ("simulator, wan+FFM", "simulator", "wan+FFM, paced"), ("lab, default", "lab", "default"))
    rows = [[f"{event}: {name}", label, *(f"{points.median(column, where=where, way=way, event=key, delay_ms=delay):.0f}" for delay in ("1", "10", "50"))]
            for event, key in (("cut", "cut"), ("a twentieth", "slow")) for name, where, way in kinds
            for label, column in (("routes installed, ms", "routes_ms"), ("traffic back, ms", "back_ms"), ("Mbit/s in the 3 s after", "after_mbps"))]

    def share(where, way, managed):
        found = [row for row in receivers.of(where=where, way=way, managed=managed, event="link") if row["disturbed"] == "1"]
        alone = [row for row in receivers.of(where=where, way=way, managed="off", event="alone") if row["disturbed"] == "1"]
        mean = lambda rows, column: statistics.mean(float(row[column]) for row in rows)
        return f"{mean(found, 'first_mbps') / (mean(alone, 'first_mbps') - mean(found, 'second_mbps')):.3f}"
    return {
        "reroute": table(["event", "", "1 ms", "10 ms", "50 ms"], rows),
        "receivers": table(["first receiver's share of what the second one leaves", "no managed list", "managed list"],
                           [[f"{name}, {where}", share(where, way, "off"), share(where, way, "on")]
                            for where in ("simulator", "lab") for name, way in (("default", "default"), ("no congestion control", "no congestion control"))]),
    }


def transfers(root):
    with open(os.path.join(root, "docs", "figures", "transfers.tsv")) as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    find = lambda mode, pairs: next(f"{row[4]} / {row[5]}" for row in rows if row[:3] == ["beside", mode, pairs])
    return {"small beside large": table(["queue pairs with large WRITEs", "0", "1", "4", "16"],
                                        [[name, *(find(mode, pairs) for pairs in ("0", "1", "4", "16"))] for name, mode in (("bitmap, one queue", "undivided"), ("bitmap, two queues", "queues"))])}


def congestion(root):
    points, columns = Points(root, "congestion"), (("reaction, ms", "reaction_us", 1000), ("queue, 99th percentile, MB", "queue_p99_kb", 1024), ("share of the port", "share", 1))

    def cell(way, place, flows, column, unit):
        values = [float(row[column]) for row in points.of(way=way, place=place, flows=flows) if row[column] != "-"]
        middle = statistics.median(values) if values else None
        return "none" if middle is None else f"{middle / unit:.2f}" if middle else "unknown"
    return {f"congestion {place}": table(["", "flows", *(name for name, _, _ in columns)],
                                         [[way, flows, *(cell(way, place, flows, column, unit) for _, column, unit in columns)]
                                          for way in ("window", "timely", "timely-translated", "dcqcn", "both") for flows in ("2", "16")]) for place in ("dc", "wan")}


# What transfer_cost's words mean.
BUDGET = {
    "write 4096 bitmap": "WRITE 4 KiB, lists of 16, bitmap", "write 4096 standard": "WRITE 4 KiB, lists of 16, standard", "write 65536 bitmap": "WRITE 64 KiB, bitmap",
    "send 4096 bitmap": "SEND 4 KiB, bitmap", "read 65536 bitmap": "READ 64 KiB, bitmap", "write 65536 bitmap 16 0 1024": "WRITE 64 KiB, bitmap, path MTU 1024",
    "read 65536 bitmap 16 0 1024": "READ 64 KiB, bitmap, path MTU 1024", "write 64 bitmap 64": "WRITE 64 B, bitmap, lists of 64", "write 64 bitmap 1": "WRITE 64 B, bitmap, one at a time, each waited for",
    "write 64 bitmap 64 1": "WRITE 64 B, bitmap, 64 posted one by one, over 1 queue pair", "write 64 bitmap 64 100": "the same over 100 queue pairs", "turns 8 bitmap 1": "WRITE 8 B in turns",
}


def budget(root):
    """Instructions a packet, from the file that the lane budget writes and compares with."""
    with open(os.path.join(root, "tests", "bench_micro", "budget.tsv")) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    cases = list(dict.fromkeys(row["case"] for row in rows))
    find = lambda case, side: next(row["instructions"] for row in rows if (row["case"], row["side"]) == (case, side))
    return table(["", "requester", "responder"], [[BUDGET.get(case, f"`{case}`"), find(case, "requester"), find(case, "responder")] for case in cases])


def performance(root):
    return {**report.parts(os.path.join(root, "docs", "figures", "performance.tsv")), "budget": budget(root)}


def scaling(root):
    results = report.Results()
    results.read(os.path.join(root, "docs", "figures", "performance.tsv"))
    counts = ("1", "100", "1000", "20000")
    rows = {"instructions a message, client": "instructions a message", "raw UDP, same work: instructions a message, client": "the same, minimal transport", "CPU ns a message, client": "CPU time a message, ns",
            "packets a message, client, acknowledgements included": "packets a message, acknowledgements included"}
    cell = lambda name, x: report.rounded(results.median("queue pairs", name, "9000", x))
    idle = [[f"idle, {x}", report.rounded(results.median("memory", "RC queue pair, idle", "9000", x))] for x in ("created", "connected")]
    used = [[f"used, of {int(x):,}", cell("resident bytes a queue pair, used", x)] for x in ("1000", "20000")]
    return {"bytes of a queue pair": table(["RC queue pair", "bytes"], idle + used), "costs over queue pairs": table(["client, 64-byte WRITEs, queue pairs", *(f"{int(x):,}" for x in counts)], [[title, *(cell(name, x) for x in counts)] for name, title in rows.items()])}


def parts_of(root):
    return {"figures": {**recovery(root), **lab(root), **drops(root), **wan(root), **controller(root), **transfers(root), **congestion(root)}, "performance": performance(root), "scaling": scaling(root)}


def wrong(text, parts):
    """Marks that a page lacks, and parts that it has differently."""
    for name, part in parts.items():
        found = re.search(rf"<!-- measured: {re.escape(name)} -->\n(.*?)<!-- /measured -->", text, re.S)
        if not found:
            yield f"no part '{name}'"
        elif found.group(1) != f"\n{part}\n":
            yield f"'{name}' differs from its points"


def main(root, *options):
    faults = []
    for page, parts in parts_of(root).items():
        path = os.path.join(root, PAGES[page])
        if "--check" not in options:
            report.fill(path, parts)
        with open(path) as file:
            faults += [f"{PAGES[page]}: {each}" for each in wrong(file.read(), parts)]
    if faults:
        sys.exit("\n".join([*faults, "quoted: python3 tests/figures/quoted.py .  writes them"]))
    print(f"quoted: tables of {len(PAGES)} pages are those of their points")


if __name__ == "__main__":
    main(*sys.argv[1:])
