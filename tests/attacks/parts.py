"""Shared by the parts of the attacks: a part's outcome, programs that end with it, a lab of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys

KILL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kill")
sys.path.insert(0, KILL)

TIMEOUT_SECONDS = 60  # seconds; far above any step here, on a busy machine


class Skipped(Exception):
    """The reason why a part cannot be tried here."""


class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


def has_root():
    return os.geteuid() == 0


class Programs:
    """Ended, by their ids, when the part is over."""

    def __init__(self):
        self.running = []

    def start(self, command, **options):
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        program = subprocess.Popen(command, **options)
        self.running.append(program)
        return program

    @staticmethod
    def finish(program, what, code=0):
        """Closes its input, by which it ends; its output."""
        try:
            output, errors = program.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure(f"{what} does not end") from None
        expect(program.returncode == code, f"{what}: exit code {program.returncode}: {output[-500:]}{errors[-3000:]}")
        return output

    def end(self):
        for program in self.running:
            if program.poll() is None:
                program.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(timeout=5)
            if program.poll() is None:
                program.kill()
                program.wait()


class Lab:
    """Hosts h1, h2 ... at 10.77.0.1, 10.77.0.2 ..., joined directly; root is not needed."""

    def __init__(self, build, hosts, name):
        self.bin = os.path.join(os.path.abspath(build), "bin")
        self.brdma, self.name = os.path.join(self.bin, "brdma"), f"{name}{os.getpid()}"
        done = subprocess.run([self.brdma, "lab", "up", "--name", self.name, "--hosts", str(hosts)], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        if done.returncode != 0:
            raise Failure(f"no lab: {done.stderr.strip()}")

    def down(self):
        subprocess.run([self.brdma, "lab", "down", "--name", self.name], timeout=TIMEOUT_SECONDS, stdout=subprocess.DEVNULL, check=False)

    def on(self, host, *command):
        return [self.brdma, "lab", "exec", "--name", self.name, host, "--", *command]

    def ask(self, host, *command):
        done = subprocess.run(self.on(host, *command), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        expect(done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def ask_daemon(self, host, question):
        words = f"import sys, json; sys.path.insert(0, {KILL!r}); import kill; print(json.dumps(kill.ask({question!r})))"
        return json.loads(self.ask(host, sys.executable, "-c", words))


def last_json(text):
    return json.loads(text.strip().splitlines()[-1])
