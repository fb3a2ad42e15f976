#!/usr/bin/env python3
"""Speed of this library beside its alternatives, all in one run, turn by turn (README.md here)."""
import argparse
import os
import platform
import re
import signal
import sys
import time
from dataclasses import replace

import bounds
import loads
import measures
import report
from cores import Cores
from hosts import Lab
from systems import systems

NEAR_WAIT_SECONDS = 2.0  # seconds that a step with a goal of its own waits for near processors
MEASURES = ("curves", "messages", "queue_pairs", "threads", "seldom", "sleepers", "connecting", "memory", "goodput")


class Progress:
    """One line for each step: progress, remaining time, result."""

    def __init__(self, steps):
        self.steps, self.done, self.started = steps, 0, time.monotonic()

    def step(self, shown, outcome):
        self.done += 1
        passed = time.monotonic() - self.started
        left = passed / self.done * (self.steps - self.done)
        print(f"[{100 * self.done // self.steps:3d} %, {left / 60:4.1f} min left] {shown:<60} {outcome}", flush=True)


class Bench:
    def __init__(self, options):
        self.options, self.build = options, os.path.abspath(options.build)
        self.systems = [each for each in systems(self.build) if not options.systems or any(word in each.name for word in options.systems.split(","))]
        self.readings, self.failed = [], []
        self.cores = Cores(self.build)

    def wanted(self, name):
        return not self.options.only or name in self.options.only

    def steps(self, mtu):
        """Steps of one interface MTU; those that do not depend on it run only once."""
        quick, build = self.options.quick, self.build
        made = {"curves": lambda: measures.curves(self.systems, mtu, quick)}
        if mtu == 9000:
            made |= {"messages": lambda: measures.message_rates(self.systems, build, mtu, quick), "queue_pairs": lambda: loads.many_queue_pairs(build, mtu, quick) + loads.instructions(build, mtu, quick),
                     "threads": lambda: loads.threads(build, mtu, quick), "seldom": lambda: loads.seldom_polling(build, mtu), "sleepers": lambda: loads.sleepers(build, mtu), "connecting": lambda: loads.connecting(mtu),
                     "memory": lambda: loads.memory(build, mtu)}
        steps = [step for name, make in made.items() if self.wanted(name) for step in make()]
        return steps

    def run(self):
        mtus = [9000] if self.options.quick else [9000, 1500]
        plan = {mtu: self.steps(mtu) for mtu in mtus}
        lossy = measures.goodput(systems(self.build), self.build, self.options.rate) if self.wanted("goodput") and not self.options.quick else []
        every = [step for steps in (*plan.values(), lossy) for step in steps]
        progress = Progress(sum(1 if step.once else self.options.rounds for step in every))
        for mtu, steps in plan.items():
            with Lab(self.build, mtu) as lab:
                for turn in range(self.options.rounds):
                    self.round([step for step in steps if turn == 0 or not step.once], lab, progress, f"MTU {mtu}: ")
        for _ in range(self.options.rounds):
            self.round(lossy, None, progress, "")

    def round(self, steps, lab, progress, where):
        for step in steps:
            try:
                near = self.cores.wait(NEAR_WAIT_SECONDS if step.patient else 0)
                found = step.run(lab)
                near = self.cores.near() and near or step.once  # results that are the same each time do not depend on it
                self.readings += [replace(each, near=near) for each in found]
                outcome = ("" if near else "far: ") + ", ".join(f"{report.rounded(each.value)} {each.unit}" for each in found)
            except (RuntimeError, OSError, IndexError, ValueError, KeyError) as error:
                self.failed.append(f"{where}{step.shown}: {error}")
                outcome = "FAILED"
            progress.step(where + step.shown, outcome)

    def machine(self):
        return f"{os.cpu_count()} cores, Linux {platform.release()}, load {os.getloadavg()[0]:.1f} at the end; {self.options.rounds} rounds on {time.strftime('%Y-%m-%d')}. {self.cores.shown()}\n"

    def write(self, folder, document=None):
        """Numbers and pictures into `folder`, tables into the document. Measures without new readings stay."""
        os.makedirs(folder, exist_ok=True)
        results = report.Results()
        path = os.path.join(folder, "performance.tsv")
        results.read(path)
        results.forget({(each.measure, each.system) for each in self.readings})
        results.add(self.readings)
        goals = report.Goals(results)
        bounds.Bounds(results, goals).into(results)
        results.write(path)
        report.pictures(results, folder)
        parts = {**report.parts(path), "machine": self.machine()}
        if document:
            report.fill(document, parts)
        return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=0, help="default 3, with --quick 1")
    parser.add_argument("--rate", default="500mbit", help="link rate of the goodput table, below what the machine can do")
    parser.add_argument("--only", help=f"some of: {' '.join(MEASURES)}")
    parser.add_argument("--systems", help="parts of names, by commas: only these")
    parser.add_argument("--quick", action="store_true", help="few sizes, one MTU, one round")
    parser.add_argument("--write", action="store_true", help="into docs/explanation/performance.md and docs/figures too")
    options = parser.parse_args()
    options.only = re.findall(r"\w+", options.only or "")
    if set(options.only) - set(MEASURES):
        parser.error(f"--only: choose from {' '.join(MEASURES)}")
    options.rounds = options.rounds or (1 if options.quick else 3)
    bench = Bench(options)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        bench.run()
    except KeyboardInterrupt:  # the labs are down; the results so far are kept, but not written into docs
        options.write = False
        bench.failed.append("interrupted")
    parts = bench.write(os.path.join(bench.build, "bench"))
    if options.write:
        here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")
        bench.write(os.path.join(here, "figures"), os.path.join(here, "explanation", "performance.md"))
    print("\n" + "\n".join(parts.values()))
    for line in bench.failed:
        print("failed: " + line, file=sys.stderr)
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
