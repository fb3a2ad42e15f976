"""The figures of docs/howto/switches.md: programs over the lab, on the same network except for the switch's
functions. switches_lab.py BUILD DIRECTORY [REPETITIONS]"""
import sys

from chart import table
from lab_pair import Pair, spread, turn_by_turn
from same_network import checked, same_measured, same_settings

# Without a rate before the switch all queues are the switch's, which reports and marks.
EDN_NETWORK = ["--rate", "1gbit", "--uplink", "off", "--delay", "500us", "--mtu", "1024"]
SEND_LAT = ["ib_send_lat", "-F", "-s", "16384", "-n", "1000"]
WRITE_BW = ["ib_write_bw", "-F"]
# The only queue is before the receiver: 256 KiB, 2.1 ms. TIMELY's limits lie within it.
ECN_NETWORK = ["--rate", "1gbit", "--uplink", "off", "--delay", "100us", "--ecn", "20kb,80kb,10%"]
TIMELY = {"BRDMA_CONGESTION": "timely", "BRDMA_ECN": "ect0", "BRDMA_TIMELY_LOW_US": "500", "BRDMA_TIMELY_HIGH_US": "1500"}
CONTROLS = {"window (default)": ("off", {}), "timely": ("off", TIMELY), "timely, translated": ("200us", TIMELY),
            "dcqcn": ("off", {"BRDMA_CONGESTION": "dcqcn"})}


def one_network(runs, compared):
    for turn in zip(*runs.values()):
        same_settings({way: pair.network for way, pair in zip(runs, turn)}, compared=compared)


def latency(pair, column):
    return float(pair.row(16384)[column])


def bandwidth(pair):
    return float(pair.row(65536)[3]) * 1.048576


def notification(build, repetitions):
    ways = ["off", "roce", "icmp"]
    agreements, rows, points = [], [], []
    for program, figures in ((SEND_LAT, [("mean, ms", lambda pair: latency(pair, 5) / 1000), ("99th percentile, ms", lambda pair: latency(pair, 7) / 1000)]),
                             (WRITE_BW, [("MB/s", bandwidth)])):
        measure = lambda loss: turn_by_turn(ways, repetitions, lambda way, turn: Pair(build, [*EDN_NETWORK, "--loss", loss, "--edn", way, "--seed", str(turn)], program, {}))
        clean, lossy = measure("0"), measure("10%")
        for runs in (clean, lossy):
            one_network(runs, ["edn"])
        agreements.append(same_measured({way: [figures[0][1](pair) for pair in clean[way]] for way in ways}))
        for name, figure in figures:
            rows.append([f"`{' '.join(word for word in program if word != '-F')}`, {name}", *(spread([figure(pair) for pair in lossy[way]]) for way in ways)])
        rows.append(["packets dropped / sent again", *(f"{spread([pair.dropped() for pair in lossy[way]], 0)} / {spread([pair.resent() for pair in lossy[way]], 0)}" for way in ways)])
        for loss, runs in (("0", clean), ("10", lossy)):
            for way in ways:
                for turn, pair in enumerate(runs[way], 1):
                    points.append(["edn", program[0], way, loss, turn, *(f"{figure(pair):.4g}" for _, figure in figures), *[""] * (2 - len(figures)), pair.dropped(), pair.resent(), pair.lost_by_machine()])
    text = (f"### Drop notification: {' '.join(EDN_NETWORK)} --loss 10% --edn ...; median (lowest .. highest) of {repetitions} runs\n" +
            table(["", *(f"`{way}`" for way in ways)], rows) + "\nWithout loss: " + "; ".join(f"`{program}`, {each}" for program, each in zip(("ib_send_lat", "ib_write_bw"), agreements)) + ".\n")
    return text, points


def translation(build, repetitions):
    def run(program):
        def of(way, turn):
            translate, environment = CONTROLS[way]
            return Pair(build, [*ECN_NETWORK, "--ecn-to-rtt", translate, "--seed", str(turn)], program, environment)
        return of
    lone = turn_by_turn(CONTROLS, repetitions, run(SEND_LAT))
    runs = turn_by_turn(CONTROLS, repetitions, run(WRITE_BW))
    for each in (lone, runs):
        one_network(each, ["ecn-to-rtt"])
    agreement = same_measured({way: [latency(pair, 5) for pair in lone[way]] for way in CONTROLS})
    rows, points = [], []
    for way, pairs in runs.items():
        packets = [pair.counters["h2"]["sent_data_pkts"] for pair in pairs]
        percent = lambda counts, packets=packets: spread([100 * count / total for count, total in zip(counts, packets)])
        rows.append([way, spread([bandwidth(pair) for pair in pairs], 1), percent([pair.dropped() for pair in pairs]), percent([pair.resent() for pair in pairs]),
                     spread([pair.switch["ecn"]["set"] + pair.switch["ecn"]["taken_over"] for pair in pairs], 0)])
        points += [["ecn", WRITE_BW[0], way, "", turn, f"{bandwidth(pair):.4g}", "", pair.dropped(), pair.resent(), pair.lost_by_machine()] for turn, pair in enumerate(pairs, 1)]
        points += [["ecn", SEND_LAT[0], way, "", turn, f"{latency(pair, 5):.4g}", "", pair.dropped(), pair.resent(), pair.lost_by_machine()] for turn, pair in enumerate(lone[way], 1)]
    text = (f"### ECN to RTT: `ib_write_bw`, {' '.join(ECN_NETWORK)}, ECN-to-RTT 200 us where translated; median (lowest .. highest) of {repetitions} runs\n" +
            table(["", "MB/s", "packets dropped, %", "sent again, %", "marks"], rows) + f"\nOne exchange of `ib_send_lat -s 16384` at a time, nothing dropped: {agreement}.\n")
    return text, points


def main(build, directory, repetitions):
    notified, notified_points = notification(build, repetitions)
    marked, marked_points = translation(build, repetitions)
    with open(f"{directory}/switches-lab.tsv", "w") as file:
        file.write("what\tprogram\tway\tloss_percent\tturn\tfirst\tsecond\tdropped\tresent\tlost_by_machine\n")
        for point in [*notified_points, *marked_points]:
            file.write("\t".join(map(str, point)) + "\n")
    with open(f"{directory}/switches-lab-tables.md", "w") as file:
        file.write(notified + "\n" + marked)


if __name__ == "__main__":
    checked(main, sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 7)
