"""Runs the cases of a script, one after the other, each with a lab of its own: as the caller or, if that is root, as
`nobody`."""

import contextlib
import os
import shutil
import signal
import tempfile
import time
import traceback

import programs

# rping's client closes its event channel while its event thread may be about to request the next event. Then that
# thread gets EBADF, as from the kernel, and ends the program with 255, after all its work is done.
RPING_RACE = "rdma_get_cm_event: Bad file descriptor"
NOBODY = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR"]


def ended_well(code, output):
    return code == 0 or (code == 255 and RPING_RACE in output)


def signal_taken(pid, number, seconds=60):
    """Sends it and waits until the process has taken it, or has ended: signals do not queue."""
    until = time.monotonic() + seconds
    with contextlib.suppress(OSError):
        os.kill(pid, number)
        while is_pending(pid, number) and time.monotonic() < until:
            time.sleep(0.005)


def is_pending(pid, number):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        waiting = next(int(line.split()[1], 16) for line in file if line.startswith("ShdPnd:"))
    return waiting >> (number - 1) & 1 == 1


def end_duration(pid):
    """Ends a perftest program with -D after it has run long enough. Its own timer's signal ends it: the first one
    begins the measurement, the second one ends that, the third one ends the program."""
    for _ in range(3):
        signal_taken(pid, signal.SIGALRM)


class User:
    """The programs' user: `build` and `prefix` of each command, and the user's directories."""

    def __init__(self, build, as_nobody):
        self.directory = tempfile.TemporaryDirectory(prefix="brdma-e2e-")
        self.build, self.prefix, self.home = os.path.abspath(build), [], self.directory.name
        if as_nobody and os.geteuid() == 0:
            self.build = programs.for_nobody(self.build, self.directory.name)
            self.home = f"{self.directory.name}/home"
            self.prefix = [*NOBODY, f"HOME={self.home}"]

    def new_directory(self):
        path = tempfile.mkdtemp(dir=self.home)
        if self.prefix:
            shutil.chown(path, "nobody")
        return path


def add_options(parser):
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="", help="run only the cases whose name holds this text")
    parser.add_argument("--as-nobody", action="store_true", help="when root: run as user nobody, in a user namespace")


def run(options, cases):
    """`cases`: name, function that makes a lab for a User, function that runs it; passed: it raises nothing. Returns
    the exit code."""
    passed = failed = 0
    user = User(options.build, options.as_nobody)
    for name, make, case in cases:
        if options.only not in name:
            continue
        began = time.monotonic()
        lab = None
        try:
            lab = make(user)
            case(lab)
            passed += 1
            print(f"ok    {time.monotonic() - began:6.1f}s  {name}", flush=True)
        except Exception:  # any: the others still run
            failed += 1
            print(f"FAIL  {time.monotonic() - began:6.1f}s  {name}\n{traceback.format_exc()}", flush=True)
        finally:
            if lab is not None:
                lab.down()
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1
