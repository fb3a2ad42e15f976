#!/usr/bin/env python3
"""The kernel's Soft-RoCE and this library against each other and themselves, over loss and reordering: goodput, the
number of sequence NAKs, and the packets sent for each needed one. Writes a table.
   figures.py --build BUILD --image IMAGE --out FILE
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "figures")]

from chart import table  # noqa: E402
from interop import GID, TIMEOUT_SECONDS, Ours, Rxe, pair  # noqa: E402
from lab import RESENT  # noqa: E402
from management import Lab  # noqa: E402

BYTES, REQUESTS, MTU, RUNS = 16384, 500, 1024, 3
NEEDED = REQUESTS * (BYTES // MTU)
POINTS = {"nothing": [], "0.1 % loss": ["--loss", "0.1%"], "1 % loss": ["--loss", "1%"], "5 % loss": ["--loss", "5%"],
          "5 % come 4 places late": ["--reorder", "5%,4"], "5 % come 16 places late": ["--reorder", "5%,16"]}


def counted(host):
    """Packets and sequence NAKs sent."""
    if isinstance(host, Rxe):
        counters = host.counters()
        return {"packets": counters["sent_pkts"], "naks": counters["out_of_seq_request"]}
    rows = host.lab.ask_json(host.host, "statistic")
    total = lambda *names: sum(row[name] for row in rows for name in names)
    return {"packets": total("sent_data_pkts", *RESENT), "naks": total("sent_seq_nak")}


def measure(responder, requester):
    command = f"ib_write_bw -x {GID} -F -s {BYTES} -n {REQUESTS}"
    before = counted(responder), counted(requester)
    output = []
    problem = pair(responder, requester, command, f"{command} {responder.address}", output)
    assert problem is None, problem
    after = counted(responder), counted(requester)
    line = next(line.split() for line in output[0].splitlines() if line.split()[:2] == [str(BYTES), str(REQUESTS)])
    delta = lambda side, name: after[side][name] - before[side][name] if after[side][name] >= before[side][name] else after[side][name]
    return {"rate": float(line[3]), "naks": delta(0, "naks"), "sent": delta(1, "packets") / NEEDED}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--image", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    lab = Lab(os.path.abspath(options.build), [], ["--hosts", "4", "--mtu", str(MTU), "--loss", "0%", "--delay", "200us", "--seed", "31"], "interopfig")
    guests = []
    try:
        guests = [Rxe(lab, host, os.path.abspath(options.image)) for host in ("h2", "h3")]
        ours = [Ours(lab, host) for host in ("h1", "h4")]
        for guest in guests:
            guest.wait_until_up()
        kinds = {"rxe": guests, "this library": ours}
        lines = []
        for point, network in POINTS.items():
            subprocess.run([lab.brdma, "lab", "set", "--name", lab.name, "--loss", "0%", "--reorder", "0%,1", *network], check=True, timeout=TIMEOUT_SECONDS)
            for requests in kinds:
                for answers in kinds:
                    runs = [measure(kinds[answers][1], kinds[requests][0]) for _ in range(RUNS)]
                    middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
                    lines.append([point, requests, answers, f"{middle['rate']:.2f}", f"{middle['naks']:.0f}", f"{middle['sent']:.2f}"])
                    print(*lines[-1], sep=" | ", flush=True)
        with open(options.out, "w") as file:
            file.write(f"### `ib_write_bw`, {REQUESTS} WRITEs of {BYTES // 1024} KiB, path MTU {MTU}, 200 us each way; median of {RUNS} runs\n")
            file.write(table(["the network does", "requester", "responder", "MB/s", "sequence NAKs", "packets sent, of needed"], lines))
    finally:
        for guest in guests:
            guest.stop()
        lab.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
