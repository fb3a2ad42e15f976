"""Two users, each runs a short program (short_program.cc) so many times beside the other, under one brdmad --system.
Each run checks that brdmad has its lease and its exact counters. Two programs that only wait, one of either user, must
see no change of their own counters, and the sum of all counters must equal the total of all runs."""

import os
import shutil
import subprocess
import tempfile
import time

import kill
from parts import TIMEOUT_SECONDS, Programs, Skipped, expect, has_root

USERS, WRITES = (61001, 61002), 20
# Runs as one of the users, who may have no readable Python.
LOOP = 'runs=$1; shift; i=0; while [ $i -lt $runs ]; do "$@" > /dev/null || { echo "run $i: exit code $?" >&2; exit 1; }; i=$((i+1)); done'


def as_user(uid):
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR", "HOME=/nonexistent", "BRDMA_LO=1"]


def copied(build, directory):
    """At a place where every user can run it: a build may be anywhere."""
    os.chmod(directory, 0o755)
    for name in ("bin/brdma", "bin/brdmad", "bin/attack_short", "lib/libbitmaprdma.so.1"):
        os.makedirs(os.path.join(directory, os.path.dirname(name)), exist_ok=True)
        shutil.copy(os.path.join(build, name), os.path.join(directory, name))
    return directory


def of_process(statistics, pid):
    rows = [row for row in statistics["processes"] if row["pid"] == pid]
    expect(len(rows) == 1, f"{len(rows)} leases of process {pid}")
    return rows[0]


def total(statistics, counter):
    return sum(device["counters"][counter] for device in statistics["devices"])


def attack(options, programs, copies):
    brdma, short = os.path.join(copies, "bin", "brdma"), os.path.join(copies, "bin", "attack_short")
    ready, ready_end = os.pipe()
    daemon = programs.start([os.path.join(copies, "bin", "brdmad"), "--system", "--foreground", "--ready-fd", str(ready_end)], pass_fds=[ready_end], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(ready_end)
    while os.read(ready, 100):
        pass
    os.close(ready)
    expect(daemon.poll() is None, "brdmad --system does not start")
    command = [brdma, "run", "--", short]
    waiting = [programs.start([*as_user(uid), *command, "hold", str(WRITES)]) for uid in USERS]
    for program in waiting:
        line = program.stdout.readline()
        expect(line == "held\n", f"a program that waits: {line}{'' if line else program.stderr.read()}")
    before = kill.ask("statistics")
    leases = kill.ask("leases")["leases"]
    expect(sorted(lease["uid"] for lease in leases) == list(USERS), f"leases: {leases}")
    began = time.monotonic()
    loops = [programs.start([*as_user(uid), "sh", "-c", LOOP, "sh", str(options.runs), *command, str(WRITES)]) for uid in USERS]
    for uid, loop in zip(USERS, loops):
        _, errors = loop.communicate(timeout=TIMEOUT_SECONDS + 2 * options.runs)
        expect(loop.returncode == 0, f"user {uid}: {errors}")
    seconds = time.monotonic() - began
    after = kill.ask_patiently("statistics", lambda answer: len(answer["processes"]) == len(USERS))
    for lease in leases:
        expect(of_process(before, lease["pid"]) == of_process(after, lease["pid"]), f"what brdmad says of process {lease['pid']} has changed")
    expect(kill.ask("leases")["leases"] == leases, "leases have changed")
    done = total(after, "rx_write_requests") - total(before, "rx_write_requests")
    expect(done == len(USERS) * options.runs * WRITES, f"{done} WRITEs counted")
    for program in waiting:
        Programs.finish(program, "a program that waits")
    return seconds, done


def run(options):
    if not has_root():
        raise Skipped("two users take root")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # in a network of its own
        code = 1
        running = Programs()
        try:
            kill.enter_network(False)
            with tempfile.TemporaryDirectory(prefix="brdma-attacks-") as directory:
                seconds, done = attack(options, running, copied(options.build, directory))
            os.write(writing, f"{seconds:.1f} {done}".encode())
            code = 0
        except BaseException as error:  # the parent reports it
            os.write(writing, f"{type(error).__name__}: {error}".encode()[:4000])
        finally:
            running.end()
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    expect(status == 0, said)
    seconds, done = said.split()
    figures = {"users": len(USERS), "runs_of_each": options.runs, "writes_counted": int(done), "seconds": float(seconds)}
    return figures, f"{len(USERS)} users, {options.runs} runs each in {seconds} s: {done} WRITEs counted as done, leases and counters of the others unchanged"
