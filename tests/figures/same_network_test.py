"""Plants differences between networks and sees the figures' scripts fail.   same_network_test.py TESTS/FIGURES DOCS/FIGURES"""
import csv
import os
import subprocess
import sys
import tempfile
import unittest

FIGURES, DOCS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path.insert(0, FIGURES)
from same_network import Difference, same_measured, same_settings, same_simulated  # noqa: E402


class Rules(unittest.TestCase):
    def test_settings(self):
        same_settings({"a": "rate=1gbit;loss=1%", "b": "rate=1gbit;loss=1%;edn=icmp"}, compared=["edn"])
        for other in ("rate=1gbit;loss=1%;uplink=off;edn=icmp", "rate=2gbit;loss=1%", "loss=1%", "rate=1gbit;loss=1%;queue=1mb"):
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

    def test_measured(self):
        steady = [100.0, 100.5, 99.5, 100.2, 99.9, 100.1]
        self.assertIn("apart", same_measured({"a": steady, "b": [value * 1.004 for value in steady]}))
        same_measured({"a": steady, "short": [value * 0.97 for value in steady]}, {"short": 0.04})
        same_measured({"a": steady, "b": [*steady[1:], 300.0]})  # one that was disturbed
        for other in ([value * 1.02 for value in steady], [value * 0.98 for value in steady]):
            with self.assertRaises(Difference):
                same_measured({"a": steady, "b": other})
        with self.assertRaisesRegex(Difference, "known to"):
            same_measured({"a": steady, "b": [60.0, 150.0, 100.0, 70.0, 130.0]})
        with self.assertRaisesRegex(Difference, "five"):
            same_measured({"a": steady, "b": steady[:3]})


# Script, points, and what is changed in them: (column, its new value, which row).
PLANTED = {
    "recovery.py": ("recovery.tsv", [("share", lambda row: f"{float(row['share']) * 0.985:.4f}",
                                      lambda row: (row["way"], row["loss_percent"], row["reorder_depth"], row["paths"]) == ("adaptive", "0", "0", "1")),
                                     ("share", lambda row: f"{float(row['share']) * 1.02:.4f}",
                                      lambda row: (row["way"], row["loss_percent"], row["reorder_depth"], row["paths"]) == ("go-back-N", "0", "0", "1"))]),
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
