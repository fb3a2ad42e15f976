"""TCP (iperf3) and unmodified ib_write_bw by turns over one long path of the lab, which loses packets of both alike.
   wan_lab.py BUILD DIRECTORY [--seconds N] [--repetitions N] [--mtu N] [--ways A,B] [--trips MS,MS] [--losses %,%]"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from chart import Axis, figure, table
from same_network import checked, same_measured, same_settings

RATE_MBPS = 200
WAYS = {"TCP CUBIC": "cubic", "TCP BBR": "bbr", "go-back-N": "gobackn", "selective": "selective", "default": "bitmap", "wan": "wan", "wan+FFM": "wan_ffm"}
# Overhead of a frame beside payload: TCP with timestamps over IPv4, a WRITE in the middle of a message in bitmap mode
# and standard.
TCP_HEADERS, BITMAP_HEADERS, STANDARD_HEADERS = 14 + 20 + 32, 98, 58
RUNS_WITHOUT_LOSS = 5  # of the shortest path: the column without faults
SERVER = "10.77.1.1"
TIMEOUT_SECONDS = 60
# Path MTU 1024 is what an interface of 1500 bytes carries, 4096 one of 9000: TCP's packets hold 1448 and 8948 bytes. Each window holds the path
# four times.
NETWORK = """[network]
mtu = {mtu}
impair = "all"
[[switch]]
name = "s1"
[[switch]]
name = "s2"
[[host]]
switch = "s1"
[[host]]
switch = "s2"
[[link]]
between = ["s1", "s2"]
rate = "{rate}mbit"
delay = "{delay_us}us"
queue = "{queue_kb}kb"
"""
SETTINGS = {"BRDMA_WINDOW": "16384", "BRDMA_STANDARD_WINDOW": "16384"}
BUFFERS = "for f in tcp_rmem tcp_wmem; do echo 4096 131072 33554432 > /proc/sys/net/ipv4/$f; done"


class Path:
    def __init__(self, build, mtu, trip_ms, directory):
        self.brdma, self.name = os.path.abspath(f"{build}/bin/brdma"), f"wanlab{os.getpid()}"
        holds = RATE_MBPS * 1000 // 8 * trip_ms
        with open(f"{directory}/path.toml", "w") as file:
            file.write(NETWORK.format(mtu=mtu, rate=RATE_MBPS, delay_us=round(trip_ms * 500), queue_kb=round(max(holds / 4, 256 * 1024) / 1024)))
        self.lab("up", "--topology", f"{directory}/path.toml")
        try:
            for host in ("h1", "h2"):
                subprocess.run(self.on(host, "sh", "-c", BUFFERS), check=True, timeout=TIMEOUT_SECONDS)
        except BaseException:
            self.down()
            raise

    def down(self):
        self.lab("down")

    def lab(self, *words):
        done = subprocess.run([self.brdma, "lab", words[0], "--name", self.name, *words[1:]], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        if done.returncode != 0:
            sys.exit(f"lab {' '.join(words)}: {done.stderr}")
        return done.stdout

    def network(self):
        """Settings of all links."""
        shown = json.loads(self.lab("show", "-j"))
        return {f"{link['link']} {name}": value for link in shown["links"] for name, value in link["options"].items()}

    def trouble(self):
        """Packets that the switch itself lost: then the machine is too slow, and the point proves little."""
        return sum(json.loads(self.lab("show", "-j"))["switch_trouble"].values())

    def on(self, host, *command):
        return [self.brdma, "lab", "exec", "--name", self.name, host, "--", *command]

    def listens(self, port):
        lines = subprocess.run(self.on("h1", "cat", "/proc/net/tcp", "/proc/net/tcp6"), capture_output=True, text=True, timeout=TIMEOUT_SECONDS).stdout
        return any(" 0A " in line and f":{port:04X} " in line for line in lines.splitlines())

    def pair(self, server_words, client_words, port, settings, seconds):
        """The client's output."""
        environment = {**os.environ, **settings}
        server = subprocess.Popen(self.on("h1", *server_words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        until = time.monotonic() + TIMEOUT_SECONDS
        while not self.listens(port):
            if time.monotonic() > until or server.poll() is not None:
                sys.exit(f"{' '.join(server_words)}: does not listen")
            time.sleep(0.05)
        try:
            done = subprocess.run(self.on("h2", *client_words), capture_output=True, text=True, timeout=seconds + TIMEOUT_SECONDS, env=environment)
            return done.stdout if done.returncode == 0 else None
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                server.wait(timeout=10)
            except subprocess.TimeoutExpired:
                server.terminate()
                server.wait()

    def tcp(self, control, seconds):
        """Mbit/s that arrived, after two seconds."""
        out = self.pair(["iperf3", "-s", "-1"], ["iperf3", "-J", "-c", SERVER, "-C", control, "-t", str(seconds), "-O", "2"], 5201, {}, seconds)
        if out is None:
            return 0.0
        end = json.loads(out)["end"]
        return end["sum_received"]["bits_per_second"] / 1e6

    def rdma(self, recovery, seconds):
        """Likewise: perftest leaves out two seconds at either end."""
        words = ["ib_write_bw", "-F", "-s", "65536", "-u", "18", "-D", str(seconds + 4), "-f", "2"]
        out = self.pair(words, [*words, SERVER], 18515, {**SETTINGS, "BRDMA_RECOVERY": recovery}, seconds)
        for line in (out or "").splitlines():
            columns = line.split()
            if columns[:1] == ["65536"]:
                return float(columns[3]) * 1.048576 * 8
        return 0.0  # it ended with an error


def on_wire(way, mbps, mtu):
    """Mbit/s with the headers of frames: a lossless link has to carry that alike for all modes."""
    if way.startswith("TCP"):
        frame = (1500 if mtu == 1024 else 9000) + 14
        return mbps * frame / (frame - TCP_HEADERS)
    return mbps * (mtu + (STANDARD_HEADERS if way == "go-back-N" else BITMAP_HEADERS)) / mtu


def check(rows, mtu):
    """Over the shortest path without loss all modes carry the same."""
    shortest = min(float(row["rtt_ms"]) for row in rows)
    clean = [row for row in rows if float(row["rtt_ms"]) == shortest and not float(row["loss_percent"])]
    print(same_measured({way: [on_wire(way, float(row["mbps"]), mtu) for row in clean if row["way"] == way] for way in dict.fromkeys(row["way"] for row in clean)}))


def measure(path, way, seconds):
    return (path.tcp if way.startswith("TCP") else path.rdma)(WAYS[way], seconds)


def available(ways):
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as file:
        kernel = file.read().split()
    missing = [way for way in ways if way.startswith("TCP") and WAYS[way] not in kernel]
    if missing:
        print(f"skipped: this kernel has no {', '.join(missing)}")
    return [way for way in ways if way not in missing]


def draw(rows, directory, name, mtu, seconds):
    ways = list(dict.fromkeys(row["way"] for row in rows))
    trips, losses = (sorted({float(row[key]) for row in rows}) for key in ("rtt_ms", "loss_percent"))

    def share(way, trip, loss):
        found = [float(row["mbps"]) / RATE_MBPS for row in rows if (row["way"], float(row["rtt_ms"]), float(row["loss_percent"])) == (way, trip, loss)]
        return statistics.median(found) if found else None

    if len(trips) > 1:
        figure(f"{directory}/{name}-share.svg", f"Share of a long path's bandwidth over real sockets, path MTU {mtu}",
               f"Lab on one machine of two processors; link {RATE_MBPS} Mbit/s; path MTU {mtu}; median of one run or more of {seconds} s a point.",
               Axis("round trip, ms", trips, log=True), Axis("share of the path's bandwidth", [0, 0.25, 0.5, 0.75, 1], high=1.1),
               [(f"{loss:g} % loss", [(way, [(trip, share(way, trip, loss)) for trip in trips if share(way, trip, loss) is not None]) for way in ways]) for loss in losses])
    with open(f"{directory}/{name}-tables.md", "w") as file:
        file.write(f"### Share of {RATE_MBPS} Mbit/s at path MTU {mtu}, payload, over {seconds} s of each run; medians\n")
        file.write(table(["", *ways], [[f"{trip:g} ms, {loss:g} %", *(f"{share(way, trip, loss):.3f}" if share(way, trip, loss) is not None else "" for way in ways)]
                                       for trip in trips for loss in losses]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("directory")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--mtu", type=int, default=1024)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--trips", default="1,10,50,100", help="round trips, ms")
    parser.add_argument("--losses", default="0,0.01,0.1,1", help="per cent, of each way")
    parser.add_argument("--redraw", action="store_true", help="measure nothing: tables and picture of the points in DIRECTORY")
    options = parser.parse_args()
    name = "wan-lab" if options.mtu == 1024 else f"wan-lab-{options.mtu}"
    if options.redraw:
        with open(f"{options.directory}/{name}.tsv") as file:
            return draw(list(csv.DictReader(file, delimiter="\t")), options.directory, name, options.mtu, options.seconds)
    rows, ways = [], available(options.ways.split(","))
    with tempfile.TemporaryDirectory(prefix="brdma-wan-lab-") as directory:
        trips = [int(trip) for trip in options.trips.split(",")]
        for trip in trips:
            path = Path(options.build, options.mtu, trip, directory)
            try:
                for loss in options.losses.split(","):
                    path.lab("link", "s1-s2", "set", "--loss", f"{loss}%" if float(loss) else "0")
                    least = RUNS_WITHOUT_LOSS if trip == min(trips) and not float(loss) else 1
                    for turn in range(1, max(options.repetitions, least) + 1):
                        networks = {}
                        for way in ways:
                            networks[way] = path.network()
                            same_settings(networks)
                            before = path.trouble()
                            mbps = measure(path, way, options.seconds)
                            rows.append({"way": way, "rtt_ms": trip, "loss_percent": loss, "run": turn, "mbps": f"{mbps:.1f}", "lost_by_machine": path.trouble() - before})
                            print("\t".join(map(str, rows[-1].values())), flush=True)
            finally:
                path.down()
    check(rows, options.mtu)
    with open(f"{options.directory}/{name}.tsv", "w") as file:
        writer = csv.DictWriter(file, rows[0], delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, options.directory, name, options.mtu, options.seconds)


if __name__ == "__main__":
    checked(main)
