"""Unmodified perftest programs in a lab whose switch takes part: it reports its drops, in control packets or by ICMP
(`--edn`), or turns marks into round-trip time (`--ecn`, `--ecn-to-rtt`); and with TIMELY alone.
   switch_feedback.py --build DIRECTORY [--only TEXT]

The check is that the switch's report has an effect, not how much: tests/figures measures that."""
import argparse
import json
import os
import subprocess
import sys
import time

import programs

TIMEOUT_SECONDS = 150
# Time for ICMP to arrive through the daemon before the receiver has missed the packet; or, where nothing follows a lost
# packet, before the sender's probe. On a busy machine the daemon and the program's thread wait some milliseconds for a
# core each.
FAR = ["--rate", "1gbit", "--delay", "1ms"]
FARTHER = ["--rate", "1gbit", "--delay", "10ms"]
WRITE_BW = ["ib_write_bw", "-s", "65536", "-n", "1000"]
READ_BW = ["ib_read_bw", "-s", "65536", "-n", "1000"]
EFFECTS = ["retransmitted_by_edn", "edn_pkts_acked", "edn_pkts_pending", "edn_pkts_recent", "edn_stale"]
SEND_LAT = ["ib_send_lat", "-s", "4096", "-n", "500"]


def run(build, network, program, environment=None):
    command = [f"{build}/bin/brdma", "lab", "pair", "-j", "--name", f"feedback{os.getpid()}", *network, "--", *programs.with_any_clock(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, env={**os.environ, **(environment or {})})
    assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}"
    report = json.loads(done.stdout)
    return {host["host"]: host["counters"] for host in report["hosts"]}, report["switch"]


def effects(edn, counters):
    """The effect of the switch's report. On a busy machine ICMP, which comes through the daemon, may be later than the
    side that misses the packet. Then the named packet counts as one that needs nothing more, or, if all of the message
    is done, as a stale message."""
    return sum(counters[what] for what in (EFFECTS if edn == "icmp" else EFFECTS[:1]))


def to_be_sent_again(edn, counters, switch):
    """Dropped packets that were reported, except for copies of packets that had just been retransmitted, which a full
    queue drops as well: READ responses fill it now and then. Those that ICMP reports count as received."""
    return switch["edn"]["dropped"] - (0 if edn == "icmp" else counters["edn_pkts_recent"])


def requests_are_sent_again(edn, program, network=FAR):
    def case(build):
        counters, switch = run(build, ["--loss", "2%", "--edn", edn, *network], program)
        assert switch["edn"]["sent"] > 10, switch["edn"]
        counted = {what: sum(counters[host][what] for host in ("h1", "h2")) for what in EFFECTS}
        assert counted["retransmitted_by_edn"] > 0, (counted, switch["edn"])
        assert effects(edn, counted) > switch["edn"]["dropped"] / 8, (counted, switch["edn"])
    return case


def answers_are_sent_again(edn, network=FAR):
    """READ responses: the server's program, which posts nothing, retransmits them."""
    def case(build):
        counters, switch = run(build, ["--loss", "2%", "--edn", edn, *network], READ_BW)
        served = counters["h1"]
        assert served["retransmitted_by_edn"] > 50, served["retransmitted_by_edn"]
        assert effects(edn, served) > to_be_sent_again(edn, served, switch) / 4, ({what: served[what] for what in EFFECTS}, switch["edn"])
        assert served["edn_pkts_gone"] == 0, served
    return case


def marks_become_time(program):
    def case(build):
        network = ["--rate", "500mbit", "--uplink", "off", "--delay", "100us", "--ecn", "2kb,20kb,50%", "--ecn-to-rtt", "200us"]
        _, switch = run(build, network, program, {"BRDMA_CONGESTION": "timely", "BRDMA_ECN": "ect0"})
        assert switch["ecn"]["translated"]["rewritten"] > 0, switch["ecn"]
    return case


class Unfinished(AssertionError):
    pass


def lab(build, *words):
    done = subprocess.run([f"{build}/bin/brdma", "lab", words[0], "--name", f"feedback{os.getpid()}", *words[1:]],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"lab {' '.join(words)}: {done.stderr}"
    return done.stdout


def rewritten_of(build, process, before):
    """The switch's count of rewritten acknowledgements, once it is 20 higher. The program must run until then."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if process.poll() is not None:
            raise Unfinished(f"it ended with {before} and few more rewritten: exit code {process.returncode}")
        shown = subprocess.run([f"{build}/bin/brdma", "lab", "show", "-j", "--name", f"feedback{os.getpid()}"],
                               capture_output=True, text=True, timeout=60, check=False)
        if shown.returncode == 0:
            count = json.loads(shown.stdout)["ecn"]["translated"]["rewritten"]
            assert count >= before, f"the count began again: {before}, then {count}"
            if count >= before + 20:
                return count
        time.sleep(0.02)  # between two looks
    raise Unfinished(f"no more than {before} and few were rewritten")


def settings_change_meanwhile(build):
    """The counts go on, so no flow starts again; and the program sees nothing but round trips."""
    command = [f"{build}/bin/brdma", "lab", "pair", "-j", "--name", f"feedback{os.getpid()}", "--rate", "200mbit", "--uplink", "off",
               "--ecn", "0,0,100%", "--ecn-to-rtt", "100us", "--", *programs.with_any_clock(["ib_write_bw", "-s", "65536", "-n", "1500"])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        count = rewritten_of(build, process, 0)
        for value in ("300us", "300us,rule=fixed", "300us,rule=fixed,rewrite=ts", "50us,rule=stepped,levels=20", "auto"):
            lab(build, "set", "--ecn-to-rtt", value)
            count = rewritten_of(build, process, count)
        output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, output[-3000:]
    assert json.loads(output)["switch"]["ecn"]["translated"]["rewritten"] >= count


# For hosts that share a machine (docs/explanation/engine.md): with the published thresholds, waiting for a core counts as a queue.
ON_BUSY_HOSTS = {"BRDMA_CONGESTION": "timely", "BRDMA_TIMELY_LOW_US": "1000", "BRDMA_TIMELY_HIGH_US": "5000", "BRDMA_TIMELY_ADD_MBPS": "100"}


def sent_at_a_rate(program):
    """By TIMELY: a requester gets RTT samples and waits for its rate, to write as to read; a responder does not."""
    def case(build):
        counters, _ = run(build, ["--loss", "1%"], program, {**ON_BUSY_HOSTS, "BRDMA_RATE_MAX_MBPS": "2000"})
        assert counters["h2"]["pace_waits"] > 0, counters["h2"]["pace_waits"]
        assert counters["h1"]["pace_waits"] == 0, counters["h1"]["pace_waits"]
    return case


CASES = {
    "write_bw_edn_icmp": requests_are_sent_again("icmp", WRITE_BW),
    "write_bw_edn_roce": requests_are_sent_again("roce", WRITE_BW),
    "send_lat_edn_icmp": requests_are_sent_again("icmp", SEND_LAT, FARTHER),
    "send_lat_edn_roce": requests_are_sent_again("roce", SEND_LAT),
    "read_bw_edn_icmp": answers_are_sent_again("icmp", FARTHER),
    "read_bw_edn_roce": answers_are_sent_again("roce"),
    "write_bw_timely": sent_at_a_rate(WRITE_BW),
    "read_bw_timely": sent_at_a_rate(READ_BW),
    "write_bw_translated": marks_become_time(WRITE_BW),
    "translated_by_other_settings": settings_change_meanwhile,
    "send_lat_translated": marks_become_time(["ib_send_lat", "-s", "65536", "-n", "500"]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="", help="run only the cases whose name holds this text")
    options = parser.parse_args()
    chosen = {name: case for name, case in CASES.items() if options.only in name}
    failed = 0
    for name, case in chosen.items():
        try:
            case(options.build)
            print(f"ok    {name}", flush=True)
        except (AssertionError, KeyError, subprocess.TimeoutExpired) as reason:
            failed += 1
            print(f"FAIL  {name}: {reason!r}", flush=True)
    return 0 if chosen and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
