"""A copy of the tree, built once: one mutation at a time is applied there, built and tried.

What keeps a mutation cheap: -O1 without debug information, changed objects alone are compiled (those of the mutation
before come back from ccache), and a program that the mutation does not change is not run.
"""
import concurrent.futures
import filecmp
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys

from programs import QUICK, SLOW

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
COPY = os.path.join(ROOT, os.environ.get("BRDMA_BUILD_DIR", "build") + "-mutation")
SEEDS = 300
WORLDS = "sim_worlds"
FLAGS = "-O1 -DNDEBUG"  # checks of our own are in every build
# CPU time of a program, many times its usual one: some mutations never end. A busy machine does not count.
SECONDS_QUICK, SECONDS_SLOW, SECONDS_WORLDS = 10, 120, 60
DOES_NOT_END = (124, -signal.SIGKILL)


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def place(mutation, root=ROOT):
    return os.path.join(root, "libbitmaprdma", mutation[1])


def mutated(mutation, text):
    """The file's text with the mutation; None where that finds no place."""
    for old, new in mutation[2].items():
        if text.count(old) != 1:
            return None
        text = text.replace(old, new)
    return text


def command(*words, seconds=1800):
    try:
        done = subprocess.run(words, cwd=COPY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        return done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as expired:
        return 124, (expired.stdout or b"").decode(errors="replace")


def configure():
    linker = ["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld"] if shutil.which("ld.lld") else []
    code, output = command("cmake", "-S", "src", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Mutation",
                           f"-DCMAKE_CXX_FLAGS_MUTATION={FLAGS}", f"-DCMAKE_C_FLAGS_MUTATION={FLAGS}", "-DBRDMA_TESTS=ON", *linker)
    return "" if code == 0 else output


def build(programs):
    """What the compiler says where it fails."""
    code, output = command("cmake", "--build", "build", "-j", str(os.cpu_count()), "--target", *programs)
    return "" if code == 0 else output


def path_of(program):
    return os.path.join("build", "bin", program)


def digest(program):
    with open(os.path.join(COPY, path_of(program)), "rb") as file:
        return hashlib.sha256(file.read()).digest()


def cell(text):
    text = text.replace(os.path.join(COPY, "src") + "/", "")  # assertions name files by where the copy lies
    return re.sub(r"\s+", " ", text).replace("|", "/").strip()[:110]


def of_worlds(code, output):
    """What the simulated worlds find; empty: nothing."""
    if code == 0:
        return ""
    first = re.search(r"^seed (\d+) failed.*\n  (.*)", output, re.M)
    where = f"seed {first.group(1)}: {cell(first.group(2))}" if first else cell(output[-110:])
    failed = re.search(r"seeds, (\d+) failed", output)
    if failed:
        return f"{failed.group(1)} of {SEEDS}; {where}"
    return ("do not end; " if code in DOES_NOT_END else "break off; ") + where


def of_test(name, code, output):
    """The first test of the program that fails; empty: none."""
    if code == 0:
        return ""
    failed = re.findall(r"^\[  FAILED  \] (\w[\w./]+)", output, re.M)
    started = re.findall(r"^\[ RUN      \] (\S+)", output, re.M)
    return failed[0] if failed else f"{started[-1] if started else name} ({'does not end' if code in DOES_NOT_END else 'breaks off'})"


def run(program):
    seconds = SECONDS_WORLDS if program == WORLDS else SECONDS_SLOW if program in SLOW else SECONDS_QUICK
    arguments = ["--seeds", str(SEEDS)] if program == WORLDS else ["--gtest_fail_fast"]
    code, output = command("prlimit", f"--cpu={seconds}", path_of(program), *arguments)
    return program, code, output


def copy_if_changed(source, target):
    """With a new time where it has changed, by whatever (a mutation that a broken-off run left behind), so that it is built."""
    if not os.path.exists(target) or not filecmp.cmp(source, target, shallow=False):
        shutil.copyfile(source, target)
        shutil.copymode(source, target)


def synchronise(source, target):
    os.makedirs(target, exist_ok=True)
    for name in set(os.listdir(target)) - set(os.listdir(source)):
        gone = os.path.join(target, name)
        shutil.rmtree(gone) if os.path.isdir(gone) else os.remove(gone)
    for entry in os.scandir(source):
        to = os.path.join(target, entry.name)
        synchronise(entry.path, to) if entry.is_dir() else copy_if_changed(entry.path, to)


class NotBuilt(Exception):
    """What the compiler says."""


class BrokenTree:
    """Built, and without a mutation nothing fails."""

    def __init__(self):
        to = os.path.join(COPY, "src")
        for folder in ("libbitmaprdma", "provider", "utils", "tests", "docs"):
            synchronise(os.path.join(ROOT, folder), os.path.join(to, folder))
        copy_if_changed(os.path.join(ROOT, "CMakeLists.txt"), os.path.join(to, "CMakeLists.txt"))
        self._pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
        programs = [WORLDS, *QUICK, *SLOW]
        failure = configure() or build(programs)
        if failure:
            sys.exit(f"mutation: the unbroken engine does not build\n{failure[-2000:]}")
        self._unbroken = {program: digest(program) for program in programs}
        wrong = [program for program, code, _ in self._pool.map(run, programs) if code != 0]
        if wrong:
            sys.exit(f"mutation: the unbroken engine fails: {' '.join(wrong)}")

    def _findings(self, programs):
        """Of those that are not what they are without the mutation: what the worlds find, which tests fail."""
        failure = build(programs)
        if failure:
            raise NotBuilt(failure[-2000:])
        changed = [program for program in programs if digest(program) != self._unbroken[program]]
        found, caught = "", []
        for program, code, output in self._pool.map(run, changed):
            if program == WORLDS:
                found = of_worlds(code, output)
            elif code != 0:
                caught.append(of_test(program, code, output))
        return found, caught

    def try_out(self, mutation):
        """Simulated worlds' finding, or empty; tests that fail, one a program."""
        path = place(mutation, os.path.join(COPY, "src"))
        original = read(path)
        write(path, mutated(mutation, original))
        try:
            found, caught = self._findings([WORLDS, *QUICK])
            return (found, caught) if found or caught else self._findings(SLOW)
        finally:
            write(path, original)
