#!/usr/bin/env python3
"""`brdma sim`: runs and sweeps from scenario files; results that are the same again; errors that name file, line and word; parts
and launchers; points that are done. As root and, `--as-nobody`, without. It needs no network and no right. Last line: `N passed,
M failed`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

import cases

SECONDS = 300
SCENARIO = """name = "small"
[topology]
kind = "incast"
hosts = 3
[network]
rate = "25gbit"
queue = "64kb"
loss = "1%"
[workload]
sizes = "facebook_webserver"
load = 0.4
flows = 60
"""
KEYS = {"scenario", "name", "input_digest", "digest", "seed", "protocols", "network", "hosts", "switches", "workloads", "flows", "fct_us", "slowdown", "by_size", "links",
        "drops", "data_packets", "retransmitted", "retransmitted_packets", "timeouts", "notices", "rewritten_acks", "packet_events", "length_us"}
COLUMNS = "flow workload from to bytes start_ns fct_ns alone_ns slowdown broken measured".split()


class Simulator:
    """A folder with the scenario, and the program in it."""

    def __init__(self, user):
        self.prefix, self.brdma, self.folder = user.prefix, os.path.join(user.build, "bin", "brdma"), user.new_directory()
        self.write("small.toml", SCENARIO)

    def down(self):
        pass

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), 0o644)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def run(self, *words, code=0, **environment):
        inside = ["env", "-C", self.folder, *[f"{name}={value}" for name, value in environment.items()], self.brdma]
        done = subprocess.run([*self.prefix, *inside, *words], capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == code, f"brdma {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def sweep(self, *words, code=0, **environment):
        return self.run("sim", "sweep", "small.toml", "--loads", "0.2,0.4", "--seeds", "1..2", "-o", "out", *words, code=code, **environment)

    def points(self):
        return sorted(name for name in os.listdir(self.path("out/points")) if os.path.exists(self.path(f"out/points/{name}/summary.json")))


def a_run_writes_its_results(sim):
    said = sim.run("sim", "run", "small.toml", "-o", "out").stdout
    assert said.startswith("flows 60 of 60, unfinished 0, seed 1, digest "), said
    summary = json.loads(sim.read("out/summary.json"))
    assert set(summary) == KEYS, set(summary) ^ KEYS
    assert summary["flows"] == {"all": 60, "measured": 60, "unfinished": 0, "broken": 0, "waited": 0}, summary["flows"]
    assert summary["links"]["lost"] > 0 and summary["retransmitted_packets"] > 0, summary["links"]
    assert summary["retransmitted_packets"] == sum(summary["retransmitted"].values()), summary["retransmitted"]
    rows = [line.split("\t") for line in sim.read("out/flows.tsv").splitlines()]
    assert rows[0] == COLUMNS and len(rows) == 61, rows[0]
    assert all(int(row[6]) >= int(row[7]) > 0 for row in rows[1:]), "a flow is faster than alone"
    assert xml.etree.ElementTree.fromstring(sim.read("out/flows.svg")).tag.endswith("svg")
    assert {row[2] for row in rows[1:]} == {"h2", "h3", "h4"} and {row[3] for row in rows[1:]} == {"h1"}


def one_seed_is_one_result(sim):
    first = json.loads(sim.run("-j", "sim", "run", "small.toml").stdout)
    assert json.loads(sim.run("sim", "run", "small.toml", "-j").stdout) == first
    other = json.loads(sim.run("-j", "sim", "run", "small.toml", "--seed", "2").stdout)
    assert other["digest"] != first["digest"] and other["seed"] == 2, other
    slow = json.loads(sim.run("-j", "sim", "run", "small.toml", "--set", "protocol.name=gobackn", "--set", "network.loss=5%").stdout)
    assert slow["protocols"] == "gobackn" and slow["fct_us"]["mean"]["value"] > first["fct_us"]["mean"]["value"], slow["fct_us"]
    # The same flows for every protocol.
    assert [each["mean_bytes"] for each in slow["workloads"]] == [each["mean_bytes"] for each in first["workloads"]]


def errors_name_the_place(sim):
    sim.write("wrong.toml", SCENARIO.replace("load =", "laod ="))
    said = sim.run("sim", "run", "wrong.toml", code=2).stderr
    assert said == "brdma sim: wrong.toml:11: unknown key of [workload] 'laod': did you mean 'load'?\n", said
    assert "cannot be read" in sim.run("sim", "run", "nosuch.toml", code=2).stderr
    assert "known names: facebook_webserver" in sim.run("sim", "run", "small.toml", "--set", "workload.sizes=nosuch", code=2).stderr
    for words in (["sim"], ["sim", "run"], ["sim", "rnu", "small.toml"], ["sim", "run", "small.toml", "--sed", "1"], ["sim", "sweep", "small.toml"],
                  ["sim", "sweep", "small.toml", "-o", "out", "--loads", "a"], ["sim", "sweep", "small.toml", "-o", "out", "--part", "3/2"]):
        assert sim.run(*words, code=2).stderr.strip(), words
    assert "cannot" in sim.run("sim", "run", "small.toml", "-o", "/proc/nowhere", code=1).stderr


def a_sweep_makes_each_point_once(sim):
    said = sim.sweep("--jobs", "2").stdout
    assert said.startswith("points: 4 of 4 are done, 4 of them now"), said
    assert sim.points() == ["load=0.2_seed=1", "load=0.2_seed=2", "load=0.4_seed=1", "load=0.4_seed=2"], sim.points()
    rows, means = sim.read("out/points.tsv"), sim.read("out/sweep.json")
    assert len(rows.splitlines()) == 5, rows
    assert [(row["point"], row["fct_us"]["p99"]["seeds"]) for row in json.loads(means)] == [("load=0.2", 2), ("load=0.4", 2)], means
    # A point is the run with the same values.
    alone = json.loads(sim.run("-j", "sim", "run", "small.toml", "--seed", "2", "--set", "workload.load=0.4").stdout)
    assert alone["digest"] == json.loads(sim.read("out/points/load=0.4_seed=2/summary.json"))["digest"]
    before = os.stat(sim.path("out/points/load=0.2_seed=1/summary.json")).st_mtime_ns
    assert "0 of them now" in sim.sweep().stdout
    assert os.stat(sim.path("out/points/load=0.2_seed=1/summary.json")).st_mtime_ns == before
    assert (sim.read("out/points.tsv"), sim.read("out/sweep.json")) == (rows, means)
    # Another scenario is not mixed in.
    sim.write("small.toml", SCENARIO.replace("flows = 60", "flows = 50"))
    assert "results of another scenario" in sim.sweep(code=1).stderr


def parts_are_merged_by_file(sim):
    assert "points: 2 of 4 are done" in sim.sweep("--part", "1/2").stdout
    assert len(sim.points()) == 2
    assert "points: 4 of 4 are done, 2 of them now" in sim.sweep(OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2").stdout
    parted = sim.read("out/points.tsv")
    os.rename(sim.path("out"), sim.path("parted"))
    sim.sweep("--jobs", "1")
    assert sim.read("out/points.tsv") == parted


def a_point_that_fails_is_named(sim):
    done = sim.sweep("--each", "run.time-limit=1ms,1s", "--jobs", "1")
    assert "points: 8 of 8" in done.stdout, done
    sim.write("small.toml", SCENARIO)
    os.makedirs(sim.path("bad/points"))
    with open(sim.path("bad/points/load=0.2_seed=1"), "w", encoding="utf-8"):  # a file where the folder is to be
        pass
    done = sim.run("sim", "sweep", "small.toml", "--loads", "0.2", "--seeds", "1", "-o", "bad", code=1)
    assert "cannot make the folder" in done.stderr, done


def help_is_of_the_table(sim):
    for words in (["sim", "--help"], ["sim", "run", "--help"], ["help", "sim"]):
        assert "brdma sim run SCENARIO" in sim.run(*words).stdout, words
    own = subprocess.run([*sim.prefix, sim.brdma + "-sim", "sweep", "--help"], capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    table = sim.run("sim", "sweep", "--help").stdout
    for option in re.findall(r"--[a-z]+", table):
        assert option in own or option in ("--columns",), (option, own)
    assert "brdma-sim" in sim.run("manual", "brdma-sim").stdout.replace("\\-", "-")


CASES = [a_run_writes_its_results, one_seed_is_one_result, errors_name_the_place, a_sweep_makes_each_point_once, parts_are_merged_by_file, a_point_that_fails_is_named,
         help_is_of_the_table]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    cases.add_options(parser)
    return cases.run(parser.parse_args(), [(case.__name__, Simulator, case) for case in CASES])


if __name__ == "__main__":
    sys.exit(main())
