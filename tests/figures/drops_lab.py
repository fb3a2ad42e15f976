"""Drop notification over real sockets: an unmodified ib_write_lat in the lab, whose switch drops at random.
   drops_lab.py BUILD DIRECTORY [REPETITIONS]"""
import json
import os
import statistics
import subprocess
import sys

from chart import table

BYTES, ITERATIONS = 16384, 1000
NETWORK = ["--rate", "1gbit", "--delay", "200us", "--mtu", "1024"]
LOSSES = ["0.1", "1", "10"]
WAYS = {"go-back-N": ("gobackn", "off"), "selective": ("selective", "off"), "FFM": ("bitmap", "off"), "FFM + EDN (control packet)": ("bitmap", "roce"),
        "FFM + EDN (ICMP)": ("bitmap", "icmp")}
RESENT = tuple(f"retransmitted_by_{why}" for why in ("ffm", "nak", "ack", "timeout", "probe", "path", "edn"))


# Iterations, us: mean, 99th percentile, longest. (One way: perftest halves what it measures.)
def run(build, way, loss, seed):
    mode, edn = WAYS[way]
    iterations = ITERATIONS if way != "go-back-N" or loss != LOSSES[-1] else ITERATIONS // 10  # it takes its time
    command = [f"{build}/bin/brdma", "lab", "pair", "-j", "--name", f"drops{os.getpid()}", *NETWORK, "--loss", f"{loss}%", "--edn", edn, "--seed", str(seed), "--",
               "ib_write_lat", "-F", "-s", str(BYTES), "-n", str(iterations)]
    environment = {**os.environ, "BRDMA_RECOVERY": mode}
    report = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=environment).stdout)
    client = next(host for host in report["hosts"] if host["host"] == "h2")
    words = next(line.split() for line in client["output"].splitlines() if line.split()[:2] == [str(BYTES), str(iterations)])
    counters = client["counters"]
    return {"mean_us": float(words[5]), "p99_us": float(words[7]), "max_us": float(words[3]), "resent": sum(counters[name] for name in RESENT),
            "by_edn": counters["retransmitted_by_edn"], "timeouts": counters["local_ack_timeout_err"]}


def main(build, directory, repetitions):
    rows, lines = [], []
    for way in WAYS:
        cells = []
        for loss in LOSSES:
            runs = [run(build, way, loss, seed) for seed in range(1, repetitions + 1)]
            rows += [[way, loss, seed, *(f"{value:g}" for value in each.values())] for seed, each in enumerate(runs, 1)]
            cells.append(" / ".join(f"{statistics.median(each[name] for each in runs):.0f}" for name in ("mean_us", "p99_us", "max_us")))
        lines.append([way, *cells])
    with open(f"{directory}/drops-lab.tsv", "w") as file:
        for row in [["way", "loss_percent", "seed", "mean_us", "p99_us", "max_us", "resent", "by_edn", "timeouts"], *rows]:
            file.write("\t".join(map(str, row)) + "\n")
    with open(f"{directory}/drops-lab-tables.md", "w") as file:
        file.write(f"### ib_write_lat in the lab: {BYTES} bytes, {' '.join(NETWORK)}; one way, us: mean / 99th percentile / longest, medians of {repetitions} runs\n")
        file.write(table(["", *(f"{loss} %" for loss in LOSSES)], lines))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 3)
