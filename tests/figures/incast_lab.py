"""Six senders, one receiver over real sockets: unmodified ib_send_lat from six hosts of the lab to one, at the same time.
   incast_lab.py BUILD DIRECTORY [REPETITIONS]

Each exchange is a message there and one back; the messages there share the port of h1. The programs sleep between events (-e), and the
rate is low enough for two cores, so what is waited for is the network."""
import json
import os
import statistics
import subprocess
import sys
import time

from chart import Axis, figure, table
from lab_pair import RESENT, turn_by_turn
from same_network import Difference, checked, same_measured, same_settings, shorter_by

SENDERS, BYTES, ITERATIONS = 6, 65536, 40
# Without a rate before the switch all queues are the switch's, which reports and marks.
# So only the queue before the receiver matters. If it has room for all six messages nothing is dropped: the column
# without faults.
NETWORK = ["--rate", "200mbit", "--uplink", "off", "--delay", "50us", "--mtu", "1024"]
QUEUE, ROOMY = "64kb", "4mb"
PACKET_BYTES = 1024
WAYS = {"go-back-N": ("gobackn", "off"), "selective": ("selective", "off"), "FFM": ("bitmap", "off"), "FFM + EDN": ("bitmap", "roce")}
SERVER = "10.77.0.1"
TIMEOUT_SECONDS = 120


class Incast:
    def __init__(self, build, queue, edn, seed):
        self.brdma, self.name = os.path.abspath(f"{build}/bin/brdma"), f"incast{os.getpid()}"
        self.lab("up", "--hosts", str(SENDERS + 1), *NETWORK, "--queue", queue, "--edn", edn, "--seed", str(seed))

    def lab(self, *words):
        done = subprocess.run([self.brdma, "lab", words[0], "--name", self.name, *words[1:]], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        if done.returncode != 0:
            sys.exit(f"lab {' '.join(words)}: {done.stderr}")
        return done.stdout

    def on(self, host, *command):
        return [self.brdma, "lab", "exec", "--name", self.name, host, "--", *command]

    def listening(self):
        lines = subprocess.run(self.on("h1", "cat", "/proc/net/tcp", "/proc/net/tcp6"), capture_output=True, text=True, timeout=TIMEOUT_SECONDS).stdout
        return sum(" 0A " in line and any(f":{18600 + i:04X} " in line for i in range(SENDERS)) for line in lines.splitlines())

    def run(self, mode):
        """Times of all exchanges of all senders, half of each, us; and counters of all hosts."""
        environment = {**os.environ, "BRDMA_RECOVERY": mode}
        words = lambda i: ["ib_send_lat", "-F", "-e", "-U", "-s", str(BYTES), "-n", str(ITERATIONS), "-p", str(18600 + i)]
        servers = [subprocess.Popen(self.on("h1", *words(i)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) for i in range(SENDERS)]
        clients = []
        try:
            until = time.monotonic() + TIMEOUT_SECONDS
            while self.listening() < SENDERS:
                if time.monotonic() > until:
                    sys.exit("ib_send_lat: its servers do not listen")
                time.sleep(0.05)
            clients = [subprocess.Popen(self.on(f"h{i + 2}", *words(i), SERVER), stdout=subprocess.PIPE, text=True, env=environment) for i in range(SENDERS)]
            times = [each for client in clients for each in self.times(client.communicate(timeout=TIMEOUT_SECONDS)[0])]
        finally:
            for program in [*clients, *servers]:
                if program.poll() is None:
                    program.terminate()
                program.wait()
        return times, json.loads(self.lab("show", "-j"))

    @staticmethod
    def times(output):
        """Lines `number, microseconds` of -U."""
        pairs = [line.split(",") for line in output.splitlines() if line[:1].isdigit() and "," in line]
        return [float(time) for _, time in pairs]


def measure(build, queue, way, seed):
    """Times; and counts of the packets' faults, and the network's settings."""
    mode, edn = WAYS[way]
    lab = Incast(build, queue, edn, seed)
    try:
        times, shown = lab.run(mode)
    finally:
        lab.lab("down")
    if len(times) != SENDERS * (ITERATIONS - 1):  # it prints the time from each to the next
        sys.exit(f"{way}: {len(times)} times of {SENDERS * ITERATIONS} exchanges")
    counters = [host["counters"] for host in shown["hosts"]]
    return times, {"timeouts": sum(each["local_ack_timeout_err"] for each in counters), "by_edn": sum(each["retransmitted_by_edn"] for each in counters),
                   "dropped": sum(host["to_host"]["queue_dropped"] + host["from_host"]["queue_dropped"] for host in shown["links"]),
                   "resent": sum(each.get(name, 0) for each in counters for name in RESENT)}, shown["network"]


def share(times, part):
    return sorted(times)[min(int(len(times) * part), len(times) - 1)]


def all_runs(build, queue, repetitions):
    def measured(way, seed):
        times, counts, network = measure(build, queue, way, seed)
        print(f"{queue}\t{way}\t{seed}\t{statistics.mean(times):.0f} us\t{counts}", flush=True)
        return times, counts, network
    runs = turn_by_turn(WAYS, repetitions, measured)
    for turn in zip(*runs.values()):
        same_settings({way: network for way, (_, _, network) in zip(WAYS, turn)}, compared=["edn"])
    return {way: [run[:2] for run in each] for way, each in runs.items()}


def main(build, directory, repetitions):
    roomy = all_runs(build, ROOMY, repetitions)
    dropping = [way for way in WAYS for _, counts in roomy[way] if counts["dropped"]]
    if dropping:
        raise Difference(f"'{dropping[0]}' lost packets in a queue of {ROOMY}")
    agreement = same_measured({way: [statistics.mean(times) for times, _ in roomy[way]] for way in WAYS}, {"go-back-N": shorter_by(PACKET_BYTES)})
    runs = all_runs(build, QUEUE, repetitions)
    all_of = {way: sorted(each for times, _ in runs[way] for each in times) for way in WAYS}
    with open(f"{directory}/incast-lab.tsv", "w") as file:
        file.write("queue\tway\tseed\tmean_us\tp50_us\tp99_us\tmax_us\ttimeouts\tby_edn\tdropped\tresent\n")
        for queue, measured in ((ROOMY, roomy), (QUEUE, runs)):
            for way in WAYS:
                for seed, (times, counts) in enumerate(measured[way], 1):
                    file.write(f"{queue}\t{way}\t{seed}\t{statistics.mean(times):.1f}\t{share(times, 0.5):.1f}\t{share(times, 0.99):.1f}\t{max(times):.1f}\t" +
                               "\t".join(str(counts[key]) for key in ("timeouts", "by_edn", "dropped", "resent")) + "\n")
    cell = lambda way: [f"{statistics.mean(all_of[way]) / 1000:.2f}", f"{share(all_of[way], 0.5) / 1000:.2f}", f"{share(all_of[way], 0.99) / 1000:.2f}",
                        f"{all_of[way][-1] / 1000:.2f}", *(str(sum(counts[key] for _, counts in runs[way])) for key in ("dropped", "resent", "timeouts", "by_edn"))]
    with open(f"{directory}/incast-lab-tables.md", "w") as file:
        file.write(f"### {SENDERS} ib_send_lat to one host: {BYTES} bytes each way, {' '.join(NETWORK)} --queue {QUEUE}; half an exchange, ms, of {SENDERS * ITERATIONS} exchanges in each of {repetitions} runs\n")
        file.write(table(["", "mean", "median", "99th percentile", "longest", "dropped", "sent again", "timeouts", "sent again by notification"], [[way, *cell(way)] for way in WAYS]))
        file.write(f"\nTurn by turn, counts of all runs. With a queue of {ROOMY}, where nothing is dropped: {agreement}.\n")
    shares = [0.001, 0.01, 0.1, 1]
    longer = lambda times: [(times[min(int(len(times) * (1 - part)), len(times) - 1)] / 1000, part) for part in (1, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)]
    longest = max(times[-1] for times in all_of.values()) / 1000
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if tick < 2 * longest]
    figure(f"{directory}/incast-lab.svg", "Six senders to one receiver, real sockets: exchanges that take longer",
           f"Lab on one machine; {' '.join(NETWORK)} --queue {QUEUE}; {repetitions} runs of {SENDERS * ITERATIONS} exchanges of {BYTES} bytes.",
           Axis("half an exchange, ms", ticks, log=True), Axis("share of the exchanges that take longer", shares, log=True),
           [("ib_send_lat, 64 KiB", [(way, longer(all_of[way])) for way in WAYS])])


if __name__ == "__main__":
    checked(main, sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 5)
