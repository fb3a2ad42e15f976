"""A hostile peer (hostile_peer.h) of a real program (victim.h) that is built with sanitizers, as is the brdmad that it
uses. The peer connects to the program and is connected to, has the right tokens and keys, and breaks every rule.
Meanwhile an honest peer (honest.h) on a third host writes, reads, sends, and must find everything right. The program
must neither end nor find a byte changed, or revealed, without the hostile peer's right; nor may its brdmad end.

First the same for some seconds with a program that offers too much: this must be detected, or the rest proves
nothing."""

import json
import os
import re
import time

from parts import Failure, Lab, Programs, expect, last_json

VICTIM, HOSTILE = "10.77.0.1", "10.77.0.2"
SANITIZERS = "verify_asan_link_order=0:detect_leaks=0:abort_on_error=1:handle_segv=0:allow_user_segv_handler=1"


class Attack:
    def __init__(self, options, seed, seconds, plant=False):
        self.options, self.seed, self.seconds = options, seed, seconds
        self.plant = ["plant"] if plant else []
        self.programs, self.lab = Programs(), Lab(options.build, 3, "hostile")
        victims = os.path.abspath(options.victims)
        library = os.path.join(victims, "lib", "libbitmaprdma.so")  # which starts the brdmad beside it
        self.environment = ["env", f"ASAN_OPTIONS={SANITIZERS}", "UBSAN_OPTIONS=print_stacktrace=1", "BRDMA_IDLE_SECONDS=60", f"LD_PRELOAD={library}"]
        self.verbs = os.path.join(victims, "bin", "attack_verbs")

    def start(self, host, *command):
        return self.programs.start(self.lab.on(host, *self.environment, *command))

    def run(self):
        """The three programs' own reports, and the drops of the victim's device."""
        try:
            victim = self.start("h1", self.verbs, "victim", HOSTILE, str(self.seed), *self.plant)
            line = victim.stdout.readline()
            expect(line == "listening\n", f"the victim: {line}{'' if line else victim.stderr.read()}")
            worker = self.worker()
            honest = self.start("h3", self.verbs, "honest", VICTIM, str(self.seed))
            time.sleep(1)  # it is connected before the attack begins
            peer = self.start("h2", os.path.join(os.path.abspath(self.options.build), "bin", "attack_peer"), HOSTILE, VICTIM, str(self.seed), str(self.seconds))
            # The victim first: the others see only the consequences.
            programs = {"the victim": victim, "the honest peer": honest, "the hostile peer": peer}
            end = time.monotonic() + self.seconds + 60
            while peer.poll() is None and victim.poll() is None and honest.poll() is None:
                expect(time.monotonic() < end, "the hostile peer does not end")
                time.sleep(0.1)
            for name, program in programs.items():
                if program.poll() is not None and (program is not peer or program.returncode != 0):
                    output, errors = program.communicate()
                    raise Failure(f"{name} has ended, exit code {program.returncode}: {output[-500:]}{errors[-6000:]}")
            expect(self.worker() == worker, "brdmad's worker was restarted")
            drops = self.counters()
            said = {name: last_json(Programs.finish(program, name)) for name, program in reversed(programs.items())}
            return {"hostile": said["the hostile peer"], "victim": said["the victim"], "honest": said["the honest peer"], "drops": drops}
        finally:
            self.programs.end()
            self.lab.down()

    def worker(self):
        return self.lab.ask_daemon("h1", "version")["worker_pid"]

    def counters(self):
        sums = {}
        for row in json.loads(self.lab.ask("h1", self.lab.brdma, "-j", "statistic", "show")):
            for key, value in row.items():
                if (key.startswith("drop_") or key == "rcvd_pkts") and isinstance(value, int) and value > 0:
                    sums[key] = sums.get(key, 0) + value
        return sums


def expect_noticed(options):
    said = "nothing"
    try:
        Attack(options, options.seed, 5, plant=True).run()
    except Failure as failure:
        said = str(failure)
    expect(re.search(r"memory is|\"leaks\":[1-9]", said), f"a victim that offers more than it may was not noticed, but: {said}")


def run(options):
    expect_noticed(options)
    figures = Attack(options, options.seed, options.seconds).run()
    hostile, victim, honest = figures["hostile"], figures["victim"], figures["honest"]
    expect(hostile["as_client"] > 0 and hostile["as_server"] > 0 and victim["messages"] > 0 and hostile["completed"] > 0, f"hardly any attack: {figures}")
    expect(honest["rounds"] > options.seconds, f"the honest peer was hardly served: {honest}")
    kind = "with sanitizers" if options.victims != options.build else "without sanitizers"
    return figures, (f"seed {options.seed}, {options.seconds:.0f} s {kind}: {hostile['packets']} packets, {hostile['changed']} of them changed, {hostile['invented']} invented, "
                     f"{hostile['mads']} MADs, {hostile['as_client']}+{hostile['as_server']} connections: no crash, no byte out of place, none shown; "
                     f"the honest peer did {honest['rounds']} rounds, the longest in {honest['longest_ms']} ms")
