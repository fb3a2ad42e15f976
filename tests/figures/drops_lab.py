"""Drop notification over real sockets: an unmodified ib_write_lat in the lab, whose switch drops at random.
   drops_lab.py BUILD DIRECTORY [REPETITIONS]"""
import statistics
import sys

from chart import table
from lab_pair import Pair, turn_by_turn
from same_network import checked, same_measured, same_settings, shorter_by

BYTES, ITERATIONS, PACKET_BYTES = 16384, 1000, 1024
# Without a rate before the switch all queues are the switch's, which reports and marks.
NETWORK = ["--rate", "1gbit", "--uplink", "off", "--delay", "200us", "--mtu", str(PACKET_BYTES)]
LOSSES = ["0", "0.1", "1", "10"]
WAYS = {"go-back-N": ("gobackn", "off"), "selective": ("selective", "off"), "FFM": ("bitmap", "off"), "FFM + EDN (control packet)": ("bitmap", "roce"),
        "FFM + EDN (ICMP)": ("bitmap", "icmp")}


def run(build, way, loss, seed):
    """One way, us: mean, 99th percentile, longest."""
    mode, edn = WAYS[way]
    iterations = ITERATIONS if way != "go-back-N" or loss != LOSSES[-1] else ITERATIONS // 10  # it takes its time
    pair = Pair(build, [*NETWORK, "--loss", f"{loss}%" if loss != "0" else "0", "--edn", edn, "--seed", str(seed)],
                ["ib_write_lat", "-F", "-s", str(BYTES), "-n", str(iterations)], {"BRDMA_RECOVERY": mode})
    words, counters = pair.row(BYTES), pair.counters["h2"]
    return {"mean_us": float(words[5]), "p99_us": float(words[7]), "max_us": float(words[3]), "dropped": pair.dropped(), "resent": pair.resent(),
            "by_edn": counters["retransmitted_by_edn"], "timeouts": counters["local_ack_timeout_err"], "network": pair.network}


def main(build, directory, repetitions):
    runs = {}
    for loss in LOSSES:
        runs[loss] = turn_by_turn(WAYS, repetitions, lambda way, turn, loss=loss: run(build, way, loss, turn))
        for turn in zip(*runs[loss].values()):
            same_settings({way: each.pop("network") for way, each in zip(WAYS, turn)}, compared=["edn"])
    agreement = same_measured({way: [each["mean_us"] for each in runs["0"][way]] for way in WAYS}, {"go-back-N": shorter_by(PACKET_BYTES)})
    with open(f"{directory}/drops-lab.tsv", "w") as file:
        names = list(runs["0"]["FFM"][0])
        for row in [["way", "loss_percent", "seed", *names],
                    *([way, loss, seed, *(f"{value:g}" for value in each.values())] for way in WAYS for loss in LOSSES for seed, each in enumerate(runs[loss][way], 1))]:
            file.write("\t".join(map(str, row)) + "\n")
    cell = lambda each: " / ".join(f"{statistics.median(run[name] for run in each):.0f}" for name in ("mean_us", "p99_us", "max_us", "dropped", "resent"))
    with open(f"{directory}/drops-lab-tables.md", "w") as file:
        file.write(f"### ib_write_lat in the lab: {BYTES} bytes, {ITERATIONS} exchanges, {' '.join(NETWORK)}; one way, us: mean / 99th percentile / longest / "
                   f"packets dropped / sent again by the client; medians of {repetitions} runs\n")
        file.write(table(["", *(f"{loss} %" for loss in LOSSES)], [[way, *(cell(runs[loss][way]) for loss in LOSSES)] for way in WAYS]))
        file.write(f"\nTurn by turn; {agreement}. Go-back-N at {LOSSES[-1]} %: {ITERATIONS // 10} exchanges.\n")


if __name__ == "__main__":
    checked(main, sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 7)
