"""The lab against the simulator: the same link, the same loss, unmodified programs against the simulated stream.
   lab.py BUILD DIRECTORY [REPETITIONS]"""
import json
import os
import statistics
import subprocess
import sys

from chart import table
from same_network import checked, same_settings

RATE_MBIT, DELAY_US, QUEUE_KB, MTU, BYTES, POSTED, REQUESTS = 200, 500, 256, 4096, 65536, 64, 1000
POINTS = [(0, 0, 0), (1, 0, 0), (5, 0, 0), (1, 5, 8)]  # loss %, share of reordered packets %, places
PROMOTED = ("gaps_promoted_depth", "gaps_promoted_age", "gaps_promoted_stall", "gaps_promoted_path")
RESENT = tuple(f"retransmitted_by_{why}" for why in ("ffm", "nak", "ack", "timeout", "probe", "path"))
COLUMNS = ("bits_per_second", "packets", "lost", "retransmitted", "promoted", "misjudged")


def in_lab(build, program, point, seed):
    loss, share, depth = point
    network = ["--rate", f"{RATE_MBIT}mbit", "--delay", f"{DELAY_US}us", "--queue", f"{QUEUE_KB}kb", "--mtu", str(MTU), "--loss", f"{loss}%"]
    network += ["--reorder", f"{share}%,{depth}"] if depth else []
    command = [f"{build}/bin/brdma", "lab", "pair", "-j", "--name", f"figures{os.getpid()}", *network, "--seed", str(seed), "--",
               program, "-F", "-s", str(BYTES), "-n", str(REQUESTS), "-t", str(POSTED)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout)
    hosts = {host["host"]: host for host in report["hosts"]}
    receiver, sender = hosts["h1"]["counters"], hosts["h2"]["counters"]
    link = next(host for host in report["switch"]["hosts"] if host["host"] == "h1")["to_host"]
    result = next(line.split() for line in hosts["h2"]["output"].splitlines() if line.split()[:2] == [str(BYTES), str(REQUESTS)])
    return {"bits_per_second": float(result[3]) * (1 << 20) * 8, "packets": sender["sent_data_pkts"], "lost": link["lost"] + link["queue_dropped"],
            "retransmitted": sum(sender[name] for name in RESENT), "promoted": sum(receiver[name] for name in PROMOTED),
            "misjudged": receiver["misjudgement_corrections"], "network": report["switch"]["network"]}


def simulated(build, point, seed):
    loss, share, depth = point
    milliseconds = BYTES * 8 * REQUESTS // (RATE_MBIT * 1000)
    words = [RATE_MBIT, DELAY_US, QUEUE_KB, MTU, BYTES, POSTED, loss * 10_000, share * 10_000, depth, milliseconds, seed]
    out = subprocess.run([f"{build}/bin/stream_point", *map(str, words)], capture_output=True, text=True, timeout=120, check=True).stdout
    return dict(zip(COLUMNS, map(float, out.split())))


def per(what, of):
    return what / of if of else 0.0


def spread(values, form):
    return form.format(statistics.median(values)) + (" (" + form.format(min(values)) + ".." + form.format(max(values)) + ")" if max(values) > min(values) else "")


def main(build, directory, repetitions):
    ways = {"ib_write_bw": lambda point, seed: in_lab(build, "ib_write_bw", point, seed),
            "ib_send_bw": lambda point, seed: in_lab(build, "ib_send_bw", point, seed),
            "simulator": lambda point, seed: simulated(build, point, seed)}
    rows, lines, lossless = [], [], {}
    for point in POINTS:
        networks = {}
        for name, run in ways.items():
            runs = [run(point, seed) for seed in range(1, repetitions + 1)]
            if name != "simulator":
                networks[name] = runs[-1].pop("network")
                same_settings(networks)
            lossless.setdefault(name, statistics.median(each["bits_per_second"] for each in runs))
            rows += [[name, *point, seed, *(f"{each[column]:.0f}" for column in COLUMNS)] for seed, each in enumerate(runs, 1)]
            label = f"{point[0]} % loss" + (f", {point[1]} % come {point[2]} places late" if point[2] else "")
            lines.append([label, name, spread([each["bits_per_second"] / 1e6 for each in runs], "{:.1f}"),
                          spread([each["bits_per_second"] / lossless[name] for each in runs], "{:.3f}"),
                          spread([per(each["lost"], each["packets"]) * 100 for each in runs], "{:.2f}"),
                          spread([per(each["retransmitted"], each["lost"]) for each in runs], "{:.2f}"),
                          spread([per(each["promoted"], each["lost"]) for each in runs], "{:.2f}"), spread([each["misjudged"] for each in runs], "{:.0f}")])
    with open(f"{directory}/lab.tsv", "w") as file:
        for row in [["way", "loss_percent", "reordered_percent", "places", "seed", *COLUMNS], *rows]:
            file.write("\t".join(map(str, row)) + "\n")
    with open(f"{directory}/lab-tables.md", "w") as file:
        file.write(f"### Lab and simulator: {RATE_MBIT} Mbit/s, {DELAY_US} us each way, queue {QUEUE_KB} KiB, path MTU {MTU}, {REQUESTS} requests of {BYTES} bytes, "
                   f"{POSTED} posted; median (least..most) of {repetitions} runs\n")
        file.write(table(["", "", "Mbit/s", "of lossless", "lost, %", "sent again, of lost", "gaps judged lost, of lost packets", "misjudged"], lines))


if __name__ == "__main__":
    checked(main, sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 3)
