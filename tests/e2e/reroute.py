#!/usr/bin/env python3
"""Unmodified programs across several switches while links are cut and routes change: nothing may be lost. Last line: `N passed, M failed`."""

import argparse
import json
import os
import subprocess
import sys
import time

import cases
import programs

SERVER = "10.77.1.1"
WRITE = ["ib_write_bw", programs.ANY_CLOCK, "-s", "65536", "-n", "1500"]
PROGRAMS = {
    "write": (WRITE, [*WRITE, SERVER]),
    "rping": (["rping", "-s", "-C", "60", "-S", "20000", "-V"], ["rping", "-c", "-a", SERVER, "-C", "60", "-S", "20000", "-V"]),
}


class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


class Lab:
    """h1 at s1, h2 at s2; s1-s2 of 10 ms, and s1-s2.2 of 15 ms that carries nothing at first."""

    def __init__(self, build, as_nobody):
        self.prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if as_nobody else []
        self.brdma = os.path.join(build, "bin", "brdma")
        self.name = f"reroute{os.getpid()}"
        self.running = []
        self.run("up", "--topology", "parallel")

    def command(self, *words):
        return [*self.prefix, self.brdma, "lab", words[0], "--name", self.name, *words[1:]]

    def run(self, *words):
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60)
        expect(done.returncode == 0, f"lab {' '.join(words)}: {done.stderr}")
        return done.stdout

    def start(self, host, program):
        process = subprocess.Popen(self.command("exec", host, "--", *program), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.running.append(process)
        return process

    def end(self):
        for process in self.running:
            process.kill()
            process.wait()
        subprocess.run(self.command("down"), capture_output=True, timeout=60)

    def way(self, link):
        """All traffic by this link, 1 or 2."""
        suffix = "" if link == 1 else ".2"
        self.run("route", "s2", "replace", "10.77.1.0/24", "via", "s1" + suffix)
        self.run("route", "s1", "replace", "10.77.2.0/24", "via", "s2" + suffix)

    def link(self, name):
        for link in json.loads(self.run("show", "-j"))["topology_links"]:
            if link["link"] == name:
                return link
        raise Failure(f"no link {name}")

    def carried(self, name):
        return sum(way["forwarded"] for way in self.link(name)["directions"])

    def lost(self, name):
        link = self.link(name)
        return sum(way["refused_down"] + way["lost_in_flight"] for way in link["directions"])

    def wait_for(self, condition, what, seconds=30):
        until = time.monotonic() + seconds
        while not condition():
            expect(time.monotonic() < until, f"timed out waiting for {what}")
            time.sleep(0.02)

    def wait_listening(self, program):
        def listens():
            if program == "rping":
                rows = self.run("exec", "h1", "--", self.brdma, "-j", "resource", "show", "cm_id")
                return any(row["state"] == "LISTEN" for row in json.loads(rows))
            table = self.run("exec", "h1", "--", "cat", "/proc/net/tcp", "/proc/net/tcp6")
            return any(" 0A " in line and ":4853 " in line for line in table.splitlines())  # 18515

        self.wait_for(listens, "the server")

    def begin(self, program):
        """The pair of programs, exchanging data."""
        server_words, client_words = PROGRAMS[program]
        server = self.start("h1", server_words)
        self.wait_listening(program)
        client = self.start("h2", client_words)
        before = self.carried("s1-s2")
        self.wait_for(lambda: self.carried("s1-s2") > before + 50, "traffic")
        return server, client

    @staticmethod
    def finish(server, client):
        for who, process in (("client", client), ("server", server)):
            output, _ = process.communicate(timeout=90)
            expect(cases.ended_well(process.returncode, output), f"the {who} ended with {process.returncode}:\n{output}")


def a_cut_link_is_left(lab, program):
    """The link is cut under the program; a route by the other one is installed: it ends well."""
    server, client = lab.begin(program)
    lab.run("link", "s1-s2", "down")
    lab.wait_for(lambda: lab.lost("s1-s2") > 0, "packets to be lost")
    lab.way(2)
    lab.finish(server, client)
    expect(lab.carried("s1-s2.2") > 50, "the other link carried nothing")


def routes_change(lab, program):
    """Traffic moves from one link to the other and back while it runs: that loses no packet."""
    server, client = lab.begin(program)
    for turn in range(10):
        lab.way(2 - turn % 2)
        time.sleep(0.1)
    lab.finish(server, client)
    expect(lab.carried("s1-s2.2") > 50, "the other link carried nothing")
    expect(lab.lost("s1-s2") + lab.lost("s1-s2.2") == 0, "packets were lost")
    for link in ("s1-s2", "s1-s2.2"):
        for way in lab.link(link)["directions"]:
            expect(way["queue_dropped"] == 0, f"{link}: {way}")


CASES = {"a_cut_link_is_left": a_cut_link_is_left, "routes_change": routes_change}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--program", choices=PROGRAMS)
    parser.add_argument("--as-nobody", action="store_true")
    arguments = parser.parse_args()
    if arguments.as_nobody and os.geteuid() != 0:
        arguments.as_nobody = False  # unprivileged already
    passed = failed = 0
    for name, case in CASES.items():
        for program in PROGRAMS:
            if (arguments.only and name != arguments.only) or (arguments.program and program != arguments.program):
                continue
            lab = None
            try:
                lab = Lab(os.path.abspath(arguments.build), arguments.as_nobody)
                case(lab, program)
                print(f"ok    {name} {program}", flush=True)
                passed += 1
            except (Failure, subprocess.TimeoutExpired) as failure:
                print(f"FAIL  {name} {program}: {failure}", flush=True)
                failed += 1
            finally:
                if lab:
                    lab.end()
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
