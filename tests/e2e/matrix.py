#!/usr/bin/env python3
"""Runs the rows of catalogue.py, unmodified programs each, between two lab hosts: on a clean network, with 1 % loss, with 5 %
loss and 5 % reordering, and without root. `--write FILE` makes the table of all of them; else one column is run and judged.
Last line: `N passed, M failed`.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback

import catalogue
import special
from cases import ended_well
from management import TIMEOUT_SECONDS, Lab
from programs import NETWORKS, for_nobody, with_any_clock

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER, CLIENT, SERVER6 = "10.77.0.1", "10.77.0.2", "fd77::1"
SIGNALLED = range(129, 160)  # `lab exec`'s exit codes for programs ended by a signal
COLUMNS = {"clean": "clean", "loss1": "1 % loss", "loss5": "5 % loss, 5 % reordering", "nobody": "clean, without root"}
# Packages whose versions the table names.
PACKAGES = ["libibverbs1", "librdmacm1", "ibverbs-utils", "rdmacm-utils", "perftest", "qperf", "fio", "ucx-utils", "libfabric-bin", "openmpi-bin", "python3-pyverbs"]


class Scratch:
    """A directory for the programs' files, and the words that rows have in braces."""

    def __init__(self, home):
        self.path = os.path.join(home, "scratch")
        os.mkdir(self.path)
        os.chmod(self.path, 0o777)
        self.words = {"server": SERVER, "client": CLIENT, "server6": SERVER6, "scratch": self.path, "file": os.path.join(self.path, "file")}
        with open(self.words["file"], "wb") as file:
            file.write(os.urandom(300000))

    def fill(self, command):
        return with_any_clock([word.format(**self.words) for word in command])


def bound(lab, kind, port):
    """Whether somebody on h1 has bound the port: a listening socket of TCP, any of UDP."""
    tables = subprocess.run(lab.on("h1", "cat", f"/proc/net/{kind}", f"/proc/net/{kind}6"), capture_output=True, text=True, timeout=TIMEOUT_SECONDS).stdout
    return any(len(row) > 3 and row[1].endswith(f":{port:04X}") and (kind == "udp" or row[3] == "0A") for row in map(str.split, tables.splitlines()))


def listens(lab):
    done = subprocess.run(lab.on("h1", lab.brdma, "-j", "resource", "show", "cm_id"), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    return done.returncode == 0 and any(row["state"] == "LISTEN" for row in json.loads(done.stdout))


def wait_until_ready(lab, ready, serving):
    end = time.monotonic() + TIMEOUT_SECONDS
    while ready and serving.poll() is None:
        kind, _, port = ready.partition(":")
        if listens(lab) if kind == "cm" else bound(lab, kind, int(port)):
            return
        assert time.monotonic() < end, "the server does not listen"
        time.sleep(0.01)


def finish(program, seconds):
    """Exit code and output; None as code: not done in time, and ended."""
    try:
        output, _ = program.communicate(timeout=seconds)
        return program.returncode, output
    except subprocess.TimeoutExpired:
        program.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        return None, program.communicate(timeout=5)[0]
    program.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):  # its child processes may hold its output
        return None, program.communicate(timeout=5)[0]
    return None, ""


def shorten(output):
    """The lines of a program's output that report the error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-300:]


PASSED, REFUSED = "passed", "refused"


def judge(row, sides):
    """PASSED, REFUSED or the error. `sides`: name, exit code and output of each, the client first."""
    said = "\n".join(output for _, _, output in sides)
    clean_error = all(code is not None and code > 0 and code not in SIGNALLED for _, code, _ in sides)
    if row.refused and clean_error:
        return REFUSED if re.search(row.refused, said) else f"refused in other words: {shorten(said)}"
    for name, code, output in sides:
        if code is None:
            return f"{name}: not done after {row.seconds} s: {shorten(output)}"
        if code != 0:
            return f"{name}: exit code {code}: {shorten(output)}"
    if row.expects and row.expects not in sides[0][2]:
        return f"its output lacks '{row.expects}': {shorten(sides[0][2])}"
    return PASSED


# libfabric's reliable datagrams close their connection when the other side has closed, and report requests that they
# have not polled by then as cancelled: destroying a queue pair removes its completions. For fi_pingpong that is the
# last message, whose acknowledgement may come with the close; its table is complete then.
PINGPONG_RACE, PINGPONG_LAST = "cq_readerr: Work Request Flushed Error", "\n1m  "


def without_its_own_race(row, name, code, output):
    rping = "rping" in row.client and name == "client" and ended_well(code, output)
    pingpong = "verbs;ofi_rxm" in row.client and code == 125 and PINGPONG_RACE in output and PINGPONG_LAST in output
    return name, 0 if rping or pingpong else code, output


def run_row(lab, row, scratch):
    if row.run:
        getattr(special, row.run)(lab, scratch)
        return PASSED
    if row.server is None:
        alone = lab.start("h1", *scratch.fill(row.client))
        return judge(row, [("it", *finish(alone, row.seconds))])
    serving = lab.start("h1", *scratch.fill(row.server))
    wait_until_ready(lab, row.ready, serving)
    client = ("client", *finish(lab.start("h2", *scratch.fill(row.client)), row.seconds))
    client = without_its_own_race(row, *client)
    if not row.server_ends:
        # It keeps serving; its exit code after being ended does not count.
        still = serving.poll() is None
        serving.terminate()
        finish(serving, 5)
        verdict = judge(row, [client])
        return verdict if still or verdict != PASSED else "the server ended"
    return judge(row, [client, without_its_own_race(row, "server", *finish(serving, row.seconds if client[1] == 0 else 5))])


def end_all(lab):
    for program in lab.programs:
        if program.poll() is None:
            program.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(timeout=5)
            if program.poll() is None:
                program.kill()
                program.wait()
        program.stdout.close()
    lab.programs.clear()


def run_column(options, column, report, kept):
    """Runs the rows of one column except those that passed in `kept`, and returns the result of each: name to PASSED,
    REFUSED or a problem."""
    build, prefix = options.build, []
    rows = [row for row in catalogue.ROWS if options.only in row.name and (row.brief or not options.brief)]
    network = "clean" if column == "nobody" else column
    for row in rows:
        if row.own_fault:
            print(f"skip           {column}: {row.section}: {row.name}: {row.own_fault}", flush=True)
    rows = [row for row in rows if not row.own_fault and (network == "clean" or not (row.clean_only or row.refused))]
    rows = [row for row in rows if column != "nobody" or not row.root_only]
    outcome = {row.name: kept[row.name] for row in rows if good(kept.get(row.name))}
    rows = [row for row in rows if row.name not in outcome]
    if not rows:
        return outcome
    with tempfile.TemporaryDirectory(prefix="brdma-programs-") as home:
        if column == "nobody" and os.geteuid() == 0:
            build = for_nobody(options.build, home)
            prefix = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR", f"HOME={home}/home"]
        os.chmod(home, 0o755)
        scratch = Scratch(home)
        lab = Lab(build, prefix, NETWORKS[network], f"e2e{column}")
        try:
            for row in rows:
                began = time.monotonic()
                try:
                    verdict = run_row(lab, row, scratch)
                except Exception:  # noqa: BLE001: reported, and the others still run
                    verdict = traceback.format_exc()[-1500:]
                end_all(lab)
                outcome[row.name] = verdict
                report(column, row, verdict, time.monotonic() - began)
            if network != "clean" and rows and lab.lost_packets() == 0:
                outcome["network"] = "the network counts no packet as lost"
                print(f"FAIL {column}: {outcome['network']}", flush=True)
        finally:
            lab.down()
    return outcome


def good(verdict):
    return verdict in (PASSED, REFUSED)


def say(column, row, verdict, took):
    mark = "ok   " if verdict == PASSED else "ok - " if verdict == REFUSED else "FAIL "
    print(f"{mark}{took:6.1f}s  {column}: {row.section}: {row.name}{'' if verdict == PASSED else ': ' + verdict}", flush=True)


def versions():
    asked = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *PACKAGES], capture_output=True, text=True, check=False).stdout
    return ", ".join(asked.split("\n")).strip(", ")


HEAD = """# Programs that run
For engineers who want to know whether their RDMA program runs on this library. After this page you know which options of which programs run, over which networks, and which are refused.

Each cell is a run of the unmodified program, with the server on one lab host and the client on another. `bash tests/run programs` makes the runs and writes this page ([tests/e2e](../../tests/e2e/README.md)).{again}

| cell | cells | meaning |
|---|---|---|
| *passed* | {passed} | Both ends exited with 0. A program that prints a result printed it. On the two lossy networks the switch counted losses |
| *refused* | {refused} | The library does not support the request. Both ends ended with an error of their own, without a signal or a hang. The last column has the pattern that they must print |
| *failed* | {failed} | The cell has the reason |
| — | {dashes} | Not run. The last column has the reason, or a refusal does not depend on the network |

Versions: {versions}; Linux {kernel}.
"""


def cell(row, column, outcomes):
    if row.name not in outcomes[column]:
        return "—"
    verdict = outcomes[column][row.name]
    return verdict if good(verdict) else "**failed**: " + verdict.replace("|", "\\|").replace("\n", " ")


def table(outcomes, again):
    lines, counts = [], {"passed": 0, "refused": 0, "failed": 0, "—": 0}
    for section in dict.fromkeys(row.section for row in catalogue.ROWS):
        lines += [f"\n## {section}", "| program | " + " | ".join(COLUMNS.values()) + " | remark |", "|---" * (len(COLUMNS) + 2) + "|"]
        for row in (row for row in catalogue.ROWS if row.section == section):
            cells = [cell(row, column, outcomes) for column in COLUMNS]
            for text in cells:
                kind = "failed" if text.startswith("**") else text
                counts[kind] = counts.get(kind, 0) + 1
            remark = row.own_fault or row.clean_only or (row.refused.replace("|", " *or* ") if REFUSED in cells else "")
            lines.append(f"| `{row.name}` | " + " | ".join(cells) + f" | {remark} |")
    again = " A failed run on a busy machine was repeated." if again else ""
    head = HEAD.format(again=again, versions=versions(), kernel=os.uname().release, dashes=counts["—"], **{kind: counts[kind] for kind in ("passed", "refused", "failed")})
    return head + "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--column", choices=COLUMNS, help="run one column")
    parser.add_argument("--write", metavar="FILE", help="run all columns and write the table")
    parser.add_argument("--keep", metavar="FILE", help="outcomes are kept in it, and what is good there is not run again")
    parser.add_argument("--only", default="", help="run only the rows whose name holds this text")
    parser.add_argument("--brief", action="store_true", help="a few rows, as in the default lane")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{row.section}: {row.name}" for row in catalogue.ROWS))
        return 0
    if not options.column and not options.write:
        parser.error("either --column or --write")
    kept = {}
    if options.keep and os.path.exists(options.keep):
        with open(options.keep, encoding="utf-8") as file:
            kept = json.load(file)
    columns = [options.column] if options.column else list(COLUMNS)
    # Half of the programs wait for a second to pass: two columns at a time are no burden.
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = dict(zip(columns, pool.map(lambda column: run_column(options, column, say, kept.get(column, {})), columns)))
    if options.keep:
        with open(options.keep, "w", encoding="utf-8") as file:
            json.dump({**kept, **outcomes}, file, indent=1)
    verdicts = [problem for outcome in outcomes.values() for problem in outcome.values()]
    failed = sum(not good(verdict) for verdict in verdicts)
    if options.write:
        with open(options.write, "w", encoding="utf-8") as file:
            file.write(table(outcomes, bool(kept)))
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    return 0 if verdicts and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
