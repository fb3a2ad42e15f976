"""For scripts whose cases need one host and no network but the loopback interface: runs the script again in a network
namespace of its own, as the caller or, if that is root, as `nobody`, with copies of the files that user has to reach."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
NOBODY = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR"]
PROGRAMS = ("bin/brdma", "bin/brdmad", "bin/brdma-metrics", "bin/brdma-switch", "lib/libbitmaprdma.so")
SKIPPED = 77


class Skip(Exception):
    """A case cannot run here; the reason."""


def add_options(parser):
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="", help="run only the cases whose name holds this text")
    parser.add_argument("--as-nobody", action="store_true", help="when root: run as user nobody, in a user namespace")
    parser.add_argument("--inside", action="store_true", help="it runs in its namespace already")


def copy_for_nobody(home, build, files):
    """The tree of `files`, relative to the checkout, and the programs, below `home`."""
    os.chmod(home, 0o755)
    for name in files:
        source, target = os.path.join(ROOT, name), os.path.join(home, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, target)
    for name in PROGRAMS:
        if os.path.exists(os.path.join(build, name)):
            os.makedirs(os.path.dirname(os.path.join(home, "build", name)), exist_ok=True)
            shutil.copy(os.path.join(build, name), os.path.join(home, "build", name))
    os.mkdir(os.path.join(home, "home"), 0o700)
    shutil.chown(os.path.join(home, "home"), "nobody")


def enter(options, script, files, seconds):
    """Runs the script again, inside. Its exit code."""
    again, root, home = [], ROOT, tempfile.mkdtemp(prefix="brdma-own-", dir="/tmp")
    try:
        build = os.path.realpath(options.build)
        words = ["unshare", "--net", "--kill-child"]
        if os.geteuid() != 0 or options.as_nobody:
            words[1:1] = ["--user", "--map-root-user"]
        if os.geteuid() == 0 and options.as_nobody:
            copy_for_nobody(home, build, [*files, os.path.dirname(script), "tests/e2e/own_network.py"])
            root, build, again = home, os.path.join(home, "build"), [*NOBODY, f"HOME={home}/home"]
        environment = {**os.environ, "BRDMA_IDLE_SECONDS": "2", "TMPDIR": os.path.join(home, "home") if again else home}
        command = [*again, *words, "python3", os.path.join(root, script), "--inside", "--build", build, "--only", options.only]
        return subprocess.run(command, env=environment, cwd="/", timeout=seconds, check=False).returncode
    finally:
        shutil.rmtree(home, ignore_errors=True)


def run_cases(options, cases):
    """Functions, each with the build's folder; passed: it raises nothing. Returns the exit code."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    passed = failed = skipped = 0
    for case in cases:
        if options.only not in case.__name__:
            continue
        began = time.monotonic()
        try:
            case(options.build)
            passed += 1
            print(f"ok    {time.monotonic() - began:6.1f}s  {case.__name__}", flush=True)
        except Skip as reason:
            skipped += 1
            print(f"skip           {case.__name__}: {reason}", flush=True)
        except Exception:  # any: the others still run
            failed += 1
            print(f"FAIL  {time.monotonic() - began:6.1f}s  {case.__name__}\n{traceback.format_exc()}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    if failed == 0 and passed == 0 and skipped > 0:
        return SKIPPED
    return 0 if failed == 0 and passed > 0 else 1


def main(options, script, files, cases, seconds=300):
    return run_cases(options, cases) if options.inside else enter(options, script, files, seconds)


def output_of(command, seconds=60, code=0, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds, check=False, **options)
    assert done.returncode == code, f"{' '.join(command)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}"
    return done.stdout


def needs(program):
    if shutil.which(program) is None:
        raise Skip(f"{program} is not installed")
    return program


if __name__ == "__main__":
    sys.exit("no script of its own")
