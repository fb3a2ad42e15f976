"""Bounds of goals, by measurement: the results of the minimal transport for the same work over UDP sockets (raw_bulk,
raw_messages, raw_pingpong) in the same run, expressed as the goal is; and the library's distance to them."""
from dataclasses import dataclass

from report import rounded, table

OURS, LEAST, RAW, TCP = "ours, bitmap", "raw UDP, same work", "raw UDP", "iperf3 TCP"
MEASURE = "bounds"  # of rows in performance.tsv


@dataclass(frozen=True)
class Bound:
    goal: str
    mtu: str
    wanted: float | None  # none: no goal of its own, for comparison
    bound: float
    ours: float
    at_most: bool = False

    @property
    def near(self):
        """1: as good as the bound."""
        return self.bound / self.ours if self.at_most else self.ours / self.bound

    @property
    def within_reach(self):
        if self.wanted is None:
            return ""
        return "within it" if (self.bound <= self.wanted if self.at_most else self.bound >= self.wanted) else "beyond it"


class Bounds:
    """`goals`: report.Goals, with the library's smallest lead over others."""

    def __init__(self, results, goals):
        self.results, self.rows = results, []
        for mtu in ("9000", "1500"):
            self.bandwidth(mtu, goals)
            self.add("`ib_write_lat` 8 B over raw UDP ping-pong", mtu, 1.3, self.over("latency", mtu, (LEAST, "8"), (RAW, "8")), self.over("latency", mtu, (OURS, "8"), (RAW, "8")), at_most=True)
        self.messages()
        self.queue_pairs()
        self.computing()

    def add(self, goal, mtu, wanted, bound, ours, at_most=False):
        if bound and ours:
            self.rows.append(Bound(goal, mtu, wanted, bound, ours, at_most))

    def over(self, measure, mtu, above, below):
        """Of two (system, x)."""
        over, under = (self.results.median(measure, system, mtu, x) for system, x in (above, below))
        return over / under if over is not None and under else None

    def bandwidth(self, mtu, goals):
        self.add("`ib_write_bw` 64 KiB over TCP", mtu, 3.0, *(self.over("bandwidth", mtu, (system, "64K"), (TCP, "64K")) for system in (LEAST, OURS)))
        other = "libfabric tcp"
        size = goals.worst_sizes.get(("bandwidth", other, mtu))
        if size:
            self.add(f"bandwidth against {other} at the worst size ({size})", mtu, 1.0, *(self.over("bandwidth", mtu, (system, size), (other, size)) for system in (LEAST, OURS)))

    def messages(self):
        self.add("64-byte WRITEs, one queue pair, lists of 64, millions a second", "9000", 5.0,
                 *(self.results.median("messages", name, "9000", "1") for name in (LEAST, f"{OURS}, lists of 64")))

    def queue_pairs(self):
        """A ratio of the minimal transport to itself bounds only a library that is as cheap over one: so the cost of a
        message is here as well."""
        for cost in ("CPU ns a message, client", "instructions a message, client"):
            names = (f"{LEAST}: {cost}", cost)
            self.add(f"{cost}, 20,000 queue pairs", "9000", None, *(self.results.median("queue pairs", name, "9000", "20000") for name in names), at_most=True)
            for below in ("1", "100"):
                self.add(f"{cost}: 20,000 queue pairs over {below}", "9000", None, *(self.over("queue pairs", "9000", (name, "20000"), (name, below)) for name in names), at_most=True)

    def computing(self):
        above = ("compute, polling every 100 ms", "poll")
        self.add("1 MiB of a server that computes over one that polls", "9000", 0.5,
                 *(self.over("seldom polling", "9000", *((name, x) for x in above)) for name in (f"{LEAST}, Gbit/s", "client's bandwidth, Gbit/s")))

    def markdown(self):
        lines = [[each.goal, each.mtu, rounded(each.wanted) if each.wanted else "", rounded(each.bound), each.within_reach, rounded(each.ours), rounded(each.near)] for each in self.rows]
        return table(["goal", "MTU", "wanted", "bound", "the goal is", "ours", "ours to the bound (1: at it)"], lines)

    def into(self, results):
        """As rows of the numbers, replacing those of an earlier run."""
        results.rows = {key: row for key, row in results.rows.items() if key[0] != MEASURE}
        for each in self.rows:
            for x, value in (("bound", each.bound), ("ours", each.ours), ("ours to the bound", each.near)):
                results.rows[MEASURE, each.goal, each.mtu, x] = ["", value, value, value, 1]
