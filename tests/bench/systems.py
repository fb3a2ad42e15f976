"""The measured systems, one class for each competitor: bandwidth(lab, size) and latency(lab, size), both of unmodified
programs. A new competitor is a class here and a line in SYSTEMS."""
import json
import os
import re
from dataclasses import dataclass

from hosts import ADDRESS

SIZES = [2, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20]
LATENCY_SIZES = [2, 8, *SIZES[1:]]  # 8 bytes: a goal uses it


@dataclass(frozen=True)
class Bandwidth:
    gbit: float
    cpu_seconds_per_gb: float  # of both programs, start and connection included


def per_gb(ended, gigabytes):
    return sum(each.cpu_seconds for each in ended) / gigabytes if gigabytes else 0.0


class System:
    name = ""
    bandwidth_sizes, latency_sizes = tuple(SIZES), tuple(LATENCY_SIZES)
    # Limits of a run: bytes, and messages or turns.
    bytes_max, messages_max, turns_max = 2 << 30, 300_000, 10_000
    # As many as take so long, once the speed is known; a quarter of the maximum before.
    bandwidth_seconds, latency_seconds = 0.6, 0.4

    def __init__(self):
        self.rates = {}  # messages and turns a second, by what and size

    def learn(self, what, size, a_second):
        self.rates[what, size] = a_second

    def count(self, what, size, most, seconds):
        rate = self.rates.get((what, size))
        return max(20 if size < 1 << 20 else 5, most // 4 if rate is None else min(most, int(rate * seconds)))

    def fits(self, size, mtu):
        """Whether a latency of this size can be measured over this MTU."""
        return size in self.latency_sizes

    def messages(self, size):
        return self.count("bandwidth", size, min(self.messages_max, self.bytes_max // size), self.bandwidth_seconds)

    def turns(self, size):
        return self.count("latency", size, min(self.turns_max, self.bytes_max // 16 // size), self.latency_seconds)


class Ours(System):
    """Debian's perftest over this library."""

    port = 18515

    def __init__(self, name, verb="write", environment=None):
        super().__init__()
        self.name, self.verb, self.environment = name, verb, environment
        if verb != "write":  # beside the curves of WRITE, two points
            self.bandwidth_sizes, self.latency_sizes = (64 << 10,), (8,)

    def row(self, lab, program, more=()):
        """The last row of the result, and the programs' CPU time."""
        words = [program[0], *program[1:], "-F", *more]
        ended = lab.pair(words, self.port, environment=self.environment)
        rows = [line.split() for line in ended[0].output.splitlines() if re.match(r"^ \d+ ", line)]
        if not rows:
            raise RuntimeError(f"no result of {' '.join(words)}: {ended[0].output[-300:]}")
        return rows[-1], ended

    def bandwidth(self, lab, size):
        count = self.messages(size)
        row, ended = self.row(lab, [f"ib_{self.verb}_bw"], ["-s", str(size), "-n", str(count), "-m", str(lab.path_mtu), "--report_gbits"])
        return Bandwidth(float(row[3]), per_gb(ended, size * count / 1e9))

    def latency(self, lab, size):
        row, _ = self.row(lab, [f"ib_{self.verb}_lat"], ["-s", str(size), "-n", str(self.turns(size)), "-m", str(lab.path_mtu)])
        return float(row[4])

    def message_rate(self, lab, size=64, queue_pairs=1, posting_list=1):
        """Millions a second."""
        words = ["-s", str(size), "-q", str(queue_pairs), "-m", str(lab.path_mtu)]
        # Of each queue pair; a multiple of the list. Depth as by default where 64 queue pairs share what there is.
        count = max(1024, (640_000 if posting_list > 1 else 384_000) // queue_pairs)
        words += ["-n", str(count - count % 512), "-l", str(posting_list), "-t", "512"] if posting_list > 1 else ["-n", str(count)]
        return float(self.row(lab, ["ib_write_bw"], words)[0][4])


class Ucx(System):
    """UCX over TCP: ucx_perftest, which polls."""

    name = "UCX tcp"
    bytes_max, messages_max = 1 << 30, 200_000
    environment = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "eth0", "UCX_WARN_UNUSED_ENV_VARS": "n"}

    def final(self, lab, test, size, count):
        words = ["ucx_perftest", "-t", test, "-s", str(size), "-n", str(count), "-w", str(max(count // 10, 1)), "-f"]
        ended = lab.pair([words[0], ADDRESS, *words[1:]], 13337, server=words, environment=self.environment)
        found = re.search(r"^Final:(.*)$", ended[0].output, re.M)
        row = (found.group(1) if found else ended[0].output.strip().splitlines()[-1]).split()
        return [float(word) for word in row], ended

    def bandwidth(self, lab, size):
        count = self.messages(size)
        row, ended = self.final(lab, "ucp_put_bw", size, count)
        return Bandwidth(row[5] * (1 << 20) * 8 / 1e9, per_gb(ended, size * (count + count // 10) / 1e9))

    def latency(self, lab, size):
        return self.final(lab, "ucp_put_lat", size, self.turns(size))[0][1]


class Libfabric(System):
    """libfabric's reliable datagrams over a provider. Latency: fi_pingpong, which Debian packages. It has no benchmark
    of bandwidth: fi_stream, of this folder."""

    def __init__(self, build, name, provider, bytes_max, messages_max, turns_max):
        super().__init__()
        self.stream, self.name, self.provider = os.path.join(build, "bin", "fi_stream"), name, provider
        self.bytes_max, self.messages_max, self.turns_max = bytes_max, messages_max, turns_max

    def bandwidth(self, lab, size):
        count = self.messages(size)
        ended = lab.pair([self.stream, self.provider, size, count], 18600)
        return Bandwidth(float(ended[0].output.split()[1]), per_gb(ended, size * count / 1e9))

    def latency(self, lab, size):
        words = ["fi_pingpong", "-p", self.provider, "-e", "rdm", "-m", "tagged", "-I", str(self.turns(size)), "-S", str(size)]
        rows = [line.split() for line in lab.pair(words, 47592)[0].output.splitlines() if re.match(r"^\d", line)]
        return float(rows[-1][6])


class Iperf(System):
    """The kernel's TCP, one stream; a size is the length of a write."""

    name = "iperf3 TCP"
    bandwidth_sizes = tuple(size for size in SIZES if size <= 1 << 20)
    latency_sizes = ()

    def bandwidth(self, lab, size):
        ended = lab.pair(["iperf3", "-c", ADDRESS, "-t", "1", "-l", str(size), "-J"], 5201, server=["iperf3", "-s", "-1"])
        total = json.loads(ended[0].output)["end"]["sum_received"]
        return Bandwidth(total["bits_per_second"] / 1e9, per_gb(ended, total["bytes"] / 1e9))


class RawUdp(System):
    """Plain UDP sockets with segmentation offload: the limit, without a transport's work."""

    name = "raw UDP"
    latency_sizes = (2, 8, 64, 1 << 10, 4 << 10)
    bandwidth_sizes = (64 << 10,)  # a limit of any size
    seconds = 0.5

    def __init__(self, build):
        super().__init__()
        self.folder = os.path.join(build, "bin")

    def fits(self, size, mtu):
        return size in self.latency_sizes and size + 60 <= mtu

    def value(self, lab, program, mode, *arguments):
        ended = lab.served(os.path.join(self.folder, program), 5999, [mode, ADDRESS, 5999, *arguments])
        return float(ended[0].output.split()[1]), ended

    def segments(self, lab):
        return 15 if lab.path_mtu == 4096 else 62

    def bandwidth(self, lab, size):
        gbit, ended = self.value(lab, "raw_udp", "bulk", lab.path_mtu, self.segments(lab), self.seconds)
        return Bandwidth(gbit, per_gb(ended, gbit * self.seconds / 8))

    def latency(self, lab, size):
        return self.value(lab, "raw_udp", "pingpong", size, 10_000)[0]

    def message_rate(self, lab, way):
        return self.value(lab, "raw_udp", "small", 64, way, self.seconds)[0] / 1e6


class RawSameWork(RawUdp):
    """The minimal reliable transport over UDP sockets, by kind of traffic: raw_bulk, raw_messages, raw_pingpong."""

    name = "raw UDP, same work"
    bandwidth_sizes = tuple(size for size in SIZES if size >= 4 << 10)

    def segments(self, lab):  # with its headers
        return 15 if lab.path_mtu == 4096 else 60

    def bandwidth(self, lab, size, *more):
        gbit, ended = self.value(lab, "raw_bulk", "run", size, lab.path_mtu, self.segments(lab), self.seconds, *more)
        return Bandwidth(gbit, per_gb(ended, gbit * self.seconds / 8))

    def latency(self, lab, size):
        return self.value(lab, "raw_pingpong", "run", size, 10_000)[0]

    def messages_in_turn(self, lab, connections, under_way, messages):
        """64 bytes over so many connections: words and their values."""
        words = self.value(lab, "raw_messages", "run", connections, under_way, messages)[1][0].output.split()
        return dict(zip(words[::2], map(float, words[1::2])))


def systems(build):
    """In the order of tables and pictures."""
    xdp = {"BRDMA_DATAPATH": "xdp"}
    return [
        Ours("ours, bitmap"),
        Ours("ours, standard", environment={"BRDMA_RECOVERY": "standard"}),
        Ours("ours, AF_XDP", environment=xdp),
        Ucx(),
        Libfabric(build, "libfabric tcp", "tcp", 1 << 30, 100_000, 3_000),
        Libfabric(build, "libfabric udp;ofi_rxd", "udp;ofi_rxd", 256 << 20, 50_000, 1_000),
        Iperf(),
        RawUdp(build),
        RawSameWork(build),
        Ours("ours, READ", "read"),
        Ours("ours, SEND", "send"),
    ]
