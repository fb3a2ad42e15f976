#!/usr/bin/env python3
"""`brdma run --require` and `brdma sysdump`.

    used.py [--build DIR] [--only CASE,...] [--list]

Last line: `N passed, M failed`.
"""

import os
import signal
import stat
import subprocess
import sys
import time

import world as w
from world import BRDMA, expect

# A program that makes queue pairs, as any verbs program does.
USES = [BRDMA, "check-probe", "local"]


def run(world, *words, **options):
    return world.command("run", "--require", "--", *words, **options)


def refused(done, code=1):
    expect(done.returncode == code and "no queue pair" in done.stderr and "brdma check" in done.stderr, f"{done.returncode}: {done.stderr}")


def used(world):
    w.make_interface(world)
    for words in (USES, ["sh", "-c", " ".join(USES) + "; true"], ["sh", "-c", "(" + " ".join(USES) + ") & wait"]):
        done = run(world, *words)
        expect(done.returncode == 0 and not done.stderr, f"{words}: {done.returncode}: {done.stderr}")
    left = [name for _, _, names in os.walk(w.RUN) for name in names if name.startswith("use-")]
    expect(not left, f"left behind: {left}")


def not_used(world):
    w.make_interface(world)
    refused(run(world, "true"))
    refused(run(world, "ibv_devinfo"))  # opens a device, and makes no queue pair
    refused(run(world, "env", "-u", "LD_PRELOAD", "true"))
    again = world.command("run", "--", "true")
    expect(again.returncode == 0 and not again.stderr, f"without --require: {again.returncode} {again.stderr}")


def codes(world):
    """The program's own code stays, used or not."""
    w.make_interface(world)
    refused(run(world, "sh", "-c", "exit 7"), 7)
    done = run(world, "sh", "-c", " ".join(USES) + "; exit 7")
    expect(done.returncode == 7 and not done.stderr, f"{done.returncode}: {done.stderr}")
    expect(run(world, "no-such-program-here").returncode == 127, "127 is for a program that is not there")
    done = run(world, "sh", "-c", "kill -KILL $$")
    expect(done.returncode == 128 + signal.SIGKILL, f"{done.returncode}")


def signals(world):
    """brdma passes on what reaches it alone."""
    w.make_interface(world)
    waits = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5)); print('ready', flush=True); signal.pause()"
    program = [BRDMA, "run", "--require", "--", sys.executable, "-c", waits]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=world.environment) as process:
        expect(process.stdout.readline() == "ready\n", "it does not start")
        process.terminate()
        expect(process.wait(timeout=30) == 5, f"{process.returncode}")


def in_namespace(world):
    w.make_interface(world)
    done = world.command("run", "--require", "--namespace", "--", "env", *USES)
    expect(done.returncode == 0, f"{done.returncode}: {done.stderr}")


def dumped(world):
    """All sections are there, for the user alone, and no key is."""
    w.make_interface(world)
    with open("/tmp/key", "w", encoding="utf-8") as file:
        file.write('[key]\nsecret = "THE-SECRET"\n')
    world.environment["BRDMA_CONTROLLER_KEY"] = "/tmp/key"
    world.environment["AWS_SECRET_ACCESS_KEY"] = "THE-SECRET"
    done = world.command("sysdump", "/tmp/dump.txt")
    expect(done.returncode == 0 and done.stdout == "/tmp/dump.txt\n", f"{done.returncode}: {done.stdout}{done.stderr}")
    with open("/tmp/dump.txt", encoding="ascii") as file:
        text = file.read()
    for section in ("check", "check -j", "variables", "brdma -d dev", "brdma system show config", "/proc/self/limits", "/proc/net/udp"):
        expect(f"\n== {section} ==\n" in text, f"no section {section}")
    expect("brdma_eth0" in text and "BRDMA_IDLE_SECONDS=1" in text, "device or variable is missing")
    expect("THE-SECRET" not in text, "a secret is in it")
    expect(text.startswith("brdma sysdump: no keys"), "it does not say what is in it")
    expect(stat.S_IMODE(os.stat("/tmp/dump.txt").st_mode) == 0o600, "others can read it")
    expect(" psn -" in text or " psn " not in text, "a PSN is in it")
    named = world.command("sysdump", cwd="/tmp").stdout.strip()
    expect(named.startswith("brdma-sysdump-") and os.path.exists(f"/tmp/{named}"), f"its own name: {named}")


def planted(world):
    """Whoever can write into the directory knows the default name of a coming second: a file or link there is left alone."""
    w.make_interface(world)
    os.mkdir("/tmp/shared")
    with open("/tmp/victim", "w", encoding="utf-8") as file:
        file.write("the victim's\n")
    now = time.time()
    for second in range(120):
        name = time.strftime("brdma-sysdump-%Y%m%d-%H%M%S", time.localtime(now + second))
        os.symlink("/tmp/victim", f"/tmp/shared/{name}.txt")
        os.symlink("/tmp/shared/made", f"/tmp/shared/{name}-2.txt")
    done = world.command("sysdump", cwd="/tmp/shared")
    with open("/tmp/victim", encoding="utf-8") as file:
        expect(file.read() == "the victim's\n", "the dump was written through a planted link")
    expect(not os.path.exists("/tmp/shared/made"), "the dump made a file through a planted link")
    named = done.stdout.strip()
    expect(done.returncode == 0 and named.endswith("-3.txt"), f"{done.returncode}: {done.stdout}{done.stderr}")
    expect(stat.S_ISREG(os.lstat(f"/tmp/shared/{named}").st_mode), "it is no file")


def not_written(world):
    w.make_interface(world)
    for name in ("/dev/full", "/tmp/none/dump.txt"):
        done = world.command("sysdump", name)
        expect(done.returncode == 1 and name in done.stderr, f"{name}: {done.returncode} {done.stderr}")
    expect(world.command("sysdump", "a", "b").returncode == 2, "two names")


def misuse(world):
    for words in (["check", "--port", "0", "h"], ["check", "a", "b"], ["check", "--once"], ["check", "--listen", "h"], ["check", "--nonsense"], ["check", "--"]):
        done = world.command(*words)
        expect(done.returncode == 2 and done.stderr, f"{words}: {done.returncode} {done.stderr}")


CASES = {"used": used, "not_used": not_used, "codes": codes, "signals": signals, "in_namespace": in_namespace, "dumped": dumped, "planted": planted, "not_written": not_written, "misuse": misuse}

if __name__ == "__main__":
    sys.exit(w.run_cases(CASES, __doc__))
