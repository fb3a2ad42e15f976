"""Two unmodified ib_write_bw of one host of the lab, to two receivers, of which one is behind a congested link for a
while, or stands still; lines in the format of receivers_figures.   receivers_lab.py BUILD RUNS"""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import cases  # noqa: E402
from controlled import Network  # noqa: E402
from reroute_lab import RESENT  # noqa: E402

# A fifth of the simulator's rates. The sender's own link is the narrowest one while all is well, and long enough to lose nothing.
TOPOLOGY = """[network]
mtu = 4096
[[switch]]
name = "s1"
[[switch]]
name = "s2"
[[switch]]
name = "s3"
[[host]]
switch = "s2"
[[host]]
switch = "s1"
rate = "190mbit"
queue = "16mb"
[[host]]
switch = "s3"
[[link]]
between = ["s1", "s2"]
delay = "5ms"
rate = "200mbit"
queue = "256kb"
[[link]]
between = ["s2", "s3"]
delay = "100us"
rate = "200mbit"
queue = "256kb"
"""
RATE_MBPS, SLOW_MBPS = 200, 10
FIRST, SECOND = "10.77.2.1", "10.77.3.3"
WAYS = {"default": (), "no congestion control": ("BRDMA_CONGESTION=none",)}
STEP, STEPS, FROM, TO = 0.2, 40, 10, 30
SETTLED = 2.0  # before the first step
WRITE = ["ib_write_bw", "-s", "65536", "-t", "64", "-u", "19", "-D", "14"]


class Receivers(Network):
    """h2, the sender, at s1; h1, the first receiver, at s2; h3, the second one, at s3, which lies behind s2."""

    def __init__(self, user, way, managed):
        settings = [*WAYS[way], "BRDMA_WINDOW=512", f"BRDMA_RATE_MAX_MBPS={RATE_MBPS}"]
        super().__init__(user, settings=[*settings, *([] if managed else ["BRDMA_WAN_INQUIRY_TIMEOUTS=0"])])
        self.managed = managed

    def up(self):
        with open(f"{self.directory}/receivers.toml", "w") as file:
            file.write(TOPOLOGY)
        words = []
        if self.managed:
            self.make_key()
            self.start_controller()
            words = ["--controller", self.listen, "--controller-key", self.keys]
        self.lab("up", "--topology", f"{self.directory}/receivers.toml", *words)
        if self.managed:
            self.all_switches(3)
        return self

    def stream(self, host, address):
        server = self.start(host, *WRITE)
        self.wait_for("the server", lambda: self.server_listens("write", host))
        return server, self.start("h2", *WRITE, address)

    def look(self):
        """Bytes on the wire to each receiver, packets dropped before the second one, packets sent again, the managed rate."""
        show = json.loads(self.lab("show", "-j"))
        ways = {(way["from"], way["to"]): way for link in show["topology_links"] for way in link["directions"]}
        counters = self.ask_host("h2", "statistic", "show")[0]
        resent = sum(value for name, value in counters.items() if RESENT.match(name))
        rates = [row["rate_mbps"] for row in self.ask_host("h2", "managed", "show")] if self.managed else []
        assert sum(show["switch_trouble"].values()) == 0, "the switch itself lost packets: the machine is too slow, or busy"
        return ways["s2", "h1"]["bytes"], ways["s3", "h3"]["bytes"], ways["s2", "s3"]["queue_dropped"], resent, max(rates, default=0)

    def disturb(self, event, server, really):
        if event == "link":
            self.lab("link", "s2-s3", "set", "--rate", f"{SLOW_MBPS if really else RATE_MBPS}mbit")
        elif event == "host":
            self.signal(server, "ib_write_bw", signal.SIGSTOP if really else signal.SIGCONT)


def run(lab, way, event):
    streams = [lab.stream("h1", FIRST)]
    if event != "alone":
        streams.append(lab.stream("h3", SECOND))
    time.sleep(SETTLED)
    begun, before = time.monotonic(), lab.look()
    at = begun
    for step in range(STEPS):
        if step in (FROM, TO):
            lab.disturb(event, streams[-1][0], step == FROM)
        time.sleep(max(0.0, begun + STEP * (step + 1) - time.monotonic()))
        now, seen = time.monotonic(), lab.look()
        first, second = ((seen[i] - before[i]) * 8e-6 / (now - at) for i in (0, 1))
        row = ["lab", way, "on" if lab.managed else "off", event, f"{STEP * (step + 1):.1f}", int(FROM <= step < TO), f"{first:.0f}", f"{second:.0f}", seen[2] - before[2], seen[3] - before[3], f"{seen[4]:.0f}"]
        print("\t".join(map(str, row)), flush=True)
        at, before = now, seen
    for server, client in streams:
        lab.finish(server, client)


def main(build, runs, *only):
    user = cases.User(build, as_nobody=False)
    for _ in range(int(runs)):
        for way in WAYS:
            for event in ("alone", "link", "host"):
                for managed in (False, True) if event != "alone" else (False,):
                    if only and (way, event) != only:
                        continue
                    lab = Receivers(user, way, managed)
                    try:
                        run(lab.up(), way, event)
                    except subprocess.TimeoutExpired as error:
                        sys.exit(f"{way}, {event}: {error}")
                    finally:
                        lab.down()


if __name__ == "__main__":
    main(*sys.argv[1:])
