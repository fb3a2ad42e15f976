"""Pictures and a table of transfer_figures' points:   transfers.py POINTS.tsv DIRECTORY"""
import sys

from chart import Axis, figure, table
from same_network import checked, same_networks, same_simulated, shorter_by

MODES = {"plain": "go-back-N, one queue", "undivided": "bitmap, one queue", "queues": "bitmap, two queues", "segments": "bitmap, two queues, segments"}


PACKET_BYTES = 4096
NETWORK = "Simulator; link 40 Gbit/s, 5 us each way; path MTU 4096; one run a point."


def check(rows):
    """One packet over a lossless link, with nothing beside it: all modes take as long."""
    named = [{"kind": row[0], "way": row[1], "second": row[2], "bytes": row[3], "network": row[-1]} for row in rows]
    same_networks(named, ["kind", "second", "bytes"])
    times = {row[1]: row[4] for row in rows if (row[0], row[2], row[3]) == ("size", "0", str(PACKET_BYTES))}
    same_simulated(times, {"plain": shorter_by(PACKET_BYTES)})


def size(value):
    return f"{value >> 20} MB" if value >= 1 << 20 else f"{value >> 10} KB"


def short(value):
    return size(value).replace(" ", "").replace("B", "")


def draw(rows, directory):
    def curve(kind, mode, second, x, y):
        return [(float(row[x]), float(row[y])) for row in rows if row[:2] == [kind, mode] and second in (row[2], None)]

    def relative(mode, loss):
        usual = dict(curve("size", "undivided", loss, 3, 4))
        return [(short(int(x)), y / usual[x]) for x, y in curve("size", mode, loss, 3, 4)]

    sizes = Axis("size of the WRITE, bytes", [short(each) for each in sorted({int(row[3]) for row in rows if row[0] == "size"})], steps=True)
    times = Axis("latency, times that of bitmap, one queue", [0, 0.5, 1, 1.5, 2])
    figure(f"{directory}/transfer-latency.svg", "Latency of one WRITE over its size, relative to bitmap recovery with one queue",
           f"{NETWORK} Medians of the time from the post to the receiver's event.", sizes, times,
           [(f"{loss} % loss", [(name, relative(mode, loss)) for mode, name in MODES.items()]) for loss in ("0", "1")], direct=False)
    waits = Axis("post to receiver's event, us", [1, 10, 100, 1000, 10_000], log=True)
    counts = Axis("queue pairs with two WRITEs of 1 MB each", [0, 1, 2, 4, 8, 16], steps=True)
    figure(f"{directory}/small-beside-large.svg", "Latency of a WRITE of 64 bytes while large ones run on other queue pairs", NETWORK, counts, waits,
           [(name, [(MODES[mode], curve("beside", mode, None, 2, column)) for mode in MODES]) for name, column in (("median", 4), ("99th percentile", 5))], direct=False)

    find = lambda kind, mode, second, bytes_: next(row for row in rows if row[:4] == [kind, mode, second, str(bytes_)])
    with open(f"{directory}/transfer-tables.md", "w") as file:
        file.write("### One WRITE, post to the receiver's event, us: median / 99th percentile with 1 % loss\n")
        chosen = [4096, 65536, 1 << 20, 16 << 20]
        file.write(table(["", *map(size, chosen)],
                         [[name, *(" / ".join(find("size", mode, "1", each)[4:6]) for each in chosen)] for mode, name in MODES.items()]))
        file.write("\n### The same without loss, and (in brackets) to the sender's completion\n")
        file.write(table(["", *map(size, chosen)],
                         [[name, *(f"{find('size', mode, '0', each)[4]} ({find('done', mode, '0', each)[4]})" for each in chosen)]
                          for mode, name in MODES.items()]))
        file.write("\n### A WRITE of 64 bytes beside large ones, us: median / 99th percentile (Gbit/s of the large ones)\n")
        large = ["0", "1", "2", "4", "8", "16"]
        file.write(table(["queue pairs with large WRITEs", *large],
                         [[name, *(f"{row[4]} / {row[5]} ({row[6]})" for row in rows if row[:2] == ["beside", mode])]
                          for mode, name in MODES.items()]))


def main(points, directory):
    with open(points) as file:
        next(file)
        rows = [line.rstrip("\n").split("\t") for line in file]
    check(rows)
    draw(rows, directory)


if __name__ == "__main__":
    checked(main, sys.argv[1], sys.argv[2])
