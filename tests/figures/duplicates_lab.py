"""Retransmissions, and how many of them had arrived: unmodified programs over the lab.   duplicates_lab.py BUILD
DIRECTORY [REPETITIONS]"""
import sys

from chart import table
from lab_pair import Pair, spread, turn_by_turn
from same_network import checked, same_settings

BYTES, REQUESTS, MTU = 65536, 3000, 4096
NETWORKS = {"1 % loss": ["--loss", "1%"], "1 % loss, 5 % come 8 places late": ["--loss", "1%", "--reorder", "5%,8"],
            "four paths, 100 us apart": ["--paths", "4", "--skew", "100us"], "four paths and 1 % loss": ["--paths", "4", "--skew", "100us", "--loss", "1%"]}
PROGRAMS = ["ib_write_bw", "ib_send_bw", "ib_read_bw"]


def point(pair, program):
    """Of the data: WRITE and SEND data goes to h1, READ data to h2."""
    both = lambda name: sum(counters.get(name, 0) for counters in pair.counters.values())
    receiver = pair.counters["h2" if program == "ib_read_bw" else "h1"]
    return {"packets": both("sent_data_pkts"), "dropped": pair.dropped(), "resent": pair.resent("h1") + pair.resent("h2"), "duplicates": receiver["drop_duplicate"],
            "requests_twice": pair.counters["h1"]["drop_duplicate"] if program == "ib_read_bw" else 0, "lost_by_machine": pair.lost_by_machine(), "network": pair.network}


def main(build, directory, repetitions):
    rows, lines = [], []
    for name, network in NETWORKS.items():
        runs = turn_by_turn(PROGRAMS, repetitions, lambda program, turn, network=network: point(Pair(
            build, [*network, "--mtu", str(MTU), "--seed", str(turn)], [program, "-F", "-s", str(BYTES), "-n", str(REQUESTS)], {}), program))
        for turn in zip(*runs.values()):
            same_settings({program: each.pop("network") for program, each in zip(runs, turn)})
        for program, points in runs.items():
            rows += [[name, program, turn, *each.values()] for turn, each in enumerate(points, 1)]
            lines.append([name, f"`{program}`", *(spread([each[what] for each in points], 0) for what in ("packets", "dropped", "resent", "duplicates", "requests_twice"))])
    with open(f"{directory}/duplicates-lab.tsv", "w") as file:
        for row in [["network", "program", "turn", "packets", "dropped", "resent", "duplicates", "requests_twice", "lost_by_machine"], *rows]:
            file.write("\t".join(map(str, row)) + "\n")
    with open(f"{directory}/duplicates-lab-tables.md", "w") as file:
        file.write(f"### Packets of {REQUESTS} requests of {BYTES} bytes, path MTU {MTU}, no rate; median (lowest .. highest) of {repetitions} runs\n")
        file.write(table(["", "", "of data", "lost", "sent again", "data that arrived twice", "READ requests that arrived twice"], lines))


if __name__ == "__main__":
    checked(main, sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 5)
