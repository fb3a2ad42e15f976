#!/usr/bin/env python3
"""Runs another of these scripts over AF_XDP, in both directions: `over_xdp.py SCRIPT [its options]`. Fails too if its
programs' packets went by UDP, the silent fallback: judged by the counters of each lab's hosts at its end. Needs root.
"""

import importlib
import json
import os
import subprocess
import sys

import management

COUNTERS = ("rcvd_pkts", "xdp_rcvd_pkts")
# The owner of take_down() for a script's lab; else it is management's.
LABS = {"reroute": ("Lab", "end"), "controlled": ("Network", "down")}


class Totals(dict):
    def __init__(self):
        super().__init__(dict.fromkeys(COUNTERS, 0))

    def add(self, counters):
        for name in COUNTERS:
            self[name] += counters[name]

    def add_lab(self, lab):
        for host in ("h1", "h2"):
            command = [*lab.prefix, lab.brdma, "lab", "exec", "--name", lab.name, host, "--", lab.brdma, "-j", "statistic", "show"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=management.TIMEOUT_SECONDS, check=False)
            for row in json.loads(done.stdout) if done.returncode == 0 else []:
                self.add(row)

    def before(self, down):
        """Takes a lab down, after adding up the counters of its hosts."""

        def count_and_go(lab):
            self.add_lab(lab)
            down(lab)

        return count_and_go

    def after(self, run):
        """A run of a pair of programs in a lab of their own, which reports each host's counters."""

        def run_and_count(*arguments):
            hosts, switch = run(*arguments)
            for counters in hosts.values():
                self.add(counters)
            return hosts, switch

        return run_and_count


def ended(main):
    try:
        return main()
    except SystemExit as end:
        return end.code


def main():
    if os.geteuid() != 0:
        print("skipped: an AF_XDP socket needs a brdmad that runs as root")
        return 77
    name, totals = sys.argv[1], Totals()
    script = importlib.import_module(name)
    os.environ.update({"BRDMA_DATAPATH": "xdp", "BRDMA_TRANSMIT": "xdp"})
    if name == "switch_feedback":
        script.run = totals.after(script.run)
    else:
        lab, down = LABS.get(name, ("Lab", "down"))
        of = getattr(script if name in LABS else management, lab)
        setattr(of, down, totals.before(getattr(of, down)))
    sys.argv = sys.argv[1:]
    code = ended(script.main)
    print(", ".join(f"{name} {count}" for name, count in totals.items()))
    # One process for each receive queue: if a case has several on a host, the others have UDP.
    if totals["xdp_rcvd_pkts"] <= totals["rcvd_pkts"] / 4:
        print("FAIL too little came by AF_XDP")
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
