"""Plants differences between networks and expects the figures' scripts to fail.   same_network_test.py TESTS/FIGURES
DOCS/FIGURES"""
import contextlib
import csv
import io
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

FIGURES, DOCS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path.insert(0, FIGURES)
import drops_lab  # noqa: E402
import incast_lab  # noqa: E402
import switches_lab  # noqa: E402
import wan_lab  # noqa: E402
from same_network import Difference, same_measured, same_networks, same_settings, same_simulated  # noqa: E402


class Rules(unittest.TestCase):
    def test_settings(self):
        same_settings({"a": "rate=1gbit;loss=1%", "b": "rate=1gbit;loss=1%;edn=icmp"}, compared=["edn"])
        for other in ("rate=1gbit;loss=1%;uplink=off;edn=icmp", "rate=2gbit;loss=1%", "loss=1%", "rate=1gbit;loss=1%;queue=1mb", "rate=1gbit;loss=1%;both-ways"):
            with self.assertRaises(Difference, msg=other):
                same_settings({"a": "rate=1gbit;loss=1%", "b": other}, compared=["edn"])
        with self.assertRaises(Difference):
            same_settings({"a": {"rate": "1gbit"}, "b": {"rate": "1gbit", "edn": "icmp"}})

    def test_simulated(self):
        same_simulated({"a": ("11.63", "30.80"), "b": ("11.63", "30.80"), "short": ("11.40", "30.00")}, {"short": 0.04})
        for other in (("11.44", "30.80"), ("11.63", "30.81")):
            with self.assertRaises(Difference, msg=other):
                same_simulated({"a": ("11.63", "30.80"), "b": other})
        with self.assertRaises(Difference):
            same_simulated({"a": ("11.63", "30.80"), "short": ("11.00", "30.00")}, {"short": 0.04})

    def test_simulated_within_a_part(self):
        same_simulated({"a": "0.9773", "b": "0.9764"}, tolerance=0.01)
        for far in ("0.9600", "0.9900"):
            with self.assertRaises(Difference, msg=far):
                same_simulated({"a": "0.9773", "b": far}, tolerance=0.01)
        with self.assertRaises(Difference):
            same_simulated({"a": "0.9773", "b": "0.9600"}, tolerance=0.5)  # no more than 1 %

    def test_networks(self):
        rows = [{"way": way, "loss": loss, "network": f"rate=1gbit;loss={loss}{more}"} for loss in ("0", "1%") for way, more in (("a", ""), ("b", ";edn=icmp"))]
        same_networks(rows, ["loss"], compared=["edn"])
        with self.assertRaises(Difference):
            same_networks(rows, ["loss"])
        with self.assertRaises(Difference):
            same_networks(rows, [], compared=["edn"])
        for network in ("rate=1gbit;loss=1%;uplink=off;edn=icmp", "", None):
            with self.assertRaises(Difference, msg=network):
                same_networks([*rows[:-1], {**rows[-1], "network": network}], ["loss"], compared=["edn"])
        with self.assertRaises(Difference):
            same_networks([], ["loss"])

    def test_measured(self):
        steady = [100.0, 100.5, 99.5, 100.2, 99.9, 100.1]
        self.assertIn("apart", same_measured({"a": steady, "b": [value * 1.004 for value in steady]}))
        same_measured({"a": steady, "short": [value * 0.97 for value in steady]}, {"short": 0.04})
        same_measured({"a": steady, "b": [*steady[1:], 300.0]})  # one disturbed value
        for other in ([value * 1.02 for value in steady], [value * 0.98 for value in steady]):
            with self.assertRaises(Difference):
                same_measured({"a": steady, "b": other})
        with self.assertRaisesRegex(Difference, "known to"):
            same_measured({"a": steady, "b": [60.0, 150.0, 100.0, 70.0, 130.0]})
        with self.assertRaisesRegex(Difference, "five"):
            same_measured({"a": steady, "b": steady[:3]})


def scaled(column, by):
    return column, lambda row: f"{float(row[column]) * by:.4f}"


def rate_changed(row):
    return row["network"].replace("gbit", "mbit", 1)


def of(**wanted):
    return lambda row: all(row[column] == value for column, value in wanted.items())


# Script, points, and the change: (column, its new value, in which rows).
PLANTED = {
    "recovery.py": ("recovery.tsv", [(*scaled("share", 0.985), of(way="adaptive", loss_percent="0", reorder_depth="0", paths="1")),
                                     (*scaled("share", 1.02), of(way="go-back-N", loss_percent="0", reorder_depth="0", paths="1")),
                                     ("network", rate_changed, of(way="fixed", loss_percent="5", reorder_depth="8", paths="1"))]),
    "transfers.py": ("transfers.tsv", [(*scaled("median_us", 0.985), of(kind="size", way="segments", second="0", bytes="4096")),
                                       ("network", rate_changed, of(kind="size", way="segments", second="1", bytes="65536"))]),
    "drops.py": ("drops.tsv", [(*scaled("mean_us", 0.985), of(kind="random", way="EDN", loss_percent="0", sizes="google")),
                               (*scaled("p99_us", 1.015), of(kind="roomy", way="FFM + EDN", sizes="webserver")),
                               (*scaled("p99_us", 1.015), of(kind="timeouts", way="EDN", sizes="google", queue_kb="256", sender="path", seed="3")),
                               (*scaled("mean_us", 0.95), of(kind="random", way="go-back-N, 4 ms", loss_percent="0", sizes="google")),
                               ("lost", lambda row: "1", of(kind="roomy", way="FFM", sizes="google")),
                               ("lost", lambda row: "1", of(kind="timeouts", way="IRN", sizes="webserver", queue_kb="256", sender="window", seed="2")),
                               ("network", lambda row: row["network"].replace("uplink=off", "uplink=same"), of(kind="incast", way="IRN", sizes="google")),
                               ("network", lambda row: row["network"] + ";buffer=1mb,1", of(kind="timeouts", way="EDN", sizes="google", queue_kb="16"))]),
    "congestion.py": ("congestion.tsv", [(*scaled("share", 0.985), of(seed="1", place="wan", way="dcqcn", flows="1")),
                                         ("dropped", lambda row: "1", of(seed="2", place="dc", way="timely", flows="1")),
                                         ("network", rate_changed, of(seed="3", place="dc", way="both", flows="16"))]),
    "wan.py": ("wan.tsv", [(*scaled("share", 0.985), of(way="wan", rtt_ms="1", queue_kb="1048576")),
                           ("queue_dropped", lambda row: "1", of(way="FFM", queue_kb="1048576")),
                           ("network", rate_changed, of(way="wan+FFM", rtt_ms="100", loss_percent="1"))]),
    "reroute.py": ("reroute.tsv", [(*scaled("before_mbps", 0.985), of(where="simulator", way="default", event="cut", delay_ms="10")),
                                   ("network", rate_changed, of(where="simulator", way="default", event="slow", delay_ms="50"))]),
    "receivers.py": ("receivers.tsv", [(*scaled("first_mbps", 0.97), of(where="simulator", way="paced", managed="on", event="link", s="2.0")),
                                       ("network", rate_changed, of(where="simulator", way="default", managed="off", event="link", s="4.0"))]),
}


class Scripts(unittest.TestCase):
    def draw(self, script, lines):
        with tempfile.TemporaryDirectory(prefix="brdma-figures-") as directory:
            with open(f"{directory}/points.tsv", "w") as file:
                file.writelines("\t".join(line) + "\n" for line in lines)
            return subprocess.run([sys.executable, f"{FIGURES}/{script}", f"{directory}/points.tsv", directory], capture_output=True, text=True, check=False)

    def test_planted_differences_are_seen(self):
        for script, (points, changes) in PLANTED.items():
            with open(f"{DOCS}/{points}") as file:
                lines = list(csv.reader(file, delimiter="\t"))
            with self.subTest(script, planted=None):
                done = self.draw(script, lines)
                self.assertEqual(done.returncode, 0, done.stderr)
            for column, new, chosen in changes:
                with self.subTest(script, planted=column):
                    changed, count = [lines[0]], 0
                    for line in lines[1:]:
                        row = dict(zip(lines[0], line))
                        line = list(line)
                        if len(line) == len(lines[0]) and chosen(row):
                            line[lines[0].index(column)], count = new(row), count + 1
                        changed.append(line)
                    self.assertGreater(count, 0)
                    done = self.draw(script, changed)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn("not one network", done.stderr)


class Labs(unittest.TestCase):
    """Scripts that measure: their runs are made up here, all alike except for the planted difference."""
    NETWORK = {"rate": "1gbit", "uplink": "off", "edn": "off"}

    def refused(self, draw, *arguments):
        with tempfile.TemporaryDirectory(prefix="brdma-figures-") as directory, contextlib.redirect_stdout(io.StringIO()):
            try:
                draw("build", directory, *arguments)
            except Difference as difference:
                return str(difference)
        return ""

    def test_drops(self):
        def run(planted, factor):
            def of_way(build, way, loss, seed):
                mean = 100.0 + seed * 0.1
                network = {**self.NETWORK, "edn": drops_lab.WAYS[way][1]}
                if way == "FFM" and loss == planted:
                    mean, network = mean * factor, {**network, **({} if factor != 1 else {"uplink": "same"})}
                return {"mean_us": mean, "p99_us": mean, "max_us": mean, "dropped": 0, "resent": 0, "by_edn": 0, "timeouts": 0, "network": network}
            return of_way
        for planted, factor, words in ((None, 1, ""), ("0", 1.03, "without faults"), ("10", 1, "uplink"), ("10", 3, "")):
            with self.subTest(planted=planted, factor=factor), unittest.mock.patch.object(drops_lab, "run", run(planted, factor)):
                self.assertEqual(words in self.refused(drops_lab.main, 5), True)
                self.assertEqual(bool(self.refused(drops_lab.main, 5)), bool(words))

    def test_incast(self):
        def measure(planted, factor, dropped):
            def of_way(build, queue, way, seed):
                there = way == "FFM + EDN" and queue == planted
                network = {**self.NETWORK, "edn": incast_lab.WAYS[way][1], **({"rate": "2gbit"} if there and factor == 1 and not dropped else {})}
                times = [(10_000.0 + seed + i) * (factor if there else 1) for i in range(100)]
                return times, {"timeouts": 0, "by_edn": 0, "dropped": dropped if there else 0, "resent": 0}, network
            return of_way
        roomy, queue = incast_lab.ROOMY, incast_lab.QUEUE
        for planted, factor, dropped, words in ((None, 1, 0, ""), (roomy, 0.97, 0, "without faults"), (roomy, 1, 3, "lost packets"), (queue, 1, 0, "rate"), (queue, 0.5, 9, "")):
            with self.subTest(planted=planted, factor=factor), unittest.mock.patch.object(incast_lab, "measure", measure(planted, factor, dropped)):
                answer = self.refused(incast_lab.main, 5)
                self.assertIn(words, answer)
                self.assertEqual(bool(answer), bool(words))

    def test_switches(self):
        pair = lambda **network: unittest.mock.Mock(network={**self.NETWORK, **network})
        switches_lab.one_network({"off": [pair(), pair()], "roce": [pair(edn="roce"), pair(edn="roce")]}, ["edn"])
        for other in ({"edn": "roce", "uplink": "same"}, {"edn": "roce", "loss": "1%"}):
            with self.assertRaises(Difference):
                switches_lab.one_network({"off": [pair(), pair()], "roce": [pair(edn="roce"), pair(**other)]}, ["edn"])
        self.assertIn("--uplink", switches_lab.EDN_NETWORK)

    def test_wan(self):
        def rows(planted=1.0):
            of_wire = {"TCP CUBIC": 1448 / 1514, "go-back-N": 1024 / (1024 + 58), "default": 1024 / (1024 + 98)}
            return [{"way": way, "rtt_ms": trip, "loss_percent": loss, "run": run, "mbps": f"{190 * part * (planted if way == 'default' else 1) + run * 0.01:.3f}"}
                    for way, part in of_wire.items() for trip in (1, 50) for loss in ("0", "1") for run in range(5)]
        with contextlib.redirect_stdout(io.StringIO()):
            wan_lab.check(rows(), 1024)
            for planted in (0.97, 1.03):
                with self.assertRaises(Difference):
                    wan_lab.check(rows(planted), 1024)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
