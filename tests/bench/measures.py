"""The measures: each is a list of steps; a round runs every one once, so that other load of the machine affects all of
them alike."""
import os
from dataclasses import dataclass
from typing import Callable

from hosts import Lab
from systems import LATENCY_SIZES, SIZES, Iperf, Ours, RawSameWork, RawUdp

QUICK_SIZES = [64, 4 << 10, 64 << 10, 1 << 20]
QUICK_LATENCIES = [8, 4 << 10, 64 << 10]
# Points that goals compare are run repeatedly in a round, in turn: the machine's moments of half speed affect one run
# in some, and a median of three may be one of them.
GOAL_SIZES = {"bandwidth": 64 << 10, "latency": 8}
GOAL_TURNS = 3


@dataclass(frozen=True)
class Reading:
    measure: str
    system: str
    mtu: int
    x: str  # a size, a number of queue pairs, or another parameter of the measure
    unit: str
    value: float
    near: bool = True  # the processors were, before and after (cores.py)


@dataclass(frozen=True)
class Step:
    shown: str
    run: Callable  # of a lab: a list of readings
    once: bool = False  # the same result each time: only in the first round
    patient: bool = False  # compared by a goal of its own: waits a while for near processors


def size_name(size):
    return f"{size >> 20}M" if size >= 1 << 20 else f"{size >> 10}K" if size >= 1 << 10 else str(size)


def curves(systems, mtu, quick):
    """Bandwidth with CPU time, and latency, over size."""
    steps = []

    def bandwidth(system, size):
        def run(lab):
            found = system.bandwidth(lab, size)
            system.learn("bandwidth", size, found.gbit * 1e9 / 8 / size)
            readings = [Reading("bandwidth", system.name, mtu, size_name(size), "Gbit/s", found.gbit)]
            if size >= 4 << 10:  # below, start and connection would be most of it
                readings.append(Reading("CPU", system.name, mtu, size_name(size), "s/GB", found.cpu_seconds_per_gb))
            return readings
        return Step(f"bandwidth {size_name(size)} {system.name}", run, patient=size == GOAL_SIZES["bandwidth"])

    def latency(system, size):
        def run(lab):
            found = system.latency(lab, size)
            system.learn("latency", size, 1e6 / 2 / found)
            return [Reading("latency", system.name, mtu, size_name(size), "us", found)]
        return Step(f"latency {size_name(size)} {system.name}", run, patient=size == GOAL_SIZES["latency"])

    def add(measure, step, size, measured):
        nonlocal steps
        steps += [step(system, size) for system in measured]
        if size == GOAL_SIZES[measure] and not quick:
            steps += [step(system, size) for system in measured if isinstance(system, (Ours, Iperf, RawUdp))] * (GOAL_TURNS - 1)

    for size in QUICK_SIZES if quick else SIZES:
        add("bandwidth", bandwidth, size, [system for system in systems if size in system.bandwidth_sizes])
    for size in QUICK_LATENCIES if quick else LATENCY_SIZES:
        add("latency", latency, size, [system for system in systems if system.fits(size, mtu)])
    return steps


def message_rates(systems, build, mtu, quick):
    """64-byte WRITEs over one and more queue pairs, posted singly and in lists."""
    steps = []
    for system in [each for each in systems if hasattr(each, "message_rate") and not isinstance(each, RawUdp) and each.verb == "write"]:
        for posting_list, name in ((1, "single posts"), (64, "lists of 64")):
            for count in (1, 64) if quick else (1, 4, 16, 64):
                def run(lab, system=system, posting_list=posting_list, count=count, name=name):
                    rate = system.message_rate(lab, queue_pairs=count, posting_list=posting_list)
                    return [Reading("messages", f"{system.name}, {name}", mtu, str(count), "M/s", rate)]
                steps += [Step(f"messages {name}, {count} QPs, {system.name}", run, patient=count == 1)] * (GOAL_TURNS if count == 1 and not quick else 1)
    raw, same_work = RawUdp(build), RawSameWork(build)
    for way in ("gso", "mmsg"):
        name = {"gso": "raw UDP, segmentation offload", "mmsg": "raw UDP, sendmmsg"}[way]
        steps.append(Step(f"messages {name}", lambda lab, way=way, name=name: [Reading("messages", name, mtu, "1", "M/s", raw.message_rate(lab, way))]))

    def least(lab):
        return [Reading("messages", same_work.name, mtu, "1", "M/s", same_work.messages_in_turn(lab, 1, 128, 1_500_000)["messages_per_s"] / 1e6)]
    return steps + [Step(f"messages {same_work.name}", least, patient=True)] * (1 if quick else GOAL_TURNS)


def goodput(systems, build, rate):
    """Over the lab's switch, which loses packets: a lab of its own for each."""
    steps = []
    for mode in ("bitmap", "gobackn"):
        for loss in (0, 1, 5):
            def run(_, mode=mode, loss=loss):
                network = ["--delay", "50us", "--rate", rate, "--mtu", "4096", "--queue", "4mb", "--seed", "3", *(["--loss", f"{loss}%"] if loss else [])]
                count = 3000 if mode == "bitmap" or loss == 0 else 400
                system = type(systems[0])(mode, environment={"BRDMA_RECOVERY": mode})
                with Lab(build, network=network) as lab:
                    row, _ = system.row(lab, ["ib_write_bw"], ["-s", "65536", "-n", str(count), "--report_gbits"])
                return [Reading("goodput", mode, 9000, f"{loss} %", "Gbit/s", float(row[3]))]
            steps.append(Step(f"goodput {mode}, {loss} % loss", run))
    return steps
