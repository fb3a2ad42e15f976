"""An unmodified ib_write_bw across two sites of the lab whose link is cut or slow, with brdma-controller; lines in the
format of reroute_figures.   reroute_lab.py BUILD RUNS"""
import json
import os
import re
import subprocess
import sys
import time
from datetime import datetime

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import cases  # noqa: E402
from controlled import WRITE, SERVER, Network  # noqa: E402

# A fifth of the simulator's rate: two cores carry that beside the switch, two programs and their observer. Slow is a
# twentieth.
RATE_MBPS, SLOW_MBPS = 200, 10
SECONDS, SETTLED, AFTER = 10, 3.0, 4.0
COUNTED = 3.0  # of these, for the rate after the event
RESENT = re.compile("^retransmitted_(by_|expected)")
TOPOLOGY = """[[switch]]
name = "s1"
[[switch]]
name = "s2"
[[host]]
switch = "s1"
[[host]]
switch = "s2"
[[link]]
between = ["s1", "s2"]
delay = "{short}us"
rate = "{rate}mbit"
queue = "{queue}kb"
[[link]]
between = ["s1", "s2"]
delay = "{long}us"
rate = "{rate}mbit"
queue = "{queue}kb"
cost = 10
"""


class Sites(Network):
    def __init__(self, user, delay_ms):
        super().__init__(user, settings=("BRDMA_WINDOW=16384",))
        self.delay_ms = delay_ms
        self.log = open(f"{self.directory}/log", "w+")

    def up(self):
        self.make_key()
        command = [f"{self.build}/bin/brdma-controller", "--listen", self.listen, "--key", self.keys, "--control", self.control, "--verbose"]
        self.controller = subprocess.Popen(command, stderr=self.log, env={**os.environ, "TZ": "UTC"})
        self.running.append(self.controller)
        self.wait_for("the controller", self.controller_answers)
        with open(f"{self.directory}/sites.toml", "w") as file:
            file.write(TOPOLOGY.format(rate=RATE_MBPS, short=self.delay_ms * 1000, long=self.delay_ms * 1500, queue=max(256, self.delay_ms * RATE_MBPS // 16)))
        self.lab("up", "--topology", f"{self.directory}/sites.toml", "--controller", self.listen, "--controller-key", self.keys)
        self.both_switches()
        return self

    def network(self):
        return json.loads(self.lab("show", "-j"))

    def resent(self):
        row = self.ask_host("h2", "statistic", "show")[0]
        return sum(value for name, value in row.items() if RESENT.match(name))

    def orders(self, since):
        """When routes were ordered, in seconds after `since` (as time.time())."""
        self.log.seek(0)
        times = [datetime.fromisoformat(line.split()[0] + "+00:00").timestamp() - since for line in self.log if " gets " in line]
        return [at for at in times if at >= 0]


def carried(links):
    """Towards h1, by all links."""
    return sum(way["bytes"] for link in links for way in link["directions"] if link["link"].startswith("s1-s2"))


def lost(links):
    return sum(way["refused_down"] + way["lost_in_flight"] + way["queue_dropped"] for link in links if link["link"].startswith("s1-s2") for way in link["directions"])


def run(sites, event):
    server = sites.start("h1", *WRITE, "-D", str(SECONDS))
    sites.wait_for("the server", lambda: sites.server_listens("write"))
    client = sites.start("h2", *WRITE, "-D", str(SECONDS), SERVER)
    sites.carries("s1-s2")
    time.sleep(SETTLED)
    samples = []  # seconds since the event, bytes

    def look(since):
        links = sites.network()["topology_links"]
        samples.append((time.time() - since, carried(links)))
        return links

    first = time.time()
    look(first)
    time.sleep(0.5)
    look(first)
    before = (samples[1][1] - samples[0][1]) / (samples[1][0] - samples[0][0])  # bytes a second
    samples.clear()
    resent, lost_before, event_at = sites.resent(), lost(sites.network()["topology_links"]), time.time()
    if event == "cut":
        sites.lab("link", "s1-s2", "down")
    else:
        sites.lab("link", "s1-s2", "set", "--rate", f"{SLOW_MBPS}mbit")
    while time.time() < event_at + AFTER:
        links = look(event_at)
    orders = sites.orders(event_at)
    span = max(0.02, sites.delay_ms * 6 / 1000)
    back = -1.0
    for place, (at, there) in enumerate(samples):
        later = next(((then, bytes_) for then, bytes_ in samples[place:] if then >= at + span), None)
        if later and later[1] - there >= before * (later[0] - at) * 0.8:
            back, got = at, there - samples[0][1]
            break
    missed = (back - got / before) * 1000 if back >= 0 else -1
    last = next(sample for sample in samples if sample[0] >= COUNTED)
    after = (last[1] - samples[0][1]) / (last[0] - samples[0][0])
    result = [1000 * orders[0] if orders else -1, 1000 * orders[-1] if orders else -1, 1000 * back, max(0.0, missed)]
    row = ["lab", "default", event, sites.delay_ms, round(before * 8 / 1e6), *(f"{value:.1f}" for value in result), lost(links) - lost_before, sites.resent() - resent, round(after * 8 / 1e6)]
    print("\t".join(map(str, row)), flush=True)
    sites.finish(server, client)


def main(build, runs):
    user = cases.User(build, as_nobody=False)
    for _ in range(int(runs)):
        for delay_ms in (1, 10, 50):
            for event in ("cut", "slow"):
                sites = Sites(user, delay_ms)
                try:
                    run(sites.up(), event)
                finally:
                    sites.down()


if __name__ == "__main__":
    main(*sys.argv[1:])
