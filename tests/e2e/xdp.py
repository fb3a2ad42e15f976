#!/usr/bin/env python3
"""AF_XDP under running programs: which packets use it, and the state after programs, brdmad's worker or the interface's
MTU go away. Each case is a function; passed: no assertion fails. Last line: `N passed, M failed`. Needs root.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import cases
import management
from management import only

BOTH = {"BRDMA_DATAPATH": "xdp", "BRDMA_TRANSMIT": "xdp"}


def datapath(lab, host):
    device = only(lab.ask_json(host, "-d", "dev", "show"))
    return only(device["datapaths"])


def sent(lab, host):
    return datapath(lab, host)["sent_pkts"]


def wait_for_more(lab, host):
    """Packets leave by AF_XDP, now."""
    before = sent(lab, host)
    lab.wait_for("packets sent by AF_XDP", host, "-d", "dev", "show", until=lambda rows: rows[0]["datapaths"][0]["sent_pkts"] > before + 100)


def program_attached(lab, host):
    return "xdp" in subprocess.run(lab.on(host, "ip", "-details", "link", "show", "eth0"), capture_output=True, text=True, check=True).stdout


# Process numbers are the host's own.
def kill(lab, host, pid):
    subprocess.run(lab.on(host, "kill", "-9", str(pid)), check=True)


def worker(lab, host):
    ask = "import socket; s = socket.socket(socket.AF_UNIX); s.connect(chr(0) + 'brdmad'); s.sendall(b'{\"query\":\"version\"}\\n'); print(s.makefile().readline())"
    return json.loads(subprocess.run(lab.on(host, "python3", "-c", ask), capture_output=True, text=True, check=True).stdout)["worker_pid"]


def wait_for_brdmad(lab, host):
    """Until it listens: the flag of a listening socket is 00010000 in /proc/net/unix."""
    end = time.monotonic() + management.TIMEOUT_SECONDS
    while True:
        done = subprocess.run(lab.on(host, "cat", "/proc/net/unix"), capture_output=True, text=True, check=True)
        if any(line.endswith(" @brdmad") and " 00010000 " in line for line in done.stdout.splitlines()):
            return
        assert time.monotonic() < end, f"no brdmad listens on {host}"
        time.sleep(0.02)


def packets_leave_by_xdp(lab):
    lab.traffic()
    for host in ("h1", "h2"):
        found = datapath(lab, host)
        assert found["receive"] == "xdp" and found["transmit"] == "xdp", found
        assert only(lab.ask_json(host, "resource", "show", "qp"))["transmits_by"] == "xdp"
        wait_for_more(lab, host)
    # Only packets sent before the kernel knew the neighbour, or when it rechecked it.
    found = datapath(lab, "h2")
    assert found["unresolved_pkts"] < found["sent_pkts"] / 10, found


def a_killed_program_leaves_nothing(lab):
    lab.traffic()
    assert program_attached(lab, "h2")
    kill(lab, "h2", datapath(lab, "h2")["pid"])
    lab.wait_for("end", "h2", "resource", "show", "ctx", until=lambda rows: rows == [])
    assert not program_attached(lab, "h2")
    # The next program gets it again.
    for program in lab.programs:
        program.kill()
    lab.wait_for("end", "h1", "resource", "show", "ctx", until=lambda rows: rows == [])
    lab.traffic()
    assert datapath(lab, "h2")["transmit"] == "xdp", datapath(lab, "h2")


def a_worker_that_dies_is_not_noticed(lab):
    lab.traffic()
    first = worker(lab, "h2")
    kill(lab, "h2", first)
    wait_for_more(lab, "h2")
    found = datapath(lab, "h2")
    assert found["receive"] == "xdp" and found["transmit"] == "xdp", found
    assert worker(lab, "h2") != first


def a_smaller_mtu_and_back(lab):
    lab.traffic()
    for mtu in ("1500", "9000"):
        subprocess.run(lab.on("h2", "ip", "link", "set", "eth0", "mtu", mtu), check=True)
    wait_for_more(lab, "h2")
    assert datapath(lab, "h2")["transmit"] == "xdp"


def who_has_no_right_receives_all_the_same(lab):
    """brdmad has it, the client has not."""
    bare = ["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"]
    lab.start("h2", os.path.join(os.path.dirname(lab.brdma), "brdmad"), "--foreground")
    wait_for_brdmad(lab, "h2")  # else the client starts one of its own, without the right
    lab.start("h1", "ib_write_bw", "-D", "600")
    lab.connect(*bare, "ib_write_bw", "-D", "600")
    for host in ("h1", "h2"):
        lab.wait_for("traffic", host, "resource", "show", "qp", until=lambda rows: rows and rows[0]["mode"] == "bitmap")
    found = datapath(lab, "h2")
    assert found["receive"] == "xdp" and found["transmit"] == "udp", found
    assert "CAP_NET_RAW" in found["transmit_reason"], found
    assert datapath(lab, "h1")["transmit"] == "xdp"


CASES = [who_has_no_right_receives_all_the_same, packets_leave_by_xdp, a_killed_program_leaves_nothing, a_worker_that_dies_is_not_noticed, a_smaller_mtu_and_back]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    cases.add_options(parser)
    options = parser.parse_args()
    if os.geteuid() != 0 or options.as_nobody:
        print("skipped: an AF_XDP socket needs a brdmad that runs as root")
        return 77
    os.environ.update(BOTH)
    chosen = [(case.__name__, lambda user: management.Lab(user.build, user.prefix, [], name="e2exdp"), case) for case in CASES]
    return cases.run(options, chosen)


if __name__ == "__main__":
    sys.exit(main())
