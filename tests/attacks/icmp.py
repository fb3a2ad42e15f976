"""A million forged ICMP messages (icmp_forger.cc) while ib_write_bw runs between two hosts of a lab: goodput beside
that of runs without, and the route's MTU. A round is three runs in an order that changes: with none, with as many
unsolicited echo replies, forged. The link is limited so that the machine has spare time, so that the messages' own cost
is not measured; the ratios' medians count, because machines are busy at times. Once with the brdmad that programs start
themselves, once with brdmad --system."""

import json
import os
import re
import shutil
import statistics

from parts import Lab, Programs, Skipped, expect, has_root

LINK_MBIT, SECONDS, LEAST = 1000, 6, 0.95
VICTIM, PEER = "10.77.0.1", "10.77.0.2"


def goodput(lab, forger, kind, seed):
    """Gbit/s of one run; the number of messages sent meanwhile."""
    programs = Programs()
    try:
        words = ["-F", "-D", str(SECONDS), "-s", "65536", "--report_gbits"]
        server = programs.start(lab.on("h2", "ib_write_bw", *words))
        lab.ask("h2", "sh", "-c", "for i in $(seq 400); do grep -q ' 0A ' /proc/net/tcp /proc/net/tcp6 && exit; sleep 0.02; done; exit 1")
        forging = None if kind == "none" else programs.start(lab.on("h2", forger, VICTIM, PEER, kind, str(seed)))
        client = programs.start(lab.on("h1", "ib_write_bw", *words, PEER))
        output = Programs.finish(client, f"ib_write_bw with {kind} messages")
        sent = json.loads(Programs.finish(forging, "the forger"))["sent"] if forging else 0
        Programs.finish(server, "ib_write_bw's server")
    finally:
        programs.end()
    found = re.findall(r"^\s*65536\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", output, re.MULTILINE)
    expect(found, f"no figure in {output}")
    return float(found[-1]), sent


def route(lab):
    return lab.ask("h1", "ip", "route", "get", PEER).strip()


def rounds_of(lab, options, forger):
    """Messages until there have been enough; goodput of each kind, round by round."""
    before, speeds, forged, number = route(lab), {"none": [], "harmless": [], "forged": []}, 0, 0
    while forged < options.icmp or number < 3:
        kinds = ["none", "harmless", "forged"]
        for kind in kinds[number % 3:] + kinds[: number % 3]:
            speed, sent = goodput(lab, forger, kind, options.seed + number)
            speeds[kind].append(speed)
            forged += sent if kind == "forged" else 0
            expect(route(lab) == before, f"the route was '{before}', now '{route(lab)}'")
        number += 1
    ratios = {kind: statistics.median(speeds["forged"][i] / speeds[kind][i] for i in range(number)) for kind in ("none", "harmless")}
    counted = json.loads(lab.ask("h1", lab.brdma, "-j", "statistic", "show"))
    dropped = sum(row.get("drop_bad_token", 0) for row in counted)
    return {"rounds": number, "forged": forged, "gbits": speeds, "of_none": round(ratios["none"], 3), "of_harmless": round(ratios["harmless"], 3), "route": before, "drop_bad_token": dropped}


def with_daemon(options, system):
    lab, programs = Lab(options.build, 2, "icmp"), Programs()
    try:
        for host in ("h1", "h2"):
            lab.ask(host, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{LINK_MBIT}mbit", "burst", "256kb", "limit", "4mb")
            if system:
                programs.start(lab.on(host, os.path.join(lab.bin, "brdmad"), "--system", "--foreground"), stdout=None, stderr=None)
        return rounds_of(lab, options, os.path.join(lab.bin, "attack_icmp"))
    finally:
        programs.end()
        lab.down()


def run(options):
    if shutil.which("ib_write_bw") is None or shutil.which("tc") is None:
        raise Skipped("it takes perftest and tc")
    figures = {"default": with_daemon(options, False)}
    if has_root():
        figures["system"] = with_daemon(options, True)
    for name, each in figures.items():
        expect(each["of_none"] >= LEAST, f"{name}: goodput is {each['of_none']} of that without: {each['gbits']}")
    said = "; ".join(f"{name}: {each['forged']} forged, goodput {each['of_none']} of none, {each['of_harmless']} of harmless ones" for name, each in figures.items())
    return figures, f"{said}; path MTU unchanged"
