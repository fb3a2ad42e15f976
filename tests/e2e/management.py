#!/usr/bin/env python3
"""Manages running programs: `brdma recovery set`, `resource show`, `statistic show qp` and the like against an unmodified
ib_write_bw between two lab hosts. Each case is a function; passed: no assertion fails. Last line: `N passed, M failed`.
"""

import argparse
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time

import cases

TIMEOUT_SECONDS = int(os.environ.get('TEST_TIMEOUT_SECONDS', '60'))  # seconds; far above any step here


class Lab:
    """Two hosts and a network; programs and questions on them."""

    def __init__(self, build, prefix, network, name="e2emgmt"):
        self.brdma = os.path.join(build, "bin", "brdma")
        self.prefix, self.name, self.programs = prefix, name + str(os.getpid()), []
        subprocess.run(prefix + [self.brdma, "lab", "up", "--name", self.name, *network], check=True, timeout=TIMEOUT_SECONDS, stdout=subprocess.DEVNULL)

    def down(self):
        for program in self.programs:
            if program.poll() is None:
                program.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(timeout=10)
        subprocess.run(self.prefix + [self.brdma, "lab", "down", "--name", self.name], timeout=TIMEOUT_SECONDS, stdout=subprocess.DEVNULL)

    def on(self, host, *command):
        return self.prefix + [self.brdma, "lab", "exec", "--name", self.name, host, "--", *command]

    def start(self, host, *command):
        program = subprocess.Popen(self.on(host, *command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.programs.append(program)
        return program

    def ask(self, host, *words, code=0):
        done = subprocess.run(self.on(host, self.brdma, *words), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        assert done.returncode == code, f"brdma {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def ask_json(self, host, *words):
        return json.loads(self.ask(host, "-j", *words).stdout)

    def wait_for(self, what, host, *words, until):
        """Repeats the query until `until` of the answer holds: each round waits for the daemon."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while True:
            answer = self.ask_json(host, *words)
            if until(answer):
                return answer
            assert time.monotonic() < end, f"{what}: {str(answer)[:2000]}"
            time.sleep(0.05)

    def switch(self):
        done = subprocess.run(self.prefix + [self.brdma, "-j", "lab", "show", "--name", self.name], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True)
        return json.loads(done.stdout)

    def totals(self):
        return self.switch()["total"]

    def lost_packets(self):
        return self.totals()["lost"]

    def connect(self, *command, port=18515):
        """The client, when the server listens: it opens its device before it does."""
        wanted = f":{port:04X} "
        end = time.monotonic() + TIMEOUT_SECONDS
        while not any(wanted in line and " 0A " in line for line in self.listeners()):
            assert time.monotonic() < end, f"nobody listens on port {port}"
            time.sleep(0.02)
        return self.start("h2", *command, "10.77.0.1")

    def listeners(self):
        done = subprocess.run(self.on("h1", "cat", "/proc/net/tcp", "/proc/net/tcp6"), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        return done.stdout.splitlines()

    def traffic(self):
        """ib_write_bw that runs until the lab is down; both ends are in bitmap mode when this returns."""
        self.start("h1", "ib_write_bw", "-D", "600", "-s", "16384")
        self.wait_for("server", "h1", "resource", "show", "ctx", until=lambda rows: len(rows) == 1)
        self.connect("ib_write_bw", "-D", "600", "-s", "16384")
        for host in ("h1", "h2"):
            self.wait_for("traffic", host, "resource", "show", "qp", until=lambda rows: rows and rows[0]["mode"] == "bitmap")


def only(rows):
    assert len(rows) == 1, rows
    return rows[0]


def settings_reach_running_programs(lab):
    lab.traffic()
    server = lambda *words: lab.ask_json("h1", "recovery", "show", *words)
    before = only(server("dev", "brdma_eth0"))
    assert before["scope"] == "process" and before["settings"]["recovery.depth_max"] == 8, before
    qpn = str(only(lab.ask_json("h1", "resource", "show", "qp"))["lqpn"])

    # For one queue pair.
    answer = lab.ask_json("h1", "recovery", "set", "qp", qpn, "depth_max", "200", "adaptive", "false")
    assert only(answer)["applies"] == {"recovery.depth_max": "now", "recovery.adaptive": "now"}, answer
    pair = only(server("qp", qpn))
    assert pair["own_settings"] and pair["settings"]["recovery.depth_max"] == 200, pair
    assert pair["in_force"]["depth_limit"] == 200, pair
    assert only(server("dev", "brdma_eth0"))["settings"]["recovery.depth_max"] == 8

    # For the device: the running program, its queue pairs, and later programs.
    answer = lab.ask_json("h1", "recovery", "set", "dev", "brdma_eth0", "depth_max", "300", "window", "1024")
    device = only([r for r in answer if r["scope"] == "device"])
    assert device["settings"] == {"recovery.depth_max": 300, "recovery.window": 1024}, answer
    process = only([r for r in answer if r["scope"] == "process"])
    assert process["qp"] == 1 and process["applies"]["recovery.window"] == "new queue pairs", answer
    pair = only(server("qp", qpn))
    assert pair["settings"]["recovery.depth_max"] == 300 and pair["settings"]["recovery.window"] == 4096, pair
    later = lab.start("h1", "ib_write_bw", "-p", "19000")
    rows = lab.wait_for("a later program", "h1", "recovery", "show", "dev", "brdma_eth0", until=lambda rows: len(rows) == 3)
    for row in rows[1:]:
        assert row["settings"]["recovery.depth_max"] == 300 and row["settings"]["recovery.window"] == 1024, row
    # A program's own variable overrides the device's setting.
    lab.start("h1", "env", "BRDMA_DEPTH_MAX=5", "ib_write_bw", "-p", "19001")
    rows = lab.wait_for("a third", "h1", "recovery", "show", "dev", "brdma_eth0", until=lambda rows: len(rows) == 4)
    assert sorted(row["settings"]["recovery.depth_max"] for row in rows[1:]) == [5, 300, 300], rows
    assert later.poll() is None
    # Transfers too: from now on the client's WRITEs of 16 KiB leave in segments.
    assert all(row["operations_complete"] == 0 for row in lab.ask_json("h1", "statistic", "show"))
    lab.ask("h2", "recovery", "set", "dev", "brdma_eth0", "threshold_bytes", "8192", "segment_bytes", "8192")
    lab.wait_for("segments", "h1", "statistic", "show", until=lambda rows: any(row["operations_complete"] > 0 for row in rows))
    # The data path did not notice.
    sent = only(lab.ask_json("h2", "statistic", "show", "qp"))["sent_pkts"]
    lab.wait_for("goes on", "h2", "statistic", "show", "qp", until=lambda rows: rows[0]["sent_pkts"] > sent)


def mistakes_are_told(lab):
    lab.start("h1", "ib_write_bw")
    lab.wait_for("server", "h1", "resource", "show", "ctx", until=lambda rows: len(rows) == 1)
    for words in (["depth_max"], ["depth", "8"], ["depth_max", "9999999"], ["device.seed", "1"], ["window", "1000"], [], ["qp", "x", "depth_max", "8"]):
        lab.ask("h1", "recovery", "set", *words, code=2)
    assert "no queue pair" in lab.ask("h1", "recovery", "set", "qp", "0x123456", "depth_max", "9", code=1).stderr
    assert "no queue pair" in lab.ask("h1", "recovery", "show", "qp", "0x123456", code=1).stderr
    assert only(lab.ask_json("h1", "recovery", "show", "dev", "brdma_eth0"))["settings"]["recovery.depth_max"] == 8
    assert lab.ask_json("h2", "recovery", "show", "dev", "brdma_eth0") == []  # no daemon there: reported, and nothing shown
    assert "no brdmad" in lab.ask("h2", "recovery", "set", "dev", "brdma_eth0", "depth_max", "9", code=1).stderr


def objects_are_listed(lab):
    lab.traffic()
    pair = only(lab.ask_json("h1", "resource", "show", "qp"))
    peer = only(lab.ask_json("h2", "resource", "show", "qp"))
    assert pair["rqpn"] == peer["lqpn"] and pair["peer"] == "10.77.0.2" and peer["peer"] == "10.77.0.1", (pair, peer)
    assert pair["type"] == "RC" and pair["comm"] == "ib_write_bw" and peer["state"] == "RTS", (pair, peer)
    assert lab.ask_json("h1", "resource", "show", "qp", "lqpn", str(pair["lqpn"]))[0]["lqpn"] == pair["lqpn"]
    assert lab.ask_json("h1", "resource", "show", "qp", "state", "ERR") == []
    assert only(lab.ask_json("h1", "resource", "show", "cq"))["users"] == 2
    assert only(lab.ask_json("h1", "resource", "show", "mr"))["mrlen"] >= 16384
    memory = pair["memory"]
    assert memory["total"] == sum(memory[part] for part in ("windows", "recovery", "transport", "queues")) > 1000, memory
    device = only(lab.ask_json("h1", "resource", "show", "dev", "brdma_eth0"))
    assert (device["qp"], device["cq"], device["mr"], device["ctx"]) == (1, 1, 1, 1), device
    receiver = lab.wait_for("losses", "h1", "statistic", "show", "qp", until=lambda rows: rows[0]["gaps_promoted"] > 0 and rows[0]["ffm_sent"] > 0)[0]
    assert receiver["accepted_pkts"] > 0 and receiver["out_of_sequence"] > 0, receiver
    lab.wait_for("repairs", "h2", "statistic", "show", "qp", until=lambda rows: rows[0]["retransmitted_pkts"] > 0 and rows[0]["ffm_received"] > 0)


def records_are_shown_and_sent_again_by_hand(lab):
    """A gap that neither side handles for a second is shown, requested by hand, and gone."""
    lab.traffic()
    receiver, sender = (str(only(lab.ask_json(host, "resource", "show", "qp"))["lqpn"]) for host in ("h1", "h2"))
    lab.ask("h2", "recovery", "set", "qp", sender, "send_stall_min_us", "10000000", "probe_timeout_min_us", "1000000", "retransmit_timeout_min_us", "10000000")
    lab.ask("h1", "recovery", "set", "qp", receiver, "depth_max", "1048576", "age_max_us", "10000000", "stall_max_us", "10000000", "adaptive", "false")
    keys = ["ifname", "port", "lqpn", "direction", "psn", "packets", "state", "cause", "first_seen_unix_ns", "age_us", "depth", "stall_us", "named", "path", "pid", "comm"]
    end = time.monotonic() + TIMEOUT_SECONDS
    while True:
        gap = lab.wait_for("a gap", "h1", "resource", "show", "gap", "link", "brdma_eth0/1", "lqpn", receiver, until=lambda rows: len(rows) > 0)[0]
        assert list(gap) == keys and gap["direction"] == "request" and gap["packets"] >= 1, gap
        assert gap["age_us"] >= 0 and abs(gap["first_seen_unix_ns"] / 1e9 - time.time()) < 600, gap
        done = subprocess.run(lab.on("h1", lab.brdma, "-j", "recovery", "retransmit", "qp", receiver, "gap", str(gap["psn"])), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        if done.returncode == 0:
            break
        assert "nothing is missing there" in done.stderr and time.monotonic() < end, done  # the last packet of a probe came first
    asked = only(json.loads(done.stdout))
    assert asked["lqpn"] == int(receiver) and asked["psn"] == gap["psn"] and asked["packets"] >= 1 and asked["gaps"] == 1, asked
    lab.wait_for("it is here", "h1", "resource", "show", "gap", until=lambda rows: all(row["psn"] != gap["psn"] for row in rows))
    assert only(lab.ask_json("h1", "statistic", "show"))["gaps_promoted_request"] >= 1
    for type, count in (("retransmit_requested", "gaps"), ("gaps_queried", "records")):
        event = lab.wait_for(type, "h1", "event", type, until=lambda rows: len(rows) > 0)[-1]
        assert event[count] >= 0, event
    assert lab.ask_json("h1", "resource", "show", "gap", "state", "nonsense") == [] == lab.ask_json("h1", "resource", "show", "gap", "lqpn", "1")
    text = lab.wait_for("another gap", "h1", "resource", "show", "gap", until=lambda rows: len(rows) > 0) and lab.ask("h1", "resource", "show", "gap").stdout
    assert text == "" or text.startswith("link brdma_eth0/1 lqpn " + receiver + " direction request psn "), text

    # The sender's packets: all that are not acknowledged.
    def again():
        done = subprocess.run(lab.on("h2", lab.brdma, "-j", "recovery", "retransmit", "qp", sender), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        return done.returncode == 0 and only(json.loads(done.stdout))
    answer = again()
    while not answer:
        assert time.monotonic() < end, "nothing was ever outstanding"
        answer = again()
    assert answer["packets"] >= 1 and answer["gaps"] == 0, answer
    assert only(lab.ask_json("h2", "statistic", "show"))["retransmitted_by_request"] >= 1

    # The network makes duplicates.
    duplicate = lab.wait_for("a duplicate", "h1", "resource", "show", "duplicate", "lqpn", receiver, until=lambda rows: len(rows) > 0)[0]
    assert list(duplicate) == ["ifname", "port", "lqpn", "direction", "psn", "state", "arrived_unix_ns", "age_us", "path", "pid", "comm"], duplicate
    assert lab.ask("h1", "resource", "show", "duplicate").stdout.startswith("link brdma_eth0/1 lqpn " + receiver + " direction request psn ")
    assert lab.ask_json("h1", "resource", "show", "duplicate", "lqpn", "1") == []
    lab.wait_for("its event", "h1", "event", "duplicates_queried", until=lambda rows: len(rows) > 0)

    # Settings of verbs are shown, and refused with that reason; the threshold of feedback is a setting.
    shown = only(lab.ask_json("h1", "recovery", "show", "qp", receiver))
    peer = only(lab.ask_json("h2", "recovery", "show", "qp", sender))
    assert shown["in_force"]["receive_start_psn"] == peer["in_force"]["send_start_psn"], (shown, peer)
    assert "the program gives it" in lab.ask("h1", "recovery", "set", "qp", receiver, "start_psn", "7", code=2).stderr
    lab.ask("h1", "recovery", "set", "qp", receiver, "ffm_threshold", "4")
    shown = only(lab.ask_json("h1", "recovery", "show", "qp", receiver))
    assert shown["settings"]["recovery.ffm_threshold"] == 4 and shown["in_force"]["response_depth_limit"] == 1048576, shown
    for words in ([], ["qp", receiver, "packets", "3"], ["qp", receiver, "psn", "16777216"], ["qp", receiver, "gaps", "packets", "3"], ["qp", receiver, "nonsense"]):
        lab.ask("h1", "recovery", "retransmit", *words, code=2)
    assert "no queue pair" in lab.ask("h1", "recovery", "retransmit", "qp", "0x123456", code=1).stderr


def a_stopped_program_holds_nobody_up(lab):
    lab.start("h1", "ib_write_bw")
    lab.wait_for("server", "h1", "resource", "show", "ctx", until=lambda rows: len(rows) == 1)
    lab.start("h1", "ib_write_bw", "-p", "19000")
    lab.wait_for("second", "h1", "resource", "show", "ctx", until=lambda rows: len(rows) == 2)
    stopped = lab.ask_json("h1", "resource", "show", "ctx")[0]["pid"]
    subprocess.run(lab.on("h1", "kill", "-STOP", str(stopped)), check=True, timeout=TIMEOUT_SECONDS)
    done = subprocess.run(lab.on("h1", lab.brdma, "-j", "recovery", "show", "dev", "brdma_eth0"), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 1 and "does not answer" in done.stderr, done
    assert [row["pid"] != stopped for row in json.loads(done.stdout)] == [True], done
    subprocess.run(lab.on("h1", "kill", "-CONT", str(stopped)), check=True, timeout=TIMEOUT_SECONDS)
    lab.wait_for("both again", "h1", "recovery", "show", "dev", "brdma_eth0", until=lambda rows: len(rows) == 2)


def events_are_told(lab):
    lab.traffic()
    rows = lab.wait_for("losses", "h1", "event", until=lambda rows: {"bitmap_agreed", "gap_promoted", "ffm_sent", "qp_state"} <= {r["type"] for r in rows})
    qpn = only(lab.ask_json("h1", "resource", "show", "qp"))["lqpn"]
    times = [r["time_unix_ns"] for r in rows]
    assert all(abs(t / 1e9 - time.time()) < 600 for t in times), times
    numbers = [r["number"] for r in rows]
    assert numbers == sorted(set(numbers)), numbers
    agreed = only([r for r in rows if r["type"] == "bitmap_agreed"])
    assert agreed["lqpn"] == qpn and agreed["peer_window"] == 4096 and agreed["comm"] == "ib_write_bw", agreed
    promoted = next(r for r in rows if r["type"] == "gap_promoted")
    assert promoted["length"] >= 1 and promoted["cause"] in ("depth", "age", "stall", "same_path", "path"), promoted
    assert {r["to"] for r in rows if r["type"] == "qp_state"} >= {"INIT", "RTR"}, rows
    assert {r["type"] for r in lab.ask_json("h1", "event", "ffm_sent", "since", "1h")} == {"ffm_sent"}
    assert lab.ask_json("h1", "event", "retry_exceeded") == []
    lab.wait_for("the other side", "h2", "event", "ffm_received", until=lambda rows: len(rows) > 0)
    lab.ask("h1", "event", "nonsense", code=2)

    # Following: new events are pushed.
    follower = subprocess.Popen(lab.on("h1", lab.brdma, "-j", "event", "-f", "settings_changed"), stdout=subprocess.PIPE, text=True)
    lab.programs.append(follower)
    got = []
    while not got:  # it follows from some moment on
        lab.ask("h1", "recovery", "set", "qp", str(qpn), "depth_max", "20")
        ready, _, _ = select.select([follower.stdout], [], [], 1)
        if ready:
            got.append(json.loads(follower.stdout.readline()))
    assert got[0]["type"] == "settings_changed" and got[0]["lqpn"] == qpn, got
    counters = only(lab.ask_json("h1", "statistic", "show"))
    assert counters["events_recorded"] > 0 and counters["events_overwritten"] >= 0, counters


def paths_are_told(lab):
    lab.traffic()
    rows = lab.wait_for("a silent path", "h2", "statistic", "show", "qp", until=lambda rows: rows and any(not path["in_use"] for path in rows[0].get("paths", [])))
    paths = only(rows)["paths"]
    assert len(paths) == 4 and len({path["port"] for path in paths}) == 4, paths
    silent = only([path for path in paths if not path["in_use"]])
    used = [path for path in paths if path["in_use"]]
    assert silent["acknowledged"] == 0, silent
    # The receiver's path bitmaps: nothing arrives on the silent one.
    received = only(lab.wait_for("path bitmaps", "h1", "statistic", "show", "qp", until=lambda rows: rows and len(rows[0].get("receive_paths", [])) == 4))
    assert received["receive_paths"][paths.index(silent)]["rcvd_pkts"] == 0, received
    assert sum(path["rcvd_pkts"] > 0 for path in received["receive_paths"]) == 3, received
    assert received["depth_limit"] == 1024 and received["age_limit_us"] >= 200, received  # of several paths, in force
    assert all(path["acknowledged"] > 0 and path["rtt_us"] >= path["rtt_min_us"] > 0 for path in used), used
    down = lab.wait_for("the event", "h2", "event", "path_down", until=lambda rows: len(rows) > 0)
    assert down[0]["port"] == silent["port"] and paths[down[0]["path"]] == silent, (down, paths)


def alarms_are_raised_and_cleared(lab):
    lab.traffic()
    lab.ask("h2", "alarm", "set", "stall_seconds", "9999999", code=2)
    lab.ask("h2", "alarm", "set", "depth_max", "1", code=2)
    lab.ask("h2", "alarm", "set", "retransmission_percent", "2")
    rows = lab.wait_for("an alarm", "h2", "alarm", until=lambda rows: any(r["raised"] for r in rows))
    raised = only([r for r in rows if r["raised"]])
    assert raised["alarm"] == "retransmissions" and raised["threshold"] == 2 and raised["comm"] == "ib_write_bw", rows
    raised = only(lab.ask_json("h2", "event", "alarm_raised"))
    assert raised["alarm"] == "retransmissions" and raised["value"] > 2, raised
    lab.ask("h2", "alarm", "set", "retransmission_percent", "90")
    lab.wait_for("its end", "h2", "event", "alarm_cleared", until=lambda rows: len(rows) == 1)
    assert not any(r["raised"] for r in lab.ask_json("h2", "alarm"))


def limits_are_enforced_and_named(lab):
    lab.start("h1", "ib_write_bw", "-D", "600", "-q", "8")
    lab.wait_for("server", "h1", "resource", "show", "ctx", until=lambda rows: len(rows) == 1)
    lab.ask("h1", "recovery", "set", "dev", "brdma_eth0", "qps_max", "4")
    client = lab.connect("ib_write_bw", "-D", "600", "-q", "8")
    refused = lab.wait_for("a refusal", "h1", "event", "limit_reached", until=lambda rows: len(rows) > 0)[0]
    assert refused["limit"] == "recovery.qps_max" and refused["value"] == 4, refused
    server = lab.programs[0]
    server.wait(timeout=TIMEOUT_SECONDS)  # ibv_create_qp failed: it reports so and ends
    assert server.returncode != 0 and "QP" in server.stdout.read()
    assert only(lab.ask_json("h1", "statistic", "show"))["qps_refused"] >= 1
    client.send_signal(signal.SIGTERM)
    info = subprocess.run(lab.on("h1", "ibv_devinfo", "-v", "-d", "brdma_eth0"), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert re.search(r"max_qp:\s+4$", info.stdout, re.M), info.stdout + info.stderr
    # With the limit raised the same runs.
    lab.ask("h1", "recovery", "set", "dev", "brdma_eth0", "qps_max", "8")
    lab.start("h1", "ib_write_bw", "-D", "600", "-q", "8")
    lab.wait_for("server", "h1", "resource", "show", "ctx", until=lambda rows: len(rows) == 1)
    lab.connect("ib_write_bw", "-D", "600", "-q", "8")
    lab.wait_for("eight", "h1", "resource", "show", "qp", until=lambda rows: len(rows) == 8)
    # And it holds for all programs of the device: now another program gets none.
    before = len(lab.ask_json("h1", "event", "limit_reached"))
    another = lab.start("h1", "ib_write_bw", "-D", "600", "-p", "18600")
    lab.wait_for("another", "h1", "resource", "show", "ctx", until=lambda rows: len(rows) == 2)
    client = lab.connect("ib_write_bw", "-D", "600", "-p", "18600", port=18600)
    rows = lab.wait_for("its refusal", "h1", "event", "limit_reached", until=lambda rows: len(rows) > before)
    assert (rows[-1]["value"], rows[-1]["used"]) == (8, 8) and rows[-1]["pid"] != rows[0]["pid"], rows
    another.wait(timeout=TIMEOUT_SECONDS)
    client.send_signal(signal.SIGTERM)
    lab.wait_for("the eight", "h1", "resource", "show", "qp", until=lambda rows: len(rows) == 8)


def capabilities_are_told(lab):
    device = only(lab.ask_json("h1", "dev", "show", "-d"))["capabilities"]
    assert "bitmap" in device["modes"] and "gobackn" in device["modes"], device
    assert device["window_max"] == 1 << 20 and device["qps_max"] == 32768 and device["wire_version"] == 1, device
    rows = lab.ask_json("h1", "recovery", "show", "capabilities")
    depth = only([r for r in rows if r["key"] == "recovery.depth_max"])
    assert (depth["default"], depth["min"], depth["max"], depth["applies"]) == (8, 0, 1 << 20, "now"), depth
    mode = only([r for r in rows if r["key"] == "recovery.mode"])
    assert mode["words"] == device["modes"] and mode["applies"] == "new queue pairs", mode


def drops_are_told_by_the_switch(lab):
    lab.traffic()
    counters = lambda: only(lab.ask_json("h2", "statistic", "show"))
    lab.wait_for("repairs", "h2", "statistic", "show", until=lambda rows: only(rows)["retransmitted_by_edn"] > 200)
    edn = lab.switch()["edn"]
    assert edn["sent"] > 200 and edn["untold"] <= edn["dropped"] / 20, edn
    # The switch's report comes before the receiver's, which then finds nothing to do.
    assert counters()["retransmitted_by_edn"] > 3 * counters()["retransmitted_by_ffm"], counters()
    lab.ask("h2", "recovery", "set", "dev", "brdma_eth0", "edn", "false")
    lab.wait_for("feedback alone", "h2", "statistic", "show", until=lambda rows: only(rows)["edn_off"] > 100)
    assert counters()["retransmitted_by_ffm"] > 0, counters()


def a_rate_is_chosen_while_it_runs(lab):
    """DCQCN over real sockets: the switch marks, the receiver notifies, the sender's rate falls below its first
    rate."""
    lab.traffic()
    sender = lambda: only(lab.ask_json("h2", "resource", "show", "qp"))
    before = sender()
    assert (before["congestion"], before["rate_mbps"]) == ("window", None) and before["congestion_bytes"] > 0, before
    # At defaults the lab's rate is the highest: programs know it as their port's.
    lab.ask("h2", "congestion", "set", "dev", "brdma_eth0", "control", "dcqcn")
    lab.wait_for("a rate", "h2", "resource", "show", "qp", until=lambda rows: only(rows)["rate_mbps"] is not None)
    assert sender()["rate_mbps"] <= 200, sender()
    answer = lab.ask_json("h2", "congestion", "set", "dev", "brdma_eth0", "rate_max_mbps", "2000", "rate_first_mbps", "2000")
    assert only([r for r in answer if r["scope"] == "process"])["applies"]["congestion.rate_first_mbps"] == "now", answer
    lab.wait_for("notifications", "h2", "statistic", "show", until=lambda rows: only(rows)["rp_cnp_handled"] > 20)
    receiver = only(lab.ask_json("h1", "statistic", "show"))
    assert receiver["np_cnp_sent"] > 20 and receiver["np_ecn_marked_roce_packets"] >= receiver["np_cnp_sent"], receiver
    lab.wait_for("a lower rate", "h2", "resource", "show", "qp", until=lambda rows: 10 <= only(rows)["rate_mbps"] < 2000)
    assert only(lab.ask_json("h2", "statistic", "show"))["pace_waits"] > 0
    # One queue pair goes back to its window.
    qpn = str(sender()["lqpn"])
    lab.ask("h2", "congestion", "set", "qp", qpn, "control", "window")
    shown = only(lab.ask_json("h2", "congestion", "show", "qp", qpn))
    assert shown["own_settings"] and shown["settings"]["congestion.control"] == "window", shown
    assert all(key.startswith("congestion.") for key in shown["settings"]) and shown["in_force"]["rate_mbps"] is None, shown


def round_trips_are_never_told_too_short(lab):
    """Hosts and network share too few cores. A host without a core may think a packet late, but a round trip is never
    shorter than the path."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    lab.programs += busy
    lab.traffic()
    begin = only(lab.ask_json("h2", "statistic", "show"))["sent_data_pkts"]
    while only(lab.ask_json("h2", "statistic", "show"))["sent_data_pkts"] < begin + 20_000:
        sender = only(lab.ask_json("h2", "resource", "show", "qp"))
        assert sender["base_rtt_us"] == 0 or sender["base_rtt_us"] >= 4000, sender


def drops_are_told_by_icmp(lab):
    """Through brdmad's raw socket."""
    lab.traffic()
    lab.wait_for("repairs", "h2", "statistic", "show", until=lambda rows: only(rows)["retransmitted_by_edn"] > 200)
    sent = lab.switch()["edn"]["sent"]
    received = only(lab.ask_json("h2", "statistic", "show"))
    assert sent > 200 and received["edn_received"] > 200, (sent, received)


def destinations_are_managed(lab):
    lab.traffic()
    server = "10.77.0.1"
    lab.ask("h2", "recovery", "set", "dev", "brdma_eth0", "visit_interval_us", "60000000")  # it stays unchanged during the check
    assert lab.ask_json("h2", "managed") == []
    assert only(lab.ask_json("h2", "managed", "add", server))["destination"] == server
    row = only(lab.ask_json("h2", "managed", "show"))
    assert (row["ifname"], row["comm"], row["destination"], row["weight_percent"]) == ("brdma_eth0", "ib_write_bw", server, 50), row
    assert 10 <= row["rate_mbps"] <= row["full_mbps"] and row["managed_ms"] >= 0, row
    assert only(lab.ask_json("h2", "managed", "show", "dev", "brdma_eth0"))["destination"] == server
    counters = only(lab.ask_json("h2", "statistic", "show"))
    assert (counters["managed_added"], counters["controller_requests"]) == (1, 0), counters
    assert only(lab.ask_json("h2", "managed", "remove", server))["pid"] == row["pid"]
    assert lab.ask_json("h2", "managed") == []
    assert re.search("no program manages .*: 'brdma managed' lists", lab.ask("h2", "managed", "remove", server, code=1).stderr)
    assert re.search("no program has a reliable connection .*: 'brdma resource show qp' has the peers", lab.ask("h2", "managed", "add", "10.77.0.9", code=1).stderr)
    for words in (["add"], ["remove"], ["add", "nonsense"], ["show", server], ["nonsense"], ["add", server, server]):
        lab.ask("h2", "managed", *words, code=2)


def destinations_are_managed_by_class(lab):
    """Class 0 of the switch's queue to the server is for DSCP 8: no packet takes it until the server is managed."""
    lab.traffic()
    lab.ask("h2", "recovery", "set", "dev", "brdma_eth0", "visit_interval_us", "60000000", "managed_dscp", "8")

    def packets_of_class():
        to_server = only([link for link in lab.switch()["links"] if link["host"] == "h1"])
        return [counted["packets"] for counted in to_server["queue"]["classes"]]

    before = packets_of_class()
    assert before[0] == 0 < before[1], before
    only(lab.ask_json("h2", "managed", "add", "10.77.0.1"))
    lab.wait_for("packets of class 0", "h2", "managed", until=lambda managed: managed and packets_of_class()[0] > 100)


# Case and its network.
CASES = {
    round_trips_are_never_told_too_short: ["--rate", "200mbit", "--delay", "2ms", "--seed", "27"],
    drops_are_told_by_the_switch: ["--loss", "1%", "--edn", "roce", "--seed", "26"],
    drops_are_told_by_icmp: ["--loss", "1%", "--delay", "1ms", "--edn", "icmp", "--seed", "27"],
    a_rate_is_chosen_while_it_runs: ["--rate", "200mbit", "--uplink", "off", "--ecn", "20kb,80kb,20%", "--seed", "28"],
    settings_reach_running_programs: ["--loss", "1%", "--seed", "21"],
    mistakes_are_told: [],
    capabilities_are_told: [],
    destinations_are_managed: ["--delay", "1ms", "--seed", "29"],
    destinations_are_managed_by_class: ["--rate", "1gbit", "--uplink", "off", "--classes", "1,1", "--dscp", "8=0", "--seed", "31"],
    events_are_told: ["--loss", "1%", "--seed", "23"],
    paths_are_told: ["--paths", "4", "--skew", "20us", "--path-loss", "0,0,100%", "--seed", "25"],
    alarms_are_raised_and_cleared: ["--loss", "8%", "--seed", "24"],
    limits_are_enforced_and_named: [],
    objects_are_listed: ["--loss", "1%", "--reorder", "2%,4", "--seed", "22"],
    records_are_shown_and_sent_again_by_hand: ["--loss", "0.5%", "--duplicate", "1%", "--seed", "30"],
    a_stopped_program_holds_nobody_up: [],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    cases.add_options(parser)
    options = parser.parse_args()
    return cases.run(options, [(case.__name__, lambda user, network=network: Lab(user.build, user.prefix, network), case) for case, network in CASES.items()])


if __name__ == "__main__":
    sys.exit(main())
