#!/usr/bin/env python3
"""Attacks on real programs, each with a figure; `bash tests/run attacks` runs all. A part that this user or machine
cannot run is skipped, with the reason. Last lines: a line for each part, then all figures as JSON (`--json FILE` as
well).

  attacks.py --build BUILD [--victims BUILD-ASAN] [--only PART] [--seed N] [--seconds S] [--runs N] [--icmp N] [--forgeries N]
"""

import argparse
import importlib
import json
import sys
import time
import traceback

from parts import Failure, Skipped

PARTS = ("forgeries", "floods", "users", "icmp", "hostile")


def run_part(name, options):
    began = time.monotonic()
    try:
        figures, line = importlib.import_module(name).run(options)
        outcome = {"outcome": "ok", "line": line, "figures": figures}
    except Skipped as skipped:
        outcome = {"outcome": "skipped", "line": str(skipped)}
    except Failure as failure:
        outcome = {"outcome": "FAIL", "line": str(failure)}
    except Exception:  # any: the other parts still run
        outcome = {"outcome": "FAIL", "line": traceback.format_exc()}
    outcome["seconds"] = round(time.monotonic() - began, 1)
    print(f"{outcome['outcome']:7} {outcome['seconds']:7.1f}s  {name}: {outcome['line']}", flush=True)
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--victims", help="a build with sanitizers, for the programs that the hostile peer meets; else BUILD")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000_000)
    parser.add_argument("--seconds", type=float, default=60, help="of the hostile peer")
    parser.add_argument("--runs", type=int, default=1000, help="of each user")
    parser.add_argument("--icmp", type=int, default=1_000_000, help="forged messages of each case")
    parser.add_argument("--forgeries", type=int, default=1_000_000, help="of each kind")
    parser.add_argument("--json", help="where the figures go as well")
    options = parser.parse_args()
    options.victims = options.victims or options.build
    print(f"seed {options.seed}", flush=True)
    outcomes = {name: run_part(name, options) for name in options.only or PARTS}
    summary = json.dumps({"seed": options.seed, "parts": outcomes})
    print(summary)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(summary + "\n")
    failed = [name for name, outcome in outcomes.items() if outcome["outcome"] == "FAIL"]
    if failed:
        print(f"again with: attacks.py --build {options.build} --victims {options.victims} --seed {options.seed} --seconds {options.seconds:.0f} " + " ".join(f"--only {name}" for name in failed))
    return 1 if failed else 0 if any(outcome["outcome"] == "ok" for outcome in outcomes.values()) else 77


if __name__ == "__main__":
    sys.exit(main())
