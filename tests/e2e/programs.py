#!/usr/bin/env python3
"""Runs unmodified verbs programs between two lab hosts and judges their results.

A case: one program with its options on one network, by `brdma lab pair`. Passed: exit code 0 of both ends, and if the
network impairs, its counters show that. Last line: `N passed, M failed`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

NETWORKS = {
    "clean": [],
    "loss1": ["--loss", "1%", "--seed", "11"],
    "loss5": ["--loss", "5%", "--reorder", "5%,8", "--seed", "12"],
    "dup1": ["--duplicate", "1%", "--seed", "13"],
    "paths4": ["--paths", "4", "--skew", "100us", "--loss", "1%", "--seed", "14"],
    "one_of_4": ["--paths", "4", "--skew", "100us", "--loss", "1%", "--seed", "15"],
    "xdp": [],
    "xdp1": ["--loss", "1%", "--reorder", "2%,4", "--seed", "17"],
    "xdptx": [],
    "xdptx1": ["--loss", "1%", "--reorder", "2%,4", "--seed", "18"],
    "silent": ["--paths", "4", "--skew", "20us", "--path-loss", "100%", "--seed", "16"],
}
# The programs' additional environment. (The lab makes them send on all of its paths.)
SETTINGS = {"one_of_4": {"BRDMA_PATHS": "1"}, "xdp": {"BRDMA_DATAPATH": "xdp"}, "xdp1": {"BRDMA_DATAPATH": "xdp"},
            "xdptx": {"BRDMA_DATAPATH": "xdp", "BRDMA_TRANSMIT": "xdp"}, "xdptx1": {"BRDMA_DATAPATH": "xdp", "BRDMA_TRANSMIT": "xdp"}}
# Evidence that a network impaired: the switch's counter, and the number of packets from which it is certain enough to
# be required.
IMPAIRED = {"loss1": "lost", "loss5": "lost", "dup1": "duplicated", "paths4": "lost", "one_of_4": "lost", "silent": "lost", "xdp1": "lost", "xdptx1": "lost"}
CERTAIN_PACKETS = 2000
# The WRITE tools have no -e: their peers see no completion to sleep on.
WITH_EVENTS = {"ib_send_bw", "ib_send_lat", "ib_read_bw", "ib_read_lat", "ib_atomic_bw", "ib_atomic_lat"}


# Sizes to 8 MiB with perftest's default 1000 iterations and more would move tens of gigabytes: fewer where sizes are swept.
def bandwidth(tool, impaired):
    return [
        [tool],
        [tool, "-a", "-n", "20" if impaired else "100"],
        [tool, "-b", "-n", "1000"],
        [tool, "-q", "4", "-n", "1000"],
        [tool, "-n", "20000", "-s", "64"],
        [tool, "-s", "2", "-n", "1000"],
        [tool, "-s", "8388608", "-n", "5" if impaired else "20"],
    ] + ([[tool, "-e", "-n", "1000"]] if tool in WITH_EVENTS else [])


def latency(tool, impaired):
    return [
        [tool],
        [tool, "-a", "-n", "20"],
        [tool, "-n", "20000", "-s", "8"],
        [tool, "-s", "8388608", "-n", "5" if impaired else "10"],
    ] + ([[tool, "-e", "-n", "500"]] if tool in WITH_EVENTS else [])


# The default lane: a short form of the matrix.
def short_bandwidth(tool, network, impaired):
    if impaired:
        return [[tool, "-n", "500"]]
    # A tool measures the processor's clock for 0.4 s before each size: one does all 23 of -a, on one network; the
    # others five of them.
    sizes = [[tool, "-a", "-n", "5"]] if (tool, network) == ("ib_write_bw", "clean") else [[tool, "-s", size, "-n", "5"] for size in ("2", "512", "8192", "262144", "8388608")]
    return [[tool], *sizes] + ([[tool, "-e", "-n", "200"]] if tool in WITH_EVENTS else [])


def short_latency(tool):
    return [[tool]] + ([[tool, "-e", "-n", "200"]] if tool in WITH_EVENTS else [])


def atomic(impaired):
    cases = []
    for tool in ("ib_atomic_bw", "ib_atomic_lat"):
        for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
            cases.append([tool, "-A", kind])
        cases.append([tool, "-e", "-n", "500"])
    return cases + [["ib_atomic_bw", "-b", "-n", "1000"], ["ib_atomic_bw", "-q", "4", "-n", "1000"], ["ib_atomic_bw", "-n", "20000"], ["ib_atomic_lat", "-n", "20000"]]


def pingpong(impaired):
    count = "200" if impaired else "1000"
    return [["ibv_rc_pingpong"], ["ibv_rc_pingpong", "-e"], ["ibv_rc_pingpong", "-g", "1"], ["ibv_rc_pingpong", "-g", "1", "-e", "-n", count]] + [
        ["ibv_rc_pingpong", "-g", "1", "-s", size, "-n", count] for size in ("1", "4096", "65536", "1048576")
    ]


def unreliable(impaired):
    """UC and UD. With losses only programs that do not wait for each message: a ping-pong over UC or UD stops at the
    first loss, on any device, and perftest's SENDs only end after a given time (-D), not after a given number."""
    if impaired:
        writes = [["ib_write_bw", "-c", "UC", "-n", "2000"], ["ib_write_bw", "-c", "UC", "-s", "8", "-n", "5000"]]
        return [["ib_send_bw", "-c", "UC", "-D", "1", "-s", "4096"], ["ib_send_bw", "-c", "UD", "-D", "1"]] + writes
    cases = [["ibv_ud_pingpong"], ["ibv_uc_pingpong"]]
    for tool in ("ibv_ud_pingpong", "ibv_uc_pingpong"):
        cases += [[tool, "-g", "1"], [tool, "-g", "0", "-e", "-n", "200"], [tool, "-g", "1", "-s", "1", "-r", "10", "-n", "500"]]
    for transport in ("UC", "UD"):
        cases += [["ib_send_lat", "-c", transport], ["ib_send_lat", "-c", transport, "-e", "-n", "200"], ["ib_send_lat", "-c", transport, "-s", "512"]]
    return cases + [["ib_write_lat", "-c", "UC"], ["ib_write_bw", "-c", "UC"], ["ib_write_bw", "-c", "UC", "-s", "8"]]


def integrity(own, impaired):
    rounds = "16" if impaired else "24"
    polling = [[own, "-s", str(seed), "-n", rounds] for seed in (1, 2, 3, 4)]
    events = [[own, "-s", str(seed), "-n", rounds, "-e"] for seed in (5, 6)]
    return polling + events + [[own, "-s", "7", "-n", "4", "-S", "900000"]]


def shared(impaired, short):
    brief = [["ibv_srq_pingpong", "-n", "200"], ["ibv_srq_pingpong", "-e", "-n", "200"], ["ib_send_bw", "--use-srq", "-q", "4", "-n", "500"], ["ib_send_lat", "--use-srq", "-n", "500"]]
    if short:
        return brief
    return brief + [
        ["ibv_srq_pingpong"],
        ["ibv_srq_pingpong", "-g", "1", "-q", "64", "-s", "20000", "-r", "100"],
        ["ibv_srq_pingpong", "-q", "2", "-m", "1024", "-r", "8", "-n", "500"],
        ["ib_send_bw", "--use-srq", "-b", "-q", "2", "-n", "1000"],
        ["ib_send_bw", "--use-srq", "-e", "-n", "1000"],
    ]


def cases_of(group, network, build, short):
    impaired = network not in ("clean", "xdp", "xdptx")
    own = os.path.join(build, "bin", "verbs_integrity")
    if group == "devices":
        return [["ibv_devices"], ["ibv_devinfo", "-v"]]
    if group == "pingpong":
        return [["ibv_rc_pingpong", "-g", "1"], ["ibv_rc_pingpong", "-g", "1", "-e", "-n", "200"]] if short else pingpong(impaired)
    if group == "unreliable":
        return unreliable(impaired)[:2] if short else unreliable(impaired)
    if group == "shared":
        return shared(impaired, short)
    if group == "atomic":
        return [["ib_atomic_bw"], ["ib_atomic_lat"]] if short else atomic(impaired)
    if group == "integrity":
        return integrity(own, impaired)
    if group == "unprivileged":
        return [["ibv_rc_pingpong", "-g", "1"], ["ib_write_bw", "-n", "500"], ["ib_read_lat", "-n", "200"], [own, "-s", "9", "-n", "8"]]
    tool = "ib_" + group
    if group.endswith("_bw"):
        return short_bandwidth(tool, network, impaired) if short else bandwidth(tool, impaired)
    return short_latency(tool) if short else latency(tool, impaired)


# A perftest program first compares the processor's clock with the time of day. On a busy machine that fails: it does
# all its work and then ends with 1, without a report. Not with this option.
ANY_CLOCK = "-F"


def with_any_clock(program):
    return [program[0], ANY_CLOCK, *program[1:]] if program[0].startswith("ib_") else list(program)


def single(program):
    return program[0] in ("ibv_devices", "ibv_devinfo")


def run_case(brdma, network, program, prefix, seconds):
    if single(program):
        # A program without a peer: on one host of a lab.
        name = f"e2e{os.getpid()}"
        command = prefix + [brdma, "lab", "up", "--name", name]
        subprocess.run(command, check=True, timeout=30, stdout=subprocess.DEVNULL)
        try:
            done = subprocess.run(prefix + [brdma, "lab", "exec", "--name", name, "h1", "--", *program], capture_output=True, text=True, timeout=seconds)
        finally:
            subprocess.run(prefix + [brdma, "lab", "down", "--name", name], timeout=30, stdout=subprocess.DEVNULL)
        problem = None if done.returncode == 0 else f"exit code {done.returncode}"
        if problem is None and "brdma_" not in done.stdout:
            problem = "no brdma_ device in its output"
        return problem, done.stdout + done.stderr
    command = prefix + [brdma, "-j", "lab", "pair", *NETWORKS[network], "--", *with_any_clock(program)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env={**os.environ, **SETTINGS.get(network, {})})
    except subprocess.TimeoutExpired as expired:
        text = (expired.stdout or b"").decode(errors="replace") + (expired.stderr or b"").decode(errors="replace")
        return f"not done after {seconds} s", text
    output = done.stdout + done.stderr
    if done.returncode != 0:
        return f"exit code {done.returncode}", output
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        return f"no JSON report: {error}", output
    return judge(report, network, program), output


def judge(report, network, program):
    if network.startswith("xdp") and sum(host["counters"]["xdp_rcvd_pkts"] for host in report["hosts"]) == 0:
        return "no packet came by AF_XDP"
    if network not in IMPAIRED:
        return None
    total = report["switch"]["total"]
    key = IMPAIRED[network]
    if total["offered"] >= CERTAIN_PACKETS and total[key] == 0:
        return f"the network counts no packet as {key}"
    return judge_paths(report, network, program)


# Were the expected paths used? For a direction with many packets.
def judge_paths(report, network, program):
    for host in report["switch"]["hosts"]:
        offered = [path["offered"] for path in host["paths"]]
        if sum(offered) < CERTAIN_PACKETS:
            continue
        # Data is sprayed: towards the server, or from it for READs. READ requests keep to a path while it is
        # acknowledged.
        if network == "paths4" and host["host"] == ("h2" if "read" in program[0] else "h1") and min(offered) < sum(offered) / 20:
            return f"the paths to {host['host']} were not shared: {offered}"
        if network == "one_of_4" and max(offered) != sum(offered):
            return f"more than one path to {host['host']} was used: {offered}"
        # READ requests are few, and only a timeout reveals that their path is the silent one: up to 50 of 650 go there.
        most = sum(offered) / (4 if host["host"] == "h1" and "read" in program[0] else 10)
        if network == "silent" and offered[0] > most:
            return f"the silent path to {host['host']} stayed in use: {offered}"
    return None


# Copies of the cases' programs, at a place that another user can read: a build directory may be anywhere.
def for_nobody(build, home):
    os.chmod(home, 0o755)
    for name in ("bin/brdma", "bin/brdmad", "bin/brdma-switch", "bin/brdma-controller", "bin/brdma-perf", "bin/brdma-sim", "bin/tcp_echo", "bin/verbs_integrity", "lib/libbitmaprdma.so.1",
                 "share/bitmaprdma/flow-sizes/facebook_webserver.csv", "share/bitmaprdma/flow-sizes/google_all_rpc_w3.csv"):
        os.makedirs(os.path.join(home, os.path.dirname(name)), exist_ok=True)
        shutil.copy(os.path.join(build, name), os.path.join(home, name))
    os.mkdir(os.path.join(home, "home"), 0o700)
    shutil.chown(os.path.join(home, "home"), "nobody")
    return home


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--network", choices=NETWORKS, required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--only", default="", help="run only the cases whose command line holds this text")
    parser.add_argument("--short", action="store_true", help="each program once or twice, as in the default lane")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--as-nobody", action="store_true", help="when root: run as user nobody, in a user namespace")
    parser.add_argument("--seconds", type=int, default=120, help="limit of one case")
    options = parser.parse_args()

    if options.network.startswith("xdp") and os.geteuid() != 0:
        print("skipped: an AF_XDP socket needs a brdmad that runs as root")
        return 77
    build, prefix, home = options.build, [], None
    if options.as_nobody and os.geteuid() == 0:
        home = tempfile.TemporaryDirectory(prefix="brdma-nobody-")
        build = for_nobody(options.build, home.name)
        prefix = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR", f"HOME={home.name}/home"]
    brdma = os.path.join(build, "bin", "brdma")
    cases = [c for c in cases_of(options.group, options.network, build, options.short) if options.only in " ".join(c)]
    if options.list:
        for case in cases:
            print(" ".join(case))
        return 0
    passed = failed = 0
    for case in cases:
        began = time.monotonic()
        problem, output = run_case(brdma, options.network, case, prefix, options.seconds)
        name = " ".join([os.path.basename(case[0]), *case[1:]])
        took = time.monotonic() - began
        if problem is None:
            passed += 1
            print(f"ok    {took:6.1f}s  {options.network}: {name}", flush=True)
        else:
            failed += 1
            print(f"FAIL  {took:6.1f}s  {options.network}: {name}: {problem}\n{output[-6000:]}", flush=True)
            print("again with: " + " ".join([brdma, "lab", "pair", *NETWORKS[options.network], "--", *case]), flush=True)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
