#!/usr/bin/env python3
"""`brdma enable` and `disable` killed at each of their system calls: no file is half there, the same command completes
what was begun, and `disable` leaves the tree as it was, to the byte. Last line: `N passed, M failed`.
"""

import argparse
import ctypes
import os
import pathlib
import signal
import sys

from trees import HOME, Failure, difference, environment, expect, run, snapshot, tree

PTRACE_TRACEME, PTRACE_SYSCALL = 0, 24
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
FILES = {"usr/lib/systemd/user/web.service": "[Service]\n", "etc/ld.so.preload": "/usr/lib/other.so"}
COMMANDS = {"system": ["--system"], "all programs": ["--system", "--all-programs"], "user service": ["--user", "--service", "web"]}


def killed_at(command, number):
    """Runs the command, and kills it before its system call of that number. False: it made fewer."""
    pid = os.fork()
    if pid == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for descriptor in (1, 2):
            os.dup2(null, descriptor)
        LIBC.ptrace(PTRACE_TRACEME, 0, None, None)
        os.execve(command[0], command, environment())
    _, status = os.waitpid(pid, 0)
    expect(os.WIFSTOPPED(status), f"{command}: it cannot be traced")
    for _ in range(2 * number + 1):  # each call stops it twice
        LIBC.ptrace(PTRACE_SYSCALL, pid, None, None)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            return False
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def visible(root):
    """Files by their real names, not what an interrupted command has left under hidden ones."""
    return {path: entry for path, entry in snapshot(root).items() if not any(part.endswith((".brdma-new", ".brdma-old")) for part in path.split("/"))}


def kill_at_each_call(command, start, check):
    """The tree is as `start()` leaves it. After each kill that changed it, `check(number)` judges, and `start()` is called
    again. Returns how many kills changed something."""
    root = start()
    begin = snapshot(root)
    number = changed = 0
    while killed_at(command, number):
        if snapshot(root) != begin:
            check(number)
            start()
            changed += 1
        number += 1
    start()
    return changed


def kill_everywhere(brdma, words):
    """Returns how many kills left something begun."""
    undone = [word for word in words if word != "--all-programs"]
    with tree(FILES, ["etc", HOME[1:]]) as root:
        enable, disable = ([brdma, command, *rest, "--root", root] for command, rest in (("enable", words), ("disable", undone)))
        before = snapshot(root)
        run(enable)
        after = snapshot(root)
        run(disable)

        def whole(number, command):
            for path, entry in visible(root).items():
                expect(entry in (before.get(path), after.get(path)), f"{command} killed at call {number}: {path} is half there: {entry}")

        def completed(number, command, words, wanted):
            run(words)
            expect(snapshot(root) == wanted, f"{command} killed at call {number}: left {difference(wanted, snapshot(root))}")

        def enable_was_killed(number):
            whole(number, "enable")
            completed(number, "enable", enable, after)

        def enable_was_killed_for_good(number):
            completed(number, "enable", disable, before)

        def disable_was_killed(number):
            whole(number, "disable")
            completed(number, "disable", disable, before)

        def start_with(command):
            def start():
                run(command)
                return root

            return start

        return (
            kill_at_each_call(enable, start_with(disable), enable_was_killed)
            + kill_at_each_call(enable, start_with(disable), enable_was_killed_for_good)
            + kill_at_each_call(disable, start_with(enable), disable_was_killed)
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    brdma = str(pathlib.Path(options.build).resolve() / "bin" / "brdma")
    passed = failed = 0
    for name, words in COMMANDS.items():
        if options.only not in ("", name):
            continue
        try:
            kills = kill_everywhere(brdma, words)
            expect(kills > 20, f"only {kills} kills left something begun")
            print(f"ok    {name}: {kills} kills left something begun, and all was completed", flush=True)
            passed += 1
        except Failure as problem:
            print(f"FAIL  {name}: {problem}", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
