#!/usr/bin/env python3
"""The interface goes away under running programs: for a moment, for good, or by deletion. By UDP and (`--datapath xdp`,
as root) by AF_XDP in both directions. A program continues, or ends with an error of its own: no signal, no hang. Each
case is a function; passed: no assertion fails. Last line: `N passed, M failed`.
"""

import argparse
import os
import subprocess
import sys
import time

import cases
import management
from management import only
from matrix import SIGNALLED

XDP = {"BRDMA_DATAPATH": "xdp", "BRDMA_TRANSMIT": "xdp"}


def link(lab, *words):
    for host_command in words:
        subprocess.run(lab.on("h2", "ip", "link", *host_command.split()), check=True)


def ends_with_an_error(program):
    output, _ = program.communicate(timeout=management.TIMEOUT_SECONDS)
    assert program.returncode != 0 and program.returncode not in SIGNALLED, f"exit code {program.returncode}\n{output[-2000:]}"
    return output


def over_xdp():
    return "BRDMA_DATAPATH" in os.environ


def went_by_what_it_should(lab):
    """Checks the datapath: a test that silently goes by UDP proves nothing."""
    counted = only(lab.ask_json("h2", "statistic", "show"))
    assert (counted["xdp_rcvd_pkts"] > counted["rcvd_pkts"] // 2) == over_xdp(), counted
    assert only(lab.ask_json("h2", "resource", "show", "qp"))["transmits_by"] == ("xdp" if over_xdp() else "udp")


def sent(lab):
    if over_xdp():
        return only(only(lab.ask_json("h2", "-d", "dev", "show"))["datapaths"])["sent_pkts"]
    return only(lab.ask_json("h2", "statistic", "show"))["sent_pkts"]


def traffic(lab):
    lab.traffic()
    went_by_what_it_should(lab)
    return lab.programs[-1]


def down_and_up_again(lab):
    """Shorter than the programs' retries last: they continue, by the same path."""
    traffic(lab)
    before = only(lab.ask_json("h2", "dev", "show"))
    for _ in range(3):
        link(lab, "set eth0 down", "set eth0 up")
    already = sent(lab)
    lab.wait_for("it goes on", "h2", "dev", "show", until=lambda rows: sent(lab) > already + 1000)
    assert only(lab.ask_json("h2", "dev", "show")) == before


def down_for_good(lab):
    """The work completes with an error when its retries are over; later programs get the reason why there is no
    device."""
    client = traffic(lab)
    link(lab, "set eth0 down")
    output = ends_with_an_error(client)
    assert "Failed status 12" in output or "transport retry counter exceeded" in output, output
    link(lab, "set eth0 up")
    # A sender to a neighbour of a disabled interface makes the kernel ask for it, for 3 s; a connect within that time
    # after it is up again reports the host as unreachable.
    subprocess.run(lab.on("h2", "ip", "neighbour", "flush", "dev", "eth0"), check=True)
    for program in lab.programs:
        program.kill()
    lab.wait_for("end", "h1", "resource", "show", "ctx", until=lambda rows: rows == [])
    lab.traffic()  # and the next ones run


def sleepers_hear_of_it(lab):
    """Programs that sleep until something comes. Of two that answer each other one has sent, and the error wakes it;
    the other waits for a message, and cannot notice."""
    both = [lab.start("h1", "ibv_rc_pingpong", "-g", "1", "-e", "-n", "100000000"), lab.connect("ibv_rc_pingpong", "-g", "1", "-e", "-n", "100000000")]
    lab.wait_for("traffic", "h2", "statistic", "show", until=lambda rows: rows and only(rows)["sent_pkts"] > 1000)
    link(lab, "set eth0 down")
    end = time.monotonic() + management.TIMEOUT_SECONDS
    while all(program.poll() is None for program in both):
        assert time.monotonic() < end, "neither gets an error"
        time.sleep(0.02)
    output = ends_with_an_error(next(program for program in both if program.poll() is not None))
    assert "transport retry counter exceeded" in output, output


def deleted(lab):
    client = traffic(lab)
    link(lab, "delete eth0")
    ends_with_an_error(client)
    # brdmad is there, has got the lease back, and reports its state.
    lab.wait_for("end", "h2", "resource", "show", "ctx", until=lambda rows: rows == [])
    assert only(lab.ask_json("h2", "statistic", "show"))["sent_pkts"] > 0


CASES = [down_and_up_again, down_for_good, sleepers_hear_of_it, deleted]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    cases.add_options(parser)
    parser.add_argument("--datapath", choices=("udp", "xdp"), default="udp")
    options = parser.parse_args()
    if options.datapath == "xdp" and (os.geteuid() != 0 or options.as_nobody):
        print("skipped: an AF_XDP socket needs a brdmad that runs as root")
        return 77
    for name in XDP:
        os.environ.pop(name, None)
    if options.datapath == "xdp":
        os.environ.update(XDP)
    return cases.run(options, [(case.__name__, lambda user: management.Lab(user.build, user.prefix, [], name="e2eif"), case) for case in CASES])


if __name__ == "__main__":
    sys.exit(main())
