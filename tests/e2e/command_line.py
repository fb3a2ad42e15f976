#!/usr/bin/env python3
"""The command line itself: help anywhere, unknown words, a full disk, output on a terminal, `brdma top`, followed events,
completion, manual pages. Each case is a function; passed: no assertion fails. Last line: `N passed, M failed`.
"""

import argparse
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import fcntl
import time

import cases
import management
from management import TIMEOUT_SECONDS, only


class NoLab:
    """For cases that need no hosts."""

    def __init__(self, build, prefix):
        self.brdma, self.prefix = os.path.join(build, "bin", "brdma"), prefix

    def run(self, *words, code=0, **options):
        done = subprocess.run([*self.prefix, self.brdma, *words], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, **options)
        assert done.returncode == code, f"brdma {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def down(self):
        pass


def on_terminal(command, columns=100, rows=30, environment=None):
    """Runs it with a terminal as its output; what it writes, its exit code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    variables = {**os.environ, "TERM": "xterm", **(environment or {})}
    for name in ("COLUMNS", "LINES"):
        variables.pop(name, None)
    program = subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=variables)
    os.close(slave)
    output = b""
    while select.select([master], [], [], TIMEOUT_SECONDS)[0]:
        try:
            part = os.read(master, 65536)
        except OSError:  # EIO: the other end is closed
            break
        if not part:
            break
        output += part
    os.close(master)
    return output.decode().replace("\r\n", "\n"), program.wait(timeout=TIMEOUT_SECONDS)


def help_is_anywhere(user):
    whole = user.run("help").stdout
    objects = re.findall(r"^  ([a-z]+) ", whole, re.M)
    assert {"dev", "recovery", "lab", "top", "completion"} <= set(objects), whole
    assert user.run("--help").stdout == user.run("-h").stdout == whole
    for name in objects:
        said = user.run(name, "help").stdout
        assert said.startswith(f"Usage: brdma {name}"), said
        if name in ("help", "perf"):  # its --help is the whole list; a program's own
            continue
        assert said == user.run(name, "--help").stdout == user.run("help", name).stdout == user.run("-j", name, "-h").stdout
    for words in (["recovery", "set", "help"], ["recovery", "set", "dev", "brdma_eth0", "--help"], ["rec", "set", "depth_max", "8", "help"], ["help", "recovery", "set"]):
        said = user.run(*words).stdout
        assert said.startswith("Usage: brdma recovery set [dev DEV] [qp QPN] KEY VALUE ...\n") and "retransmit" not in said, said
    assert user.run("lab", "up", "--loss", "1%", "--help").stdout.startswith("Usage: brdma lab up ")
    assert user.run("resource", "show", "qp", "help").stdout.startswith("Usage: brdma resource show qp ")
    assert "gap_promoted" in user.run("event", "help").stdout and "--burst-loss P,LEN" in user.run("lab", "help").stdout
    # Words of a program are its own.
    assert user.run("run", "--", "echo", "help", "--help").stdout == "help --help\n"
    assert user.run("run", "--window", "1024", "echo", "-h").stdout == "-h\n"
    assert user.run("run", "--namespace", "--help").stdout.startswith("Usage: brdma run ")
    assert "no lab 'help'" in user.run("lab", "show", "--name", "help", code=1).stderr  # the value of an option
    table = json.loads(user.run("-j", "help").stdout)
    assert [row["object"] for row in table] == objects and "--force" in str(table), table


def unknown_words_are_named(user):
    for words, meant in (
        (["recovry"], "recovery"),
        (["--jsn", "dev"], "--json"),
        (["lab", "shwo"], "show"),
        (["lab", "up", "--los", "1%"], "--loss"),
        (["run", "--namspace", "true"], "--namespace"),
        (["run", "--depth-mx", "8", "true"], "--depth-max"),
        (["recovery", "set", "depth_mx", "8"], "depth_max"),
        (["recovery", "set", "recovery.depthmax", "8"], "recovery.depth_max"),
        (["congestion", "shwo", "dev"], "show"),
        (["alarm", "set", "stal_seconds", "3"], "stall_seconds"),
        (["event", "gap_promotd"], "gap_promoted"),
        (["resource", "show", "gp"], "gap"),
        (["statistic", "show", "qp", "lqnp", "3"], "lqpn"),
        (["recovery", "retransmit", "qp", "3", "pns", "4"], "psn"),
        (["system", "shutdown", "--forse"], "--force"),
        (["controller", "shw"], "show"),
        (["top", "--onse"], "--once"),
        (["completion", "bsh"], "bash"),
        (["manual", "brdma-lba"], "brdma-lab"),
        (["help", "recovry"], "recovery"),
    ):
        said = user.run(*words, code=2).stderr
        assert f"did you mean '{meant}'?" in said, (words, said)
    assert "use 'brdma congestion set'" in user.run("recovery", "set", "control", "timely", code=2).stderr
    assert "in a file or variable" in user.run("recovery", "set", "device.seed", "3", code=2).stderr
    said = user.run("recovery", "set", "colour", "3", code=2).stderr
    assert said == "brdma: there is no setting colour: 'brdma recovery show' lists them\n", said
    said = user.run("colourful", code=2).stderr
    assert said == "brdma: there is no object 'colourful': see 'brdma help'\n", said


def in_own_network(user, script, variables):
    command = [*user.prefix, "unshare", "--user", "--map-root-user", "--net", "sh", "-c", f"ip link set lo up && {{ {script}; }}", "sh", user.brdma]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)


def unknown_variables_are_warnings(user):
    warning = "the variable BRDMA_DEPTHMAX is no setting: did you mean 'BRDMA_DEPTH_MAX'?"
    variables = {**os.environ, "BRDMA_DEPTHMAX": "5"}
    for words in (["recovery", "show"], ["system", "show", "config"], ["-j", "congestion"]):
        assert f"brdma: {warning}\n" in user.run(*words, env=variables).stderr, words
        assert "BRDMA" not in user.run(*words).stderr
    # A program runs on, and reports it once; brdmad logs it, unless a program has started it.
    done = in_own_network(user, '"$1" run -- ibv_devinfo >/dev/null && "$1" system shutdown --force', variables)
    assert done.returncode == 0 and done.stderr == f"libbitmaprdma: {warning}\n", done
    until = 'until [ "$("$1" system show | grep -c version.*brdmad.null)" = 0 ]; do sleep 0.05; done'
    done = in_own_network(user, f'"$1"d --foreground & {until}; "$1" system shutdown --force && wait', variables)
    assert done.returncode == 0 and f"brdmad: {warning}\n" in done.stderr, done


def write_errors_are_errors(user):
    for words in (["help"], ["statistic"], ["-j", "statistic"], ["system", "show", "config"], ["lab", "list"], ["env"], ["manual", "brdma"], ["completion", "bash"], ["-V"], ["lab", "help"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([*user.prefix, user.brdma, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_SECONDS, check=False)
        # brdma statistic without any brdmad prints nothing in lines: nothing is lost then.
        lost = user.run(*words).stdout != ""
        assert done.returncode == (1 if lost else 0), (words, done)
        assert ("cannot write to standard output: No space left on device" in done.stderr) == lost, (words, done)


def unknown_devices_are_errors(lab):
    for words in (["recovery", "set", "dev", "brdma_eth1", "depth_max", "9"], ["recovery", "show", "dev", "brdma_eth1"], ["dev", "show", "brdma_eth1"], ["link", "brdma_eth1/1"],
                  ["resource", "show", "dev", "brdma_eth1"], ["resource", "show", "qp", "dev", "brdma_eth1"], ["statistic", "brdma_eth1"], ["statistic", "show", "qp", "dev", "brdma_eth1"],
                  ["managed", "show", "dev", "brdma_eth1"], ["event", "dev", "brdma_eth1"], ["top", "--once", "dev", "brdma_eth1"]):
        done = lab.ask("h1", *words, code=1)
        assert "no device brdma_eth1: did you mean 'brdma_eth0'?" in done.stderr and done.stdout == "", (words, done)
    lab.traffic()
    qpn = only(lab.ask_json("h1", "resource", "show", "qp"))["lqpn"]
    wrong = str(qpn + 1) if qpn % 10 < 9 else str(qpn - 1)  # one digit differs
    assert f"no queue pair {wrong}: did you mean '{qpn}'?" in lab.ask("h1", "recovery", "set", "qp", wrong, "depth_max", "9", code=1).stderr
    for words in (["resource", "show", "qp", "lqpn", wrong], ["statistic", "show", "qp", "lqpn", wrong], ["resource", "show", "gap", "lqpn", wrong]):
        done = lab.ask("h1", "-j", *words)
        assert done.stdout == "[]\n" and f"did you mean '{qpn}'?" in done.stderr, (words, done)
    done = lab.ask("h1", "resource", "show", "qp", "stat", "RTS", code=2)
    assert "rows have no key 'stat': did you mean 'state'?" in done.stderr, done
    assert len(lab.ask_json("h1", "resource", "show", "qp", "comm", "ib_write_bw")) == 1
    done = lab.ask("h1", "resource", "show", "qp", "-o", "lqpn,pear", code=2)
    assert "there is no key 'pear': did you mean 'peer'?" in done.stderr, done


def terminals_get_tables(lab):
    lab.traffic()
    pair = only(lab.ask_json("h1", "resource", "show", "qp"))
    command = lambda *words: lab.on("h1", lab.brdma, *words)
    plain = {"NO_COLOR": "1"}
    for columns in (200, 100, 70):
        text, code = on_terminal(command("resource", "show", "qp"), columns, environment=plain)
        lines = text.splitlines()
        assert code == 0 and len(lines) == 2 and max(map(len, lines)) <= columns and "\033" not in text, text
        assert lines[0].split()[:2] == ["dev", "lqpn"] and lines[1].split()[:2] == ["brdma_eth0", str(pair["lqpn"])], text
        assert ("pid" in lines[0]) == (columns == 200) and ("rqpn" in lines[0]) == (columns > 70), text  # what may go has gone
    assert "\033[1m" in on_terminal(command("resource", "show", "qp"))[0]
    assert "\033" not in on_terminal(command("resource", "show", "qp"), environment={"TERM": "dumb"})[0]
    # -d: every key; -o: those, also where it is no terminal.
    text, _ = on_terminal(command("-d", "resource", "show", "qp"), environment=plain)
    assert {line.split()[0] for line in text.splitlines()[1:]} >= set(pair) - {"ifname", "port"}, text
    text = lab.ask("h1", "resource", "show", "qp", "-o", "lqpn,peer,memory.total").stdout
    heading, row = (line.split() for line in text.splitlines())
    assert heading == ["lqpn", "peer", "memory.total"] and row[:2] == [str(pair["lqpn"]), "10.77.0.2"] and int(row[2]) > 1000, text
    assert lab.ask_json("h1", "resource", "show", "qp", "-o", "peer") == [{"peer": "10.77.0.2"}]
    # Counters: what is not zero, in groups; all with -d.
    before = only(lab.wait_for("gaps", "h1", "statistic", until=lambda rows: rows and rows[0]["gaps_seen"] > 0))
    text, _ = on_terminal(command("statistic"), environment=plain)
    counters = only(lab.ask_json("h1", "statistic"))  # they only grow: what is zero now was so
    names = set(re.findall(r"^    ([a-z_0-9]+) ", text, re.M))
    assert "  traffic\n    " in text and "  gaps\n" in text, text
    assert names >= {name for name, value in before.items() if name not in ("ifname", "port") and value > 0}, text
    assert not names & {name for name, value in counters.items() if value == 0}, text
    text, _ = on_terminal(command("-d", "statistic"), environment=plain)
    assert all(f"  {name} " in text for name in counters if name not in ("ifname", "port")), text
    # A pipe gets what it always got: a record a line.
    assert lab.ask("h1", "resource", "show", "qp").stdout.startswith(f"link brdma_eth0/1 lqpn {pair['lqpn']} rqpn {pair['rqpn']} ")
    assert lab.ask("h1", "statistic").stdout.count("\n") == 1
    text, code = on_terminal(command("recovery", "show"), environment=plain)
    assert code == 0 and text.splitlines()[0].split() == ["key", "value", "source", "where"], text


def top_shows_what_happens(lab):
    none = lab.ask_json("h1", "top", "--once", "--interval", "10")
    assert none["queue_pairs"] == [] and none["devices"] == [], none
    lab.traffic()
    pair = only(lab.ask_json("h2", "resource", "show", "qp"))
    end = time.monotonic() + TIMEOUT_SECONDS
    while True:  # losses are chance: at 1 % a second of traffic nearly always has one
        before = only(lab.ask_json("h2", "statistic"))
        sample = lab.ask_json("h2", "top", "--once", "--interval", "500")
        after = only(lab.ask_json("h2", "statistic"))
        row, device = only(sample["queue_pairs"]), only(sample["devices"])
        if row["retransmitted_per_second"] and sum(device["retransmitted_per_second"].values()):
            break
        assert time.monotonic() < end, sample
    assert (row["ifname"], row["lqpn"], row["peer"], row["comm"]) == ("brdma_eth0", pair["lqpn"], "10.77.0.1", "ib_write_bw"), row
    grown = after["sent_pkts"] - before["sent_pkts"]
    seconds = sample["interval_ms"] / 1000
    assert 500 <= sample["interval_ms"] and 0 < row["sent_pkts_per_second"] * seconds <= grown + 1, (row, grown)
    assert row["sent_mbps"] > 0 and row["srtt_us"] > 0 and row["state"] == "RTS" and row["mode"] == "bitmap", row
    server = lab.ask_json("h1", "top", "--once", "--interval", "500")
    assert set(only(server["devices"])["lost_per_second"]) == {"depth", "age", "stall", "path", "requested"}, server
    # Plain tables where the output is no terminal; a screen that is drawn again on one.
    text = lab.ask("h2", "top", "--count", "2", "--interval", "50").stdout
    assert text.count("retransmitted /s") == 2 and text.count("by cause") == 4 and "\033" not in text, text
    text, code = on_terminal(lab.on("h2", lab.brdma, "top", "--count", "2", "--interval", "50"), 80, environment={"NO_COLOR": "1"})
    assert code == 0 and text.count("\033[H\033[J") == 2 and str(pair["lqpn"]) in text, text
    text = lab.ask("h2", "top", "--once", "--interval", "10", "-o", "lqpn,sent_mbps").stdout
    assert text.splitlines()[0].split() == ["lqpn", "sent", "Mbit/s"], text
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(lab.on("h2", lab.brdma, "top", "--interval", "10"), stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert done.returncode == 1 and "No space left" in done.stderr, done


def next_event(follower):
    """Its pipe is not buffered here, or select would not see a line that was read with the one before."""
    ready, _, _ = select.select([follower.stdout], [], [], TIMEOUT_SECONDS)
    assert ready, "no event came"
    return json.loads(follower.stdout.readline())


def following_waits_for_a_later_daemon(lab):
    """Before any program, and again after the brdmad of the first ones has ended."""
    follower = subprocess.Popen(lab.on("h1", lab.brdma, "-j", "event", "-f", "qp_state"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    lab.programs.append(follower)
    assert b"waiting for the first program" in follower.stderr.readline()
    for _ in range(2):
        lab.start("h1", "ib_write_bw", "-n", "1000")
        lab.connect("ib_write_bw", "-n", "1000").wait(timeout=TIMEOUT_SECONDS)
        event = next_event(follower)
        assert event["type"] == "qp_state" and event["to"] == "INIT", event
        while event["to"] != "RTR":  # as far as a server of WRITEs gets
            event = next_event(follower)
        lab.wait_for("its end", "h1", "resource", "show", "ctx", until=lambda rows: rows == [])
        lab.ask("h1", "system", "shutdown")
        assert b"waiting for the first program" in follower.stderr.readline()
    assert follower.poll() is None


COMPLETE = """
source <("$1" completion bash)
brdma=$1; shift
COMP_WORDS=("$brdma" "$@"); COMP_CWORD=$#
_brdma
printf '%s\\n' "${COMPREPLY[@]}"
"""


def words_are_completed(user):
    def completed(*words):
        done = subprocess.run([*user.prefix, "bash", "-c", COMPLETE, "bash", user.brdma, *words], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True)
        return done.stdout.split()

    assert completed("rec") == ["recovery"] and {"dev", "lab", "top"} <= set(completed(""))
    assert {"show", "set", "retransmit", "help"} <= set(completed("recovery", ""))
    assert completed("rec", "set", "depth_m") == ["depth_max"] and completed("recovery", "set", "adaptive", "t") == ["true"]
    assert completed("congestion", "set", "control", "ti") == ["timely"]
    assert {"ctx", "qp", "gap", "cm_id"} <= set(completed("resource", "show", ""))
    assert "lqpn" in completed("resource", "show", "qp", "") and completed("resource", "show", "qp", "lqpn", "") == []
    assert completed("lab", "up", "--burst") == ["--burst-loss"]
    if "triangle" in user.run("lab", "help").stdout:  # a copied program is without the package's topologies
        assert completed("lab", "up", "--topology", "tri") == ["triangle"]
    assert completed("run", "--recovery", "go") == ["gobackn"] and "--depth-max" in completed("run", "--depth")
    assert completed("event", "gap_p") == ["gap_promoted"] and completed("top", "--o") == ["--once"]
    assert completed("system", "shutdown", "--f") == ["--force"] and completed("-j", "li") == ["link"]
    assert completed("completion", "f") == ["fish"]
    # A program, and its words: the shell's own.
    assert "true" in completed("run", "tru") and "true" in completed("run", "--", "tru") and "true" in completed("lab", "exec", "h1", "tru")
    assert completed("run", "ls", "/etc/hostn") == ["/etc/hostname"]


def pages_are_made(user):
    pages = user.run("manual").stdout.split()
    objects = [row["object"] for row in json.loads(user.run("-j", "help").stdout)]
    own = {"controller", "perf"}  # programs have pages of their own
    assert pages == ["brdma", *(f"brdma-{name}" for name in objects if name not in own)], pages
    folder = os.path.join(os.path.dirname(os.path.dirname(user.brdma)), "utils", "brdma", "manual")
    for page in pages:
        text = user.run("manual", page).stdout
        assert f'.TH {page.upper()} 8' in text and ".SH SYNOPSIS" in text, text
        if os.path.isdir(folder):  # those of the build, which are installed
            with open(os.path.join(folder, page + ".8"), encoding="utf-8") as file:
                assert file.read() == text, f"{folder}/{page}.8 is another than 'brdma manual {page}'"
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-ww", "-Tutf8", "-man", "-rLL=90n"], input=text, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True)
            assert done.stderr == "", f"{page}: {done.stderr}"
    whole = user.run("manual", "brdma").stdout
    for name in objects:
        assert f"brdma\\-{name} (8)" in whole, name
    recovery = user.run("manual", "brdma-recovery").stdout
    assert "\\fBbrdma recovery set\\fR [\\fBdev\\fR \\fIDEV\\fR] [\\fBqp\\fR \\fIQPN\\fR] \\fIKEY\\fR \\fIVALUE\\fR ...\n" in recovery, recovery


def system_shows_the_daemon(lab):
    """And whether it keeps users apart, which it cannot where it trusts them."""
    assert only(lab.ask_json("h1", "system"))["brdmad"] is None
    for words in ([], ["--system", "--users-trust-each-other"]):
        subprocess.run(lab.on("h1", os.path.join(os.path.dirname(lab.brdma), "brdmad"), "--idle-seconds", "0", *words), timeout=TIMEOUT_SECONDS, check=True)
        daemon = only(lab.ask_json("h1", "system"))["brdmad"]
        assert daemon["system"] == bool(words) and daemon["users_kept_apart"] is False, daemon
        lab.ask("h1", "system", "shutdown")
        lab.wait_for("its end", "h1", "system", until=lambda rows: only(rows)["brdmad"] is None)


def labs_are_described(lab):
    """What `lab up` prints. The lab of the case is up already: this one is another."""
    name = lab.name + "b"
    done = subprocess.run([*lab.prefix, lab.brdma, "lab", "up", "--name", name, "--hosts", "3", "--loss", "1%"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    try:
        assert done.returncode == 0, done
        lines = done.stdout.splitlines()
        assert lines[0] == f"lab '{name}' is up: a switch with loss 1%; interface MTU 9000", done
        assert [line.split() for line in lines[1:4]] == [[f"h{i}", f"10.77.0.{i}", f"fd77::{i}", "eth0"] for i in (1, 2, 3)], done
        assert lines[4] == f"next: brdma lab exec --name {name} h1 -- ibv_devinfo; brdma lab down --name {name}", done
    finally:
        subprocess.run([*lab.prefix, lab.brdma, "lab", "down", "--name", name], timeout=TIMEOUT_SECONDS, check=True)


WITHOUT_LAB = [help_is_anywhere, unknown_words_are_named, unknown_variables_are_warnings, write_errors_are_errors, words_are_completed, pages_are_made]
# Case and its network.
IN_LAB = {
    unknown_devices_are_errors: [],
    terminals_get_tables: ["--loss", "1%", "--seed", "41"],
    top_shows_what_happens: ["--loss", "1%", "--seed", "42"],
    following_waits_for_a_later_daemon: [],
    system_shows_the_daemon: [],
    labs_are_described: [],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    cases.add_options(parser)
    options = parser.parse_args()
    plain = [(case.__name__, lambda user: NoLab(user.build, user.prefix), case) for case in WITHOUT_LAB]
    in_lab = [(case.__name__, lambda user, network=network: management.Lab(user.build, user.prefix, network, name="e2ecli"), case) for case, network in IN_LAB.items()]
    return cases.run(options, plain + in_lab)


if __name__ == "__main__":
    sys.exit(main())
