"""From readings to numbers, tables, pictures and goals."""
import os
import re
import statistics
import sys

from hosts import ADDRESS  # noqa: F401  (kept first: this folder's modules before those of figures)
from measures import size_name
from systems import LATENCY_SIZES, SIZES

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "figures"))
from chart import Axis, figure, table  # noqa: E402

COLUMNS = ("measure", "system", "mtu", "x", "unit", "median", "least", "most", "runs", "processors")


class Results:
    """Median and spread by (measure, system, mtu, x), in order of appearance: of the readings with processors near each
    other, if there are any."""

    def __init__(self):
        self.rows, self.far = {}, set()

    def add(self, readings):
        values = {}
        for each in readings:
            values.setdefault((each.measure, each.system, str(each.mtu), each.x, each.unit), []).append(each)
        for (measure, system, mtu, x, unit), found in values.items():
            near = [each.value for each in found if each.near]
            if not near:
                self.far.add((measure, system, mtu, x))
            found = near or [each.value for each in found]
            self.rows[measure, system, mtu, x] = [unit, statistics.median(found), min(found), max(found), len(found)]

    def read(self, path):
        """Results of an earlier run, so that a part can be measured again."""
        if not os.path.exists(path):
            return
        with open(path) as file:
            for line in file.read().splitlines()[1:]:
                fields = line.split("\t")
                if len(fields) != len(COLUMNS):  # of an earlier format
                    continue
                measure, system, mtu, x, unit, median, least, most, runs, processors = fields
                self.rows[measure, system, mtu, x] = [unit, *map(float, (median, least, most)), int(runs)]
                if processors == "far":
                    self.far.add((measure, system, mtu, x))

    def forget(self, measured):
        """Drops the rows of these (measure, system): they were measured again."""
        self.rows = {key: row for key, row in self.rows.items() if key[:2] not in measured}
        self.far &= set(self.rows)

    def write(self, path):
        with open(path, "w") as file:
            for row in [COLUMNS, *((*key, unit, *(f"{number:.6g}" for number in numbers), runs, "far" if key in self.far else "near") for key, (unit, *numbers, runs) in self.rows.items())]:
                file.write("\t".join(map(str, row)) + "\n")

    def median(self, measure, system, mtu, x):
        row = self.rows.get((measure, system, str(mtu), x))
        return row[1] if row else None

    def of(self, measure, mtu=None):
        return {key: row for key, row in self.rows.items() if key[0] == measure and mtu in (None, key[2])}

    def mtus(self, measure):
        return list(dict.fromkeys(key[2] for key in self.rows if key[0] == measure))


def rounded(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3g}"


def cell(row):
    _, median, least, most, runs = row
    return rounded(median) + (f" ({rounded(least)} .. {rounded(most)})" if runs > 1 else "")


def place(x):
    """Sizes and counts by their value; others stay in place."""
    found = re.fullmatch(r"(\d+)([KM]?)", x)
    return int(found.group(1)) << {"": 0, "K": 10, "M": 20}[found.group(2)] if found else 0


def grid(results, measure, mtu, head):
    """Systems down, x across."""
    rows = results.of(measure, mtu)
    across = sorted(dict.fromkeys(key[3] for key in rows), key=place)
    down = list(dict.fromkeys(key[1] for key in rows))
    lines = [[name, *(cell(rows[measure, name, mtu, x]) + (" far" if (measure, name, mtu, x) in results.far else "") if (measure, name, mtu, x) in rows else "" for x in across)] for name in down]
    return table([head, *across], lines)


TITLES = {
    "bandwidth": "Bandwidth over size, Gbit/s", "latency": "Latency over size, one way (of READ: both), us", "CPU": "CPU seconds a gigabyte, both programs",
    "messages": "64-byte WRITEs over queue pairs, millions a second", "goodput": "Goodput of 64 KiB WRITEs over losses, Gbit/s", "memory": "Memory, bytes",
    "queue pairs": "One program, over its number of RC queue pairs, used in turn", "threads": "WRITEs of several threads or programs, thousands a second, all together",
    "seldom polling": "READs of 1 MiB, by what the server does", "sleepers": "Request and reply of 64 bytes between programs that sleep, round trip", "connecting": "RDMA-CM, by step, us",
}


def tables(results):
    """By measure: Markdown."""
    out = {}
    for measure in dict.fromkeys(key[0] for key in results.rows if key[0] != "bounds"):  # bounds.py has the table of bounds
        parts = []
        for mtu in results.mtus(measure):
            parts.append(f"{TITLES.get(measure, measure)}; MTU {mtu}; median (least .. most)\n\n" + grid(results, measure, mtu, ""))
        if measure in PICTURES:
            parts.append(f"![{measure} over size](../figures/{measure}-over-size.svg)\n")
        out[measure] = "\n".join(parts)
    return out


MACHINE = "Two hosts of one machine (two virtual processors), a veth pair without a limit of its rate; path MTU 4096 at MTU 9000, 1024 at MTU 1500."
PICTURES = {"bandwidth": ("bandwidth, Gbit/s", [0.001, 0.01, 0.1, 1, 10, 100]), "latency": ("latency, one way, us", [1, 10, 100, 1000, 10000, 100000])}


class Goals:
    """Each with its figure; the benchmark reports and does not judge by exit code."""

    def __init__(self, results):
        self.results, self.lines = results, []
        self.worst_sizes = {}  # by measure, competitor and MTU
        for mtu in ("9000", "1500"):
            self.of_mtu(mtu)
        self.messages()
        self.loads()
        self.against_others()
        self.goodput()

    def line(self, text, value, goal, at_most=False):
        if value is None:
            return
        met = value <= goal if at_most else value >= goal
        self.lines.append([text, rounded(value), f"at {'most' if at_most else 'least'} {goal}", "met" if met else "not met"])

    def ratio(self, measure, mtu, x, above, below):
        over, under = self.results.median(measure, above, mtu, x), self.results.median(measure, below, mtu, x)
        return over / under if over is not None and under else None

    def of_mtu(self, mtu):
        self.line(f"`ib_write_bw` 64 KiB over TCP, MTU {mtu}", self.ratio("bandwidth", mtu, "64K", "ours, bitmap", "iperf3 TCP"), 3.0)
        self.line(f"`ib_write_bw` 64 KiB over raw UDP with the same work, MTU {mtu}", self.ratio("bandwidth", mtu, "64K", "ours, bitmap", "raw UDP, same work"), 0.85)
        for verb in ("READ", "SEND"):
            self.line(f"{verb} over WRITE, 64 KiB, MTU {mtu}", self.ratio("bandwidth", mtu, "64K", f"ours, {verb}", "ours, bitmap"), 0.9)
        self.line(f"`ib_write_lat` 8 B over raw UDP ping-pong, MTU {mtu}", self.ratio("latency", mtu, "8", "ours, bitmap", "raw UDP"), 1.3, at_most=True)
        self.line(f"the same over AF_XDP, MTU {mtu}", self.ratio("latency", mtu, "8", "ours, AF_XDP", "raw UDP"), 1.0, at_most=True)

    def messages(self):
        for way, goal in (("single posts", 1.0), ("lists of 64", 5.0)):
            self.line(f"64-byte WRITEs, one queue pair, {way}, millions a second", self.results.median("messages", f"ours, bitmap, {way}", "9000", "1"), goal)

    def loads(self):
        def median(measure, name, x):
            return self.results.median(measure, name, "9000", x)

        def over(measure, name, x, below):
            above, under = median(measure, name, x), median(measure, *below)
            return above / under if above is not None and under else None
        # Over many queue pairs each message has an acknowledgement of its own to process, over one some share one: so
        # per packet.
        for cost, what in (("CPU ns a packet, client", "CPU time"), ("instructions a packet, client", "instructions")):
            self.line(f"20,000 queue pairs used in turn: {what} of a packet over one queue pair", over("queue pairs", cost, "20000", (cost, "1")), 1.5, at_most=True)
            self.line("the same over 100 queue pairs", over("queue pairs", cost, "20000", (cost, "100")), 1.5, at_most=True)
        self.line("memory of an idle queue pair, bytes", median("memory", "RC queue pair, idle", "connected"), 2048, at_most=True)
        for size in ("64", "64K"):
            self.line(f"two threads over two programs, WRITEs of {size}", over("threads", f"threads, {size}", "2", (f"programs, {size}", "2")), 1.0)
            self.line(f"the same, a shard each, WRITEs of {size}", over("threads", f"threads, a shard each, {size}", "2", (f"programs, {size}", "2")), 1.0)
        bandwidth = "client's bandwidth, Gbit/s"
        self.line("READ 1 MiB of a server that computes over one that polls", over("seldom polling", bandwidth, "compute, polling every 100 ms", (bandwidth, "poll")), 0.5)

    def against_others(self):
        """The size with the smallest lead."""
        for other in ("UCX tcp", "libfabric tcp", "libfabric udp;ofi_rxd"):
            for measure, sizes in (("bandwidth", SIZES), ("latency", LATENCY_SIZES)):
                for mtu in self.results.mtus(measure):
                    ratios = [(self.ratio(measure, mtu, size_name(size), *(("ours, bitmap", other) if measure == "bandwidth" else (other, "ours, bitmap"))), size_name(size)) for size in sizes]
                    ratios = [each for each in ratios if each[0] is not None]
                    if ratios:
                        worst, size = min(ratios)
                        self.worst_sizes[measure, other, mtu] = size
                        self.line(f"{measure} against {other}, MTU {mtu}: how far ahead at the worst size ({size})", worst, 1.0)

    def goodput(self):
        for loss, goal in (("1 %", 0.95), ("5 %", 0.85)):
            whole, lossy = (self.results.median("goodput", "bitmap", "9000", x) for x in ("0 %", loss))
            self.line(f"goodput at {loss} loss over lossless", lossy / whole if whole and lossy else None, goal)

    def markdown(self):
        return table(["goal", "measured", "wanted", ""], self.lines)


def pictures(results, folder):
    names = [size_name(size) for size in LATENCY_SIZES]
    for measure, (label, ticks) in PICTURES.items():
        mtus = results.mtus(measure)
        if not mtus:
            continue
        panels = []
        systems = list(dict.fromkeys(key[1] for key in results.of(measure)))
        systems = [name for name in systems if any(sum(key[1] == name for key in results.of(measure, mtu)) > 1 for mtu in mtus)]  # curves, not points
        for mtu in mtus:
            panels.append((f"MTU {mtu}", [(name, [(x, results.median(measure, name, mtu, x)) for x in names if results.median(measure, name, mtu, x) is not None]) for name in systems]))
        shown = [x for x in names if any(x == key[3] for key in results.of(measure))]
        most = max(row[4] for row in results.of(measure).values())
        figure(os.path.join(folder, f"{measure}-over-size.svg"), TITLES[measure].rsplit(",", 1)[0], f"{MACHINE} Medians of 1 to {most} runs.",
               Axis("message size, bytes", shown, steps=True), Axis(label, ticks, log=True), panels, direct=False)


def parts(path):
    """The document's parts that hold numbers of a file of results, from the file alone: they cannot differ from it."""
    import bounds  # it needs this module
    results = Results()
    results.read(path)
    goals = Goals(results)
    return {**tables(results), "goals": goals.markdown(), "bounds": bounds.Bounds(results, goals).markdown()}


def fill(path, parts):
    """Puts each part between its marks of a document; the prose around them is not changed."""
    with open(path) as file:
        text = file.read()
    for name, part in parts.items():
        marks = re.compile(rf"(<!-- measured: {re.escape(name)} -->\n).*?(<!-- /measured -->)", re.S)
        text = marks.sub(lambda found: found.group(1) + "\n" + part + "\n" + found.group(2), text)
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":  # pictures again, from the numbers in a folder:   report.py FOLDER
    known = Results()
    known.read(os.path.join(sys.argv[1], "performance.tsv"))
    pictures(known, sys.argv[1])
