#!/usr/bin/env python3
"""A build works at any place: each case shows the build at another place, in a mount namespace of its own, and runs
programs from there: as root or not, like the caller. Last line: `N passed, M failed`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import programs

TIMEOUT_SECONDS = 60
# The place of the build, below a new directory, and the method; the case's name has the reason.
PLACES = {
    "a_path_with_a_space": ("my projects/build", "rbind"),
    "a_symbolic_link": ("link to it/build", "link"),
    "read_only": ("build", "rbind,ro"),
    "below_tmp": ("build", "rbind"),
    "a_home_like_on_nfs": ("home/user/build", "fuse"),  # a file system of one user: root, too, sees nothing in it
    "a_path_with_a_colon": ("my:projects/build", "rbind"),
}


def inside(place, how, build):
    """In the namespaces: shows the build at the place; returns the command that runs `brdma` from there."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if how == "link":
        os.makedirs(os.path.dirname(place))
        os.symlink(build, place)
    elif how == "fuse":
        os.makedirs(place)
        subprocess.run(["bindfs", "--no-allow-other", build, place], check=True)  # stays in the background until it is unmounted
    else:
        os.makedirs(place)
        subprocess.run(["mount", "--rbind", build, place], check=True)
        if "ro" in how:
            subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
    return os.path.join(place, "bin", "brdma")


def expect(command, text, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, **options)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and text in said, f"{command}: exit code {done.returncode}, without '{text}':\n{said[-3000:]}"


def programs_run(brdma):
    alone = {**os.environ, "BRDMA_IDLE_SECONDS": "1", "BRDMA": brdma}
    environment = {**alone, "BRDMA_LO": "1"}
    expect([brdma, "run", "--", "ibv_devinfo"], "brdma_lo", env=environment)
    # A program that starts others, and one whose own library path is kept.
    expect([brdma, "run", "--", "sh", "-c", "ibv_devinfo && echo $LD_LIBRARY_PATH"], "/elsewhere", env={**environment, "LD_LIBRARY_PATH": "/elsewhere"})
    expect(["sh", "-c", 'variables=$("$BRDMA" env) && eval "$variables" && exec ibv_devinfo'], "brdma_lo", env=environment)
    expect([brdma, "run", "--namespace", "--", "env", "-i", "ibv_devinfo"], "brdma_lo", env=environment)
    expect([brdma, "lab", "pair", "--loss", "1%", "--", "ibv_rc_pingpong", "-g", "1", "-n", "200"], "iters in", env=alone)
    expect([brdma, "lab", "pair", "--topology", "parallel", "--", "ib_write_bw", programs.ANY_CLOCK, "-n", "20"], "BW average", env=alone)


def refused(brdma):
    """The loader cannot name a file below such a path: that is reported before a program looks for devices."""
    done = subprocess.run([brdma, "run", "--", "ibv_devinfo"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert done.returncode == 126 and "its path has a ':'" in done.stderr, (done.returncode, done.stdout, done.stderr)


def in_namespaces(options, name):
    """Runs this script again in a network and a mount namespace; without root in a user namespace as well."""
    namespaces = ["--net", "--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net", "--mount"]
    with tempfile.TemporaryDirectory(prefix="brdma-place-", dir="/tmp") as directory:
        command = ["unshare", *namespaces, "--kill-child", sys.executable, __file__, "--build", options.build, "--inside", name, "--directory", directory]
        return subprocess.run(command, timeout=8 * TIMEOUT_SECONDS, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--inside", choices=PLACES, help=argparse.SUPPRESS)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.build = os.path.realpath(options.build)
    if options.inside:
        place, how = PLACES[options.inside]
        place = os.path.join(options.directory, place)
        brdma = inside(place, how, options.build)
        try:
            refused(brdma) if ":" in place else programs_run(brdma)
        finally:
            if how == "fuse":
                subprocess.run(["umount", "--lazy", place], check=True)
        return 0
    passed = failed = 0
    for name in PLACES:
        if options.only not in name:
            continue
        if "fuse" in PLACES[name] and not (shutil.which("bindfs") and os.access("/dev/fuse", os.W_OK)):
            print(f"{name}: SKIPPED, it needs bindfs and /dev/fuse")
            return 77
        code = in_namespaces(options, name)
        passed, failed = (passed + 1, failed) if code == 0 else (passed, failed + 1)
        print(f"{'ok   ' if code == 0 else 'FAIL '} {name}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
