#!/usr/bin/env python3
"""Unmodified programs across a wide-area lab with a controller (docs/explanation/wan.md): hosts exchange messages with it, routes
move under the programs, the controller dies, returns, and is cut off. Nothing may be lost. Last line: `N passed, M
failed`."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import cases
import programs

TIMEOUT_SECONDS = int(os.environ.get("TEST_TIMEOUT_SECONDS", "60"))  # far above any step here
SERVER = "10.77.1.1"
HERE = os.path.dirname(os.path.abspath(__file__))
# The server's words and the client's. The write's queue pair waits as long as RDMA-CM's do, 17 s, for packets lost on a
# cut link.
WRITE = ["ib_write_bw", programs.ANY_CLOCK, "-s", "65536", "-u", "19"]


# The traffic of a pair of programs. A write continues until it is ended; rounds of rping take some seconds.
COMMANDS = {"write": [*WRITE, "-D", "120"], "rping": ["rping", "-C", "60", "-S", "20000", "-V"]}


def commands(program):
    words = COMMANDS[program]
    return ([*words, "-s"], [*words, "-c", "-a", SERVER]) if program == "rping" else (words, [*words, SERVER])


class Traffic:
    """A pair of programs that exchange data for as long as the case needs."""

    def __init__(self, network, program):
        self.network, self.program = network, program
        self.begin()

    def begin(self):
        server_words, client_words = commands(self.program)
        self.server = self.network.start("h1", *server_words)
        self.network.wait_for("the server", lambda: self.network.server_listens(self.program))
        before = self.network.carried("s1-s2", "s1-s2.2")
        self.client = self.network.start("h2", *client_words)
        self.network.wait_for("traffic", lambda: self.network.carried("s1-s2", "s1-s2.2") > before + 50)

    def go_on(self):
        """Called before the event: an rping that may be at its last round starts again."""
        if self.program == "rping":
            self.finish()
            self.begin()
        else:
            assert self.client.poll() is None, "the client has ended"

    def finish(self):
        """Both end well. A write's duration is over at once."""
        if self.program == "write":
            before = self.network.carried("s1-s2", "s1-s2.2")
            self.network.wait_for("the write to go on", lambda: self.network.carried("s1-s2", "s1-s2.2") > before + 10_000)  # several windows
            self.network.end_duration(self.client, "ib_write_bw")
        Network.finish(self.server, self.client)


class Network:
    """h1 at s1, h2 at s2; s1-s2 of 10 ms and s1-s2.2 of 15 ms. A controller, whose socket is a path."""

    def __init__(self, user, limits="", settings=()):
        self.build, self.prefix, self.directory = user.build, user.prefix, user.new_directory()
        self.settings = ["env", *settings]
        self.brdma = os.path.join(self.build, "bin", "brdma")
        self.name = f"controlled{os.getpid()}"
        self.reach, self.listen, self.keys = f"unix:{self.directory}/controller", f"unix:{self.directory}/controller", f"{self.directory}/keys"
        self.control, self.beside = f"@{self.name}", []
        self.running = []
        with open(f"{self.directory}/controller.toml", "w") as file:
            file.write("[controller]\n" + limits)
        os.chmod(f"{self.directory}/controller.toml", 0o644)
        self.controller = None

    def up(self):
        self.make_key()
        self.start_controller()
        self.lab("up", "--topology", self.copy("../../utils/topology/parallel.toml"), "--controller", self.reach, "--controller-key", self.keys)
        self.both_switches()
        return self

    def copy(self, path):
        """Readable by nobody too."""
        return shutil.copy(os.path.join(HERE, path), self.directory)

    def make_key(self):
        self.run(f"{self.build}/bin/brdma-controller", "keygen", "--out", self.keys, "*")

    def run(self, *command, code=0):
        done = subprocess.run([*self.prefix, *command], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        assert done.returncode == code, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def lab(self, *words):
        return self.run(self.brdma, "lab", words[0], "--name", self.name, *words[1:])

    def on(self, host, *command):
        return [self.brdma, "lab", "exec", "--name", self.name, host, "--", *self.settings, *command]

    def ask_host(self, host, *words, code=0):
        out = self.run(*self.on(host, self.brdma, "-j", *words), code=code)
        return json.loads(out) if code == 0 else out

    def start(self, host, *command):
        process = subprocess.Popen([*self.prefix, *self.on(host, *command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.running.append(process)
        return process

    def start_controller(self):
        command = [*self.beside, f"{self.build}/bin/brdma-controller", "--listen", self.listen, "--key", self.keys, "--config", f"{self.directory}/controller.toml", "--control", self.control]
        # In a session of its own: with a stopped process among them, all of ctest's processes get SIGHUP when the shell
        # that started them by nohup ends.
        self.controller = subprocess.Popen([*self.prefix, *command], start_new_session=True)
        self.running.append(self.controller)
        self.wait_for("the controller", self.controller_answers)

    def controller_answers(self):
        assert self.controller.poll() is None, "the controller ended"
        done = subprocess.run([*self.prefix, *self.beside, self.brdma, "controller", "show", "at", self.control], capture_output=True, timeout=TIMEOUT_SECONDS)
        return done.returncode == 0

    def kill_controller(self):
        self.controller.kill()
        self.controller.wait()

    def state(self, what):
        return json.loads(self.run(*self.beside, self.brdma, "-j", "controller", "show", what, "at", self.control))

    def counters(self):
        return self.state("counters")[0]

    def down(self):
        for process in self.running:
            process.kill()
            process.wait()
        subprocess.run([*self.prefix, self.brdma, "lab", "down", "--name", self.name], capture_output=True, timeout=TIMEOUT_SECONDS)

    def wait_for(self, what, holds, seconds=TIMEOUT_SECONDS):
        until = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < until, f"timed out waiting for {what}"
            time.sleep(0.02)

    def carried(self, *names):
        links = json.loads(self.run(self.brdma, "lab", "show", "--name", self.name, "-j"))["topology_links"]
        return sum(way["forwarded"] for link in links if link["link"] in names for way in link["directions"])

    def carries(self, name, packets=50):
        """That link begins to carry."""
        before = self.carried(name)
        self.wait_for(f"traffic on {name}", lambda: self.carried(name) > before + packets)

    def routes(self):
        """The switches' ports towards the other site."""
        switches = json.loads(self.run(self.brdma, "lab", "show", "--name", self.name, "-j"))["switches"]
        return {(one["switch"], route["prefix"]): route["via"] for one in switches for route in one["routes"]}

    def server_listens(self, program, host="h1"):
        if program == "rping":
            return any(row["state"] == "LISTEN" for row in self.ask_host(host, "resource", "show", "cm_id"))
        table = self.run(*self.on(host, "cat", "/proc/net/tcp", "/proc/net/tcp6"))
        return any(" 0A " in line and ":4853 " in line for line in table.splitlines())  # 18515

    def begin(self, program):
        return Traffic(self, program)

    @staticmethod
    def end_duration(process, name):
        """The process of a program started in the lab, unless it has ended."""
        found = [process.pid]
        with contextlib.suppress(OSError):
            for pid in found:
                with open(f"/proc/{pid}/comm") as file:
                    if file.read().strip() == name:
                        return cases.end_duration(pid)
                with open(f"/proc/{pid}/task/{pid}/children") as file:
                    found += map(int, file.read().split())

    def both_switches(self):
        self.all_switches(2)

    def all_switches(self, count):
        self.wait_for(f"{count} switches", lambda: [one["connected"] for one in self.state("switches")] == [True] * count)

    def usable(self):
        """The link that the controller takes for usable."""
        return [link["usable"] for link in self.state("links") if link["from"] == "s1"]

    @staticmethod
    def finish(server, client):
        for who, process in (("client", client), ("server", server)):
            output, _ = process.communicate(timeout=2 * TIMEOUT_SECONDS)
            assert cases.ended_well(process.returncode, output), f"the {who} ended with {process.returncode}:\n{output}"


class FarNetwork(Network):
    """The controller is a host of another lab, and a program beside the switches forwards their sessions, by TCP over
    that lab's network."""

    def __init__(self, user, limits="", settings=()):
        super().__init__(user, limits, settings)
        self.far = f"{self.name}far"
        self.listen = "10.77.0.1:4799"
        self.beside = [self.brdma, "lab", "exec", "--name", self.far, "h1", "--"]

    def up(self):
        self.run(self.brdma, "lab", "up", "--name", self.far, "--hosts", "2", "--loss", "0", "--impair", "all")
        relay = [self.brdma, "lab", "exec", "--name", self.far, "h2", "--", "python3", self.copy("relay.py"), self.reach[5:], "10.77.0.1", "4799"]
        self.running.append(subprocess.Popen([*self.prefix, *relay]))
        self.wait_for("the relay", lambda: os.path.exists(self.reach[5:]))
        return super().up()

    def part(self, really):
        self.run(self.brdma, "lab", "set", "--name", self.far, "--loss", "100%" if really else "0")

    def down(self):
        super().down()
        subprocess.run([*self.prefix, self.brdma, "lab", "down", "--name", self.far], capture_output=True, timeout=TIMEOUT_SECONDS)


def cut_and_move(network, traffic):
    traffic.go_on()
    network.lab("link", "s1-s2", "down")
    network.carries("s1-s2.2", 20)


def a_cut_link_is_left(network, program):
    """The link is cut under the program; the controller installs the other path; it ends well."""
    traffic = network.begin(program)
    cut_and_move(network, traffic)
    traffic.finish()
    assert network.counters()["repairs"] >= 2, network.counters()


def a_congested_link_is_left(network, program):
    """The link drops to a fiftieth of its rate: a sender without congestion control fills its queue, active feedback
    goes to the controller, traffic moves."""
    traffic = network.begin(program)
    network.lab("link", "s1-s2", "set", "--rate", "20mbit", "--queue", "200kb")
    if program == "write":
        network.carries("s1-s2.2")
    traffic.finish()
    if program == "write":
        assert network.counters()["active_feedback"] > 0 and network.counters()["improvements"] > 0, network.counters()


def the_controller_dies_and_returns(network, program):
    """Without it routes stay and the program continues; after its return it knows everything again, and moves traffic
    off a cut link."""
    traffic = network.begin(program)
    before = network.routes()
    network.kill_controller()
    network.carries("s1-s2", 20)
    assert network.routes() == before
    network.start_controller()
    network.both_switches()
    assert network.routes() == before
    cut_and_move(network, traffic)
    traffic.finish()


def the_controller_is_cut_off(network, program):
    """It is there and silent: switches leave it after 5 s and keep their routes. Then they come again, and it moves
    them."""
    traffic = network.begin(program)
    before = network.routes()
    network.controller.send_signal(signal.SIGSTOP)
    time.sleep(6)  # nothing outside shows that they gave it up
    traffic.go_on()
    network.carries("s1-s2", 20)
    assert network.routes() == before
    network.controller.send_signal(signal.SIGCONT)
    network.wait_for("their end", lambda: network.counters()["connections"] >= 4 and network.counters()["members_gone"] >= 2)
    network.both_switches()
    cut_and_move(network, traffic)
    traffic.finish()


def a_change_was_left_half_done(network, program):
    """The controller ended when one switch of two had its new routes, and then the other one's link is cut: the next
    controller repairs the rest."""
    traffic = network.begin(program)
    network.kill_controller()
    traffic.go_on()
    network.lab("route", "s1", "replace", "10.77.2.0/24", "via", "s2.2")
    network.carries("s1-s2.2", 5)
    network.lab("link", "s1-s2", "down")
    network.start_controller()
    network.wait_for("the repair", lambda: network.routes()[("s2", "10.77.1.0/24")] == ["s1.2"])
    traffic.finish()
    assert network.routes()[("s1", "10.77.2.0/24")] == ["s2.2"], network.routes()


def the_sites_are_parted(network, program):
    """No path at all for a while; the one that comes back is used."""
    traffic = network.begin(program)
    network.lab("link", "s1-s2.2", "down")
    network.lab("link", "s1-s2", "down")
    network.wait_for("both to be known as cut", lambda: network.usable() == [False, False])
    network.lab("link", "s1-s2.2", "up")
    network.carries("s1-s2.2", 20)
    traffic.finish()


def the_controller_is_parted_from_all(network, program):
    """Nothing passes between it and the switches for longer than the silence limit; a link is cut meanwhile."""
    traffic = network.begin(program)
    before = network.routes()
    network.part(True)
    network.wait_for("sessions that ended", lambda: network.counters()["members_gone"] >= 2)
    traffic.go_on()
    network.carries("s1-s2", 20)
    network.lab("link", "s1-s2", "down")
    assert network.routes() == before
    network.part(False)
    network.carries("s1-s2.2", 20)
    network.both_switches()
    traffic.finish()


def senders_are_told(network, program):
    """More congested links than the controller moves routes for: the sender's destination gets on its managed list."""
    network.begin(program)
    network.wait_for("the hosts' sessions", lambda: len(network.state("hosts")) == 2)
    network.lab("link", "s1-s2", "set", "--rate", "50mbit", "--queue", "400kb")
    network.wait_for("a managed destination", lambda: any(row["destination"] == SERVER for row in network.ask_host("h2", "managed", "show")))
    row = network.ask_host("h2", "statistic", "show")[0]
    assert row["controller_requests"] > 0 and row["managed_added"] > 0, row
    # The other direction is as slow; h1's acknowledgements pass by it. A destination without senders is on nobody's
    # list.
    assert all(row["destination"] == "10.77.2.2" for row in network.ask_host("h1", "managed", "show"))
    assert network.counters()["control_packets"] > 0 and network.counters()["improvements"] == 0, network.counters()


def senders_tell(network, program):
    """Links are inquired after timeouts; brdmad passes the answers to the controller, which moves the route."""
    network.begin(program)
    network.wait_for("the hosts' sessions", lambda: len(network.state("hosts")) == 2)
    network.lab("link", "s1-s2", "set", "--rate", "50mbit", "--queue", "400kb")
    network.wait_for("passive feedback", lambda: network.counters()["passive_feedback"] > 0)
    network.carries("s1-s2.2")
    row = network.ask_host("h2", "statistic", "show")[0]
    assert row["link_state_inquiries_sent"] > 0 and row["link_state_reports"] > 0, row
    assert network.counters()["improvements"] > 0, network.counters()


# Case: its programs, the controller's limits, the programs' settings, its network. With a threshold of 0 routes move
# because of passive feedback only.
BOTH = ("write", "rping")
UNCONGESTED = ("BRDMA_WINDOW=1024",)  # 4 MiB: beside the path's 2.5 MB less than three quarters of a queue, so that routes stay
CASES = {
    a_cut_link_is_left: (BOTH, "", UNCONGESTED),
    a_congested_link_is_left: (BOTH, "", ("BRDMA_CONGESTION=none",)),
    the_controller_dies_and_returns: (BOTH, "", UNCONGESTED),
    the_controller_is_cut_off: (BOTH, "", UNCONGESTED),
    the_controller_is_parted_from_all: (BOTH, "", UNCONGESTED, FarNetwork),
    the_sites_are_parted: (BOTH, "", UNCONGESTED),
    a_change_was_left_half_done: (BOTH, "", UNCONGESTED),
    senders_are_told: (("write",), "congested_links = 0\n", ("BRDMA_WAN_INQUIRY_TIMEOUTS=0", "BRDMA_CONGESTION=none", "BRDMA_WAN_VISIT_INTERVAL_US=60000000")),
    senders_tell: (("write",), "congested_links = 0\n", ("BRDMA_WAN_INQUIRY_TIMEOUTS=1", "BRDMA_CONGESTION=none", "BRDMA_RECOVERY=wan")),
}


def rows(only):
    for case, (names, limits, settings, *network) in CASES.items():
        for program in names:
            if only in (None, program):
                make = network[0] if network else Network
                yield (f"{case.__name__} {program}", lambda user, make=make, limits=limits, settings=settings: made(make(user, limits, settings)),
                       lambda lab, case=case, program=program: case(lab, program))


def made(network):
    try:
        return network.up()
    except BaseException:
        network.down()
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    cases.add_options(parser)
    parser.add_argument("--program", choices=BOTH)
    options = parser.parse_args()
    return cases.run(options, rows(options.program))


if __name__ == "__main__":
    sys.exit(main())
