#!/usr/bin/env python3
"""Unmodified programs across a wide-area lab with a controller (docs/wan.md): hosts hear from it and tell it, routes move under
the programs, the controller dies, returns, and is cut off. Nothing may be lost. Last line: `N passed, M failed`."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import programs

PATIENCE = int(os.environ.get("BRDMA_PATIENCE", "60"))  # seconds; far above what anything here takes
SERVER = "10.77.1.1"
# The server's words and the client's. The write's queue pair waits 8 s for what is lost on a cut link: a loaded machine takes its time.
WRITE = ["ib_write_bw", "-s", "65536", "-u", "18"]


def commands(program, long):
    if program == "write":
        words = [*WRITE, "-D", "20"] if long else [*WRITE, "-n", "1000"]
        return words, [*words, SERVER]
    rounds = ["-C", "200" if long else "60", "-S", "20000", "-V"]
    return ["rping", "-s", *rounds], ["rping", "-c", "-a", SERVER, *rounds]


class Network:
    """h1 at s1, h2 at s2; s1-s2 of 10 ms and s1-s2.2 of 15 ms. A controller, whose socket is a path."""

    def __init__(self, build, prefix, directory, limits="", settings=()):
        self.build, self.prefix, self.directory = build, prefix, directory
        self.settings = ["env", *settings]
        self.brdma = os.path.join(build, "bin", "brdma")
        self.name = f"controlled{os.getpid()}"
        self.listen, self.keys = f"unix:{directory}/controller", f"{directory}/keys"
        self.control = f"@{self.name}"
        self.running = []
        with open(f"{directory}/controller.toml", "w") as file:
            file.write("[controller]\n" + limits)
        os.chmod(f"{directory}/controller.toml", 0o644)
        self.controller = None

    def up(self):
        self.make_key()
        self.start_controller()
        topology = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../utils/topology/parallel.toml")
        shutil.copy(topology, self.directory)  # where nobody can read it too
        self.lab("up", "--topology", f"{self.directory}/parallel.toml", "--controller", self.listen, "--controller-key", self.keys)
        self.both_switches()

    def make_key(self):
        self.run(f"{self.build}/bin/brdma-controller", "keygen", "--out", self.keys, "*")

    def run(self, *command, code=0):
        done = subprocess.run([*self.prefix, *command], capture_output=True, text=True, timeout=PATIENCE)
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
        command = [f"{self.build}/bin/brdma-controller", "--listen", self.listen, "--key", self.keys, "--config", f"{self.directory}/controller.toml", "--control", self.control]
        self.controller = subprocess.Popen([*self.prefix, *command])
        self.running.append(self.controller)
        self.wait_for("the controller", self.controller_answers)

    def controller_answers(self):
        assert self.controller.poll() is None, "the controller ended"
        done = subprocess.run([*self.prefix, self.brdma, "controller", "show", "at", self.control], capture_output=True, timeout=PATIENCE)
        return done.returncode == 0

    def kill_controller(self):
        self.controller.kill()
        self.controller.wait()

    def state(self, what):
        return json.loads(self.run(self.brdma, "-j", "controller", "show", what, "at", self.control))

    def counters(self):
        return self.state("counters")[0]

    def down(self):
        for process in self.running:
            process.kill()
            process.wait()
        subprocess.run([*self.prefix, self.brdma, "lab", "down", "--name", self.name], capture_output=True, timeout=PATIENCE)

    def wait_for(self, what, holds, seconds=PATIENCE):
        until = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < until, f"waited in vain for {what}"
            time.sleep(0.02)

    def carried(self, name):
        links = json.loads(self.run(self.brdma, "lab", "show", "--name", self.name, "-j"))["topology_links"]
        link = next(link for link in links if link["link"] == name)
        return sum(way["forwarded"] for way in link["directions"])

    def carries(self, name, packets=50):
        """That link begins to carry."""
        before = self.carried(name)
        self.wait_for(f"traffic on {name}", lambda: self.carried(name) > before + packets)

    def routes(self):
        """By which ports the switches send to the other site."""
        switches = json.loads(self.run(self.brdma, "lab", "show", "--name", self.name, "-j"))["switches"]
        return {(one["switch"], route["prefix"]): route["via"] for one in switches for route in one["routes"]}

    def server_listens(self, program):
        if program == "rping":
            return any(row["state"] == "LISTEN" for row in self.ask_host("h1", "resource", "show", "cm_id"))
        table = self.run(*self.on("h1", "cat", "/proc/net/tcp", "/proc/net/tcp6"))
        return any(" 0A " in line and ":4853 " in line for line in table.splitlines())  # 18515

    def begin(self, program, long=False):
        """A pair of programs, exchanging data."""
        server_words, client_words = commands(program, long)
        server = self.start("h1", *server_words)
        self.wait_for("the server", lambda: self.server_listens(program))
        client = self.start("h2", *client_words)
        self.carries("s1-s2")
        return server, client

    def both_switches(self):
        self.wait_for("both switches", lambda: [s["connected"] for s in self.state("switches")] == [True, True])

    @staticmethod
    def finish(server, client):
        for who, process in (("client", client), ("server", server)):
            output, _ = process.communicate(timeout=2 * PATIENCE)
            assert process.returncode == 0, f"the {who} ended with {process.returncode}:\n{output}"


def cut_and_move(network):
    """Not under rping: its queue pair gives up after 0.54 s (RDMA-CM's default), and a loaded machine may take longer."""
    network.lab("link", "s1-s2", "down")
    network.carries("s1-s2.2", 20)


def a_cut_link_is_left(network, program):
    """The link is cut under the program; the controller installs the other way; it ends well."""
    server, client = network.begin(program, long=True)
    cut_and_move(network)
    network.finish(server, client)
    assert network.counters()["repairs"] >= 2, network.counters()


def a_congested_link_is_left(network, program):
    """The link can do a fiftieth of what it could: a sender that nothing bounds fills its queue, active feedback goes to the controller,
    traffic moves."""
    server, client = network.begin(program)
    network.lab("link", "s1-s2", "set", "--rate", "20mbit", "--queue", "200kb")
    if program == "write":
        network.carries("s1-s2.2")
    network.finish(server, client)
    if program == "write":
        assert network.counters()["active_feedback"] > 0 and network.counters()["improvements"] > 0, network.counters()


def the_controller_dies_and_returns(network, program):
    """Without it routes stay and the program goes on; when it has come back it knows all again, and moves what is cut."""
    server, client = network.begin(program, long=True)
    before = network.routes()
    network.kill_controller()
    network.carries("s1-s2", 20)
    assert network.routes() == before
    network.start_controller()
    network.both_switches()
    assert network.routes() == before
    if program == "write":
        cut_and_move(network)
    network.finish(server, client)


def the_controller_is_cut_off(network, program):
    """It is there and says nothing: switches leave it after 5 s and keep their routes. Then they come again, and it moves them."""
    server, client = network.begin(program, long=True)
    before = network.routes()
    network.controller.send_signal(signal.SIGSTOP)
    time.sleep(6)  # nothing tells from outside that they gave it up
    network.carries("s1-s2", 20)
    assert network.routes() == before
    network.controller.send_signal(signal.SIGCONT)
    network.wait_for("their end", lambda: network.counters()["connections"] >= 4 and network.counters()["members_gone"] >= 2)
    network.both_switches()
    if program == "write":
        cut_and_move(network)
    network.finish(server, client)


def senders_are_told(network, program):
    """More congested links than the controller moves routes for: the sender's destination gets on its managed list."""
    server, client = network.begin(program, long=True)
    network.wait_for("the hosts' sessions", lambda: len(network.state("hosts")) == 2)
    network.lab("link", "s1-s2", "set", "--rate", "50mbit", "--queue", "400kb")
    network.wait_for("a managed destination", lambda: any(row["destination"] == SERVER for row in network.ask_host("h2", "managed", "show")))
    row = network.ask_host("h2", "statistic", "show")[0]
    assert row["controller_requests"] > 0 and row["managed_added"] > 0, row
    assert network.ask_host("h1", "managed", "show") == []  # who sends nothing there is not concerned
    assert network.counters()["control_packets"] > 0 and network.counters()["improvements"] == 0, network.counters()


def senders_tell(network, program):
    """Links are inquired after timeouts; what they say goes by brdmad to the controller, which moves the route."""
    server, client = network.begin(program, long=True)
    network.wait_for("the hosts' sessions", lambda: len(network.state("hosts")) == 2)
    network.lab("link", "s1-s2", "set", "--rate", "50mbit", "--queue", "400kb")
    network.wait_for("passive feedback", lambda: network.counters()["passive_feedback"] > 0)
    network.carries("s1-s2.2")
    row = network.ask_host("h2", "statistic", "show")[0]
    assert row["link_state_inquiries_sent"] > 0 and row["link_state_reports"] > 0, row
    assert network.counters()["improvements"] > 0, network.counters()


# Case: its programs, the controller's limits, the programs' settings. With a threshold of 0 routes move because of passive
# feedback only.
BOTH = ("write", "rping")
CASES = {
    a_cut_link_is_left: (("write",), "", ()),
    a_congested_link_is_left: (BOTH, "", ("BRDMA_CONGESTION=none",)),
    the_controller_dies_and_returns: (BOTH, "", ()),
    the_controller_is_cut_off: (BOTH, "", ()),
    senders_are_told: (("write",), "congested_links = 0\n", ("BRDMA_WAN_INQUIRY_TIMEOUTS=0", "BRDMA_CONGESTION=none", "BRDMA_WAN_VISIT_INTERVAL_US=60000000")),
    senders_tell: (("write",), "congested_links = 0\n", ("BRDMA_WAN_INQUIRY_TIMEOUTS=1", "BRDMA_CONGESTION=none", "BRDMA_RECOVERY=wan")),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="", help="run only the cases whose name holds this text")
    parser.add_argument("--program", choices=BOTH)
    parser.add_argument("--as-nobody", action="store_true", help="when root: run as user nobody, in a user namespace")
    options = parser.parse_args()
    passed = failed = 0
    for case, (names, limits, settings) in CASES.items():
        for program in names:
            if options.only not in case.__name__ or (options.program and program != options.program):
                continue
            began = time.monotonic()
            network = None
            with tempfile.TemporaryDirectory(prefix="brdma-controlled-") as directory:
                build, prefix = os.path.abspath(options.build), []
                if options.as_nobody and os.geteuid() == 0:
                    build = programs.for_nobody(build, directory)
                    prefix = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR", f"HOME={directory}/home"]
                try:
                    work = f"{directory}/home" if prefix else directory
                    network = Network(build, prefix, work, limits, settings)
                    network.up()
                    case(network, program)
                    passed += 1
                    print(f"ok    {time.monotonic() - began:6.1f}s  {case.__name__} {program}", flush=True)
                except Exception:  # any: the others run all the same
                    failed += 1
                    print(f"FAIL  {time.monotonic() - began:6.1f}s  {case.__name__} {program}\n{traceback.format_exc()}", flush=True)
                finally:
                    if network is not None:
                        network.down()
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
