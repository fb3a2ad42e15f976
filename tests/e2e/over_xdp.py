#!/usr/bin/env python3
"""Runs another of these scripts over AF_XDP, both ways: `over_xdp.py SCRIPT [its options]`. Fails too where its programs' packets
went by UDP, to which all falls back without a word: by what each lab's hosts have counted when it goes. Needs root.
"""

import importlib
import json
import os
import subprocess
import sys

import management

COUNTERS = ("rcvd_pkts", "xdp_rcvd_pkts")


def counting(down, totals):
    """Lab.down() that adds up first what its hosts have counted."""

    def count_and_go(lab):
        for host in ("h1", "h2"):
            done = subprocess.run(lab.on(host, lab.brdma, "-j", "statistic", "show"), capture_output=True, text=True, timeout=management.PATIENCE, check=False)
            for row in json.loads(done.stdout) if done.returncode == 0 else []:
                for name in COUNTERS:
                    totals[name] += row[name]
        down(lab)

    return count_and_go


def main():
    if os.geteuid() != 0:
        print("skipped: an AF_XDP socket needs a brdmad that runs as root")
        return 77
    script = importlib.import_module(sys.argv[1])
    os.environ.update({"BRDMA_DATAPATH": "xdp", "BRDMA_TRANSMIT": "xdp"})
    totals = dict.fromkeys(COUNTERS, 0)
    management.Lab.down = counting(management.Lab.down, totals)
    sys.argv = sys.argv[1:]
    code = script.main()
    print(", ".join(f"{name} {count}" for name, count in totals.items()))
    # One process a receive queue: where a case has several on a host, the others have UDP.
    if totals["xdp_rcvd_pkts"] <= totals["rcvd_pkts"] / 4:
        print("FAIL too little came by AF_XDP")
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
