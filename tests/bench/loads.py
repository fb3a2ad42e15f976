"""Steps that perftest does not measure: many queue pairs, threads, programs that seldom poll, connecting, memory."""
import json
import os
import re
from importlib.machinery import SourceFileLoader

from hosts import ADDRESS
from measures import GOAL_TURNS, Reading, Step, size_name
from systems import RawSameWork


def program(build, name):
    return os.path.join(build, "bin", name)


def words(output):
    """Of "name value name value"."""
    parts = output.split()
    return dict(zip(parts[::2], map(float, parts[1::2])))


MESSAGES = 1_000_000
QUEUE_PAIRS, QUEUE_PAIRS_QUICK = (1, 100, 1000, 20_000), (1, 1000)


def many_queue_pairs(build, mtu, quick):
    """The library, and as many connections of the minimal transport over UDP sockets."""
    rows = (("message_ns", "ns a message"), ("message_cpu_ns", "CPU ns a message, client"), ("bytes", "resident bytes a queue pair, used"),
            ("create_us", "us to create one"), ("connect_us", "us to connect one, numbers exchanged by TCP"))

    def packets(lab):
        """Of messages and of their acknowledgements, by the client's host up to now."""
        said = lab.run("h2", [lab.brdma, "-j", "statistic", "show"]).output  # and a remark, if there was no program yet
        counters, _ = json.JSONDecoder().raw_decode(said, said.index("["))
        return sum(each.get(name, 0) for each in counters for name in ("sent_data_pkts", "acks_received"))

    def ours(count):
        def run(lab):
            before = packets(lab)
            found = words(lab.pair([program(build, "many_qps"), count, MESSAGES], 18600, seconds=120)[0].output)
            a_message = (packets(lab) - before) / found["all_messages"]
            return [Reading("queue pairs", name, mtu, str(count), "", found[key]) for key, name in rows] + \
                   [Reading("queue pairs", "packets a message, client, acknowledgements included", mtu, str(count), "", a_message),
                    Reading("queue pairs", "CPU ns a packet, client", mtu, str(count), "", found["message_cpu_ns"] / a_message)]
        return Step(f"{count} queue pairs in turn", run, patient=True)

    def least(count):
        def run(lab):
            found = RawSameWork(build).messages_in_turn(lab, count, 64, MESSAGES)
            return [Reading("queue pairs", f"{RawSameWork.name}: {name}", mtu, str(count), "", found[key]) for key, name in rows[:2]]
        return Step(f"{count} connections in turn, {RawSameWork.name}", run, patient=True)
    return [step(count) for count in (QUEUE_PAIRS_QUICK if quick else QUEUE_PAIRS) for step in (ours, least)]


def instructions(build, mtu, quick):
    """Instructions of a message in the client's engine, by callgrind, so other work on the machine does not change
    them. Without sockets: with them a program under callgrind is so slow that its posts do not wait for each other, as
    they do in reality. The minimal transport, likewise."""
    budget = SourceFileLoader("budget", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench_micro", "budget")).load_module()
    name = "instructions a message, client"

    def step(count, shown, *measured):
        def run(lab):
            found, acknowledgements = budget.measure(build, *measured)
            readings = [Reading("queue pairs", shown, mtu, str(count), "", found["requester"])]
            if acknowledgements is not None:
                readings.append(Reading("queue pairs", "instructions a packet, client", mtu, str(count), "", found["requester"] / (1 + acknowledgements)))
            return readings
        return Step(f"{shown}, {count} queue pairs", run, once=True)
    counts = QUEUE_PAIRS_QUICK if quick else QUEUE_PAIRS
    return [step(count, name, f"write 64 bitmap 64 {count}") for count in counts] + \
           [step(count, f"{RawSameWork.name}: {name}", f"count {count} 40000", "raw_messages") for count in counts]


def threads(build, mtu, quick):
    """N threads of one program, in one shard and in one each, and N programs of one thread, at the same time."""
    seconds, first_port = "1", 18601

    def rate(ended):
        return words(ended.output)["messages_per_s"]

    def as_threads(lab, count, size):
        return rate(lab.pair([program(build, "threads"), first_port, count, size, seconds], first_port)[0])

    def as_shards(lab, count, size):
        return rate(lab.pair([program(build, "threads"), first_port, count, size, seconds], first_port, environment={"BRDMA_SHARDS": count})[0])

    def as_programs(lab, count, size):
        ports = range(first_port, first_port + count)
        servers = [lab.start("h1", [program(build, "threads"), port, 1, size, seconds]) for port in ports]
        clients = []
        try:
            for port in ports:
                lab.wait_bound(port)
            clients = [lab.start("h2", [program(build, "threads"), port, 1, size, seconds, ADDRESS]) for port in ports]
            return sum(rate(client.wait(60)) for client in clients)
        finally:
            for each in (*clients, *servers):
                each.end()

    steps = []
    for size in (64, 64 << 10):
        for count in (1, 2) if quick else (1, 2, 4):
            ways = {"threads": as_threads, "threads, a shard each": as_shards, "programs": as_programs}
            if count == 1:
                del ways["threads, a shard each"]  # the same
            found = []
            for name, way in ways.items():
                def run(lab, size=size, count=count, name=name, way=way):
                    return [Reading("threads", f"{name}, {size_name(size)}", mtu, str(count), "k/s", way(lab, count, size) / 1e3)]
                found.append(Step(f"{count} {name}, {size_name(size)}", run, patient=True))
            steps += found * (GOAL_TURNS if count == 2 and not quick else 1)  # compared by a goal
    return steps


def seldom_polling(build, mtu):
    def step(mode, name):
        def run(lab):
            client, server = lab.pair([program(build, "seldom_poll"), mode, "1"], 18600)
            found = words(server.output)
            return [Reading("seldom polling", "client's bandwidth, Gbit/s", mtu, name, "Gbit/s", words(client.output)["gbit_per_s"]),
                    Reading("seldom polling", "server computed, million operations a second", mtu, name, "", found["thousands_computed_per_s"] / 1e3),
                    Reading("seldom polling", "server's CPU time over time", mtu, name, "", found["cpu_share"])]
        return Step(f"READ 1M of a server that does {name}", run, patient=True)

    same_work = RawSameWork(build)

    def least(name, *more):
        def run(lab):
            return [Reading("seldom polling", f"{same_work.name}, Gbit/s", mtu, name, "Gbit/s", same_work.bandwidth(lab, 1 << 20, *more).gbit)]
        return Step(f"1M of a sender that does {name}, {same_work.name}", run, patient=True)
    poll, compute = "poll", "compute, polling every 100 ms"
    return [step("poll", poll), step("compute", compute), step("sleep", "sleep"), least(poll), least(compute, "computing")]


def sleepers(build, mtu):
    """Request and reply of 64 bytes, both sides asleep in between."""
    rows = (("median_us", "median, us", "us"), ("p99_us", "99th percentile, us", ""), ("cpu_us", "CPU time of the client, us", ""), ("calls", "system calls of the client", ""))

    def step(how, name):
        def run(lab):
            found = words(lab.pair([program(build, "event_pingpong"), how, 64, 20_000], 18600)[0].output)
            return [Reading("sleepers", shown, mtu, name, unit, found[key]) for key, shown, unit in rows if found[key] >= 0]
        return Step(f"request and reply, {name}", run, patient=True)
    return [step("tcp", "TCP, epoll"), step("epoll", "channel, epoll"), step("blocking", "channel, ibv_get_cq_event")]


def connecting(mtu):
    """RDMA-CM, by cmtime: 200 connections at once, of each step the time of all, over their number."""
    def run(lab):
        output = lab.pair(["cmtime", "-c", "200", "-s", ADDRESS], "cm", server=["cmtime", "-c", "200"], server_ends=False)[0].output
        rows = re.findall(r"^([a-z ]+?) *: +\S+ +\S+ +\S+ +(\S+)$", output, re.M)
        return [Reading("connecting", "each of 200 at once", mtu, step, "us", float(value)) for step, value in rows]
    return [Step("connecting by RDMA-CM", run)]


def memory(build, mtu):
    def run(lab):
        found = words(lab.run("h1", [program(build, "idle_qps"), "20000"]).output)
        return [Reading("memory", "RC queue pair, idle", mtu, x, "bytes", found[key]) for key, x in (("created_bytes", "created"), ("connected_bytes", "connected"))]
    return [Step("memory of idle queue pairs", run)]
