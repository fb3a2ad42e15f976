"""A network namespace with one interface eth0 (10.0.0.1), a root's view of its own places for temporary files, and
`brdma check` in it. The script runs again inside (`enter`); its process namespace ends all that it started."""

import argparse
import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

BUILD = "/mnt"  # where the build is visible inside
BRDMA = f"{BUILD}/bin/brdma"
RUN = "/tmp/run"
SKIPPED = 77  # as ctest knows it

# UDP port 4791 in an IPv4 packet behind an Ethernet header, for tc's bpf: the steps that lead to `then`, else "pass".
TO_PORT = ["40 0 0 12", "21 0 {} 2048", "48 0 0 23", "21 0 {} 17", "177 0 0 14", "72 0 0 16", "21 0 {} 4791"]
DROP = ["6 0 0 2"]
DROP_5_PERCENT = ["32 0 0 4294963256", "37 1 0 214748364", "6 0 0 2"]
DROP_LONG = ["128 0 0 0", "37 0 1 1514", "6 0 0 2"]


class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


def shell(command):
    done = subprocess.run(["bash", "-c", "set -e; " + command], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"{command}: {done.stderr}")
    return done.stdout


def byte_code(then):
    """tc's form of the program."""
    end = len(TO_PORT) + len(then)  # the instruction that passes
    steps = [step.format(end - at - 1) for at, step in enumerate(TO_PORT)] + then + ["6 0 0 0"]
    return f"{len(steps)}," + ",".join(steps)


def filter_packets(interface, then, prefix=""):
    """What arrives at the interface for port 4791 meets `then`."""
    shell(f"{prefix} tc qdisc add dev {interface} clsact; {prefix} tc filter add dev {interface} ingress protocol ip bpf da bytecode '{byte_code(then)}'")


def found(report, key):
    return next((one for one in report["findings"] if one["key"] == key), None)


def keys(report, severity=None):
    return {one["key"] for one in report["findings"] if severity in (None, one["severity"])}


def named(report, key, severity, words=()):
    """The finding is there, with this severity and these words, and no other error is."""
    finding = found(report, key)
    expect(finding is not None, f"not named: {key}; but {report['findings']}")
    expect(finding["severity"] == severity, f"{key} is no {severity}: {finding}")
    others = keys(report, "error") - {key}
    expect(not others, f"besides {key} also {others}: {report['findings']}")
    for word in words:
        expect(word in finding["what"] + finding["next"], f"'{word}' is not in {finding}")


# --- seccomp: system calls refused with EPERM, in this process and its children ---
NUMBERS = {"x86_64": {"arch": 0xC000003E, "socket": 41, "setsockopt": 54, "memfd_create": 319, "process_vm_readv": 310},
           "aarch64": {"arch": 0xC00000B7, "socket": 198, "setsockopt": 208, "memfd_create": 279, "process_vm_readv": 270}}


def refuse(call, argument=None, values=()):
    """Refuses `call`; with `argument` (its number) only where that is one of `values`."""
    numbers = NUMBERS[os.uname().machine]

    def step(code, yes, no, value):
        return struct.pack("HBBI", code, yes, no, value)

    tail = [step(0x15, len(values) - i, 0, value) for i, value in enumerate(values)]
    matching = [step(0x20, 0, 0, 16 + 8 * argument), *tail, step(0x06, 0, 0, 0x7FFF0000)] if argument is not None else []
    program = [step(0x20, 0, 0, 4), step(0x15, 1, 0, numbers["arch"]), step(0x06, 0, 0, 0x7FFF0000), step(0x20, 0, 0, 0),
               step(0x15, 1, 0, numbers[call]), step(0x06, 0, 0, 0x7FFF0000), *matching, step(0x06, 0, 0, 0x00050001)]
    code = ctypes.create_string_buffer(b"".join(program))

    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    wanted = Filter(len(program), ctypes.cast(code, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    expect(libc.prctl(38, ctypes.c_ulong(1), zero, zero, zero) == 0, "PR_SET_NO_NEW_PRIVS")
    expect(libc.prctl(22, ctypes.c_ulong(2), ctypes.byref(wanted), zero, zero) == 0, f"PR_SET_SECCOMP: {ctypes.get_errno()}")


class World:
    """One namespace; `prefix` enters another one's."""

    def __init__(self):
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp/home", "XDG_RUNTIME_DIR": RUN, "BRDMA_IDLE_SECONDS": "1"}
        self.prefix, self.brdma = [], BRDMA
        self.peer = None

    def command(self, *words, **options):
        return subprocess.run([*self.prefix, self.brdma, *words], capture_output=True, text=True, env=self.environment, check=False, timeout=110, **options)

    def check(self, *words, **options):
        """The report; its exit code fits its findings."""
        done = self.command("check", "-j", *words, **options)
        expect(done.returncode in (0, 1) and done.stdout, f"exit code {done.returncode}: {done.stdout}{done.stderr}")
        report = json.loads(done.stdout)
        errors = [one for one in report["findings"] if one["severity"] == "error"]
        expect(done.returncode == (1 if errors else 0) and report["ok"] == (not errors), f"exit code {done.returncode} with {errors}")
        for one in report["findings"]:
            expect(one["what"] and one["next"], f"a finding without a next step: {one}")
        return report


def make_world():
    shell(f"mkdir -p {RUN} /tmp/home/.config; chmod 700 {RUN}; ip link set lo up")
    return World()


def make_interface(world, mtu=9000):
    """eth0, whose other end is in a namespace of its own: world.peer."""
    other = subprocess.Popen(["unshare", "--net", "bash", "-c", "ip link set lo up; echo ready; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    expect(other.stdout.readline() == "ready\n", "no second namespace")
    enter = f"nsenter --net --target {other.pid}"
    shell(f"ip link add eth0 mtu {mtu} type veth peer name eth0 netns {other.pid}; ip address add 10.0.0.1/24 dev eth0; ip link set eth0 up;"
          f"{enter} ip address add 10.0.0.2/24 dev eth0; {enter} ip link set eth0 mtu {mtu} up")
    for prefix in ("", enter + " "):  # the kernel sees the carrier some time later
        shell(f"timeout 10 bash -c 'until {prefix}ip link show eth0 | grep -q \"state UP\"; do sleep 0.02; done'")
    peer = World()
    peer.prefix = enter.split()
    world.peer, world.other, world.enter = peer, other, enter


def namespaces(as_nobody):
    own = [] if os.geteuid() == 0 and not as_nobody else ["--user", "--map-root-user"]
    return ["unshare", *own, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def for_nobody(build, place):
    """The programs and these scripts where user nobody can reach them: the script's path there."""
    os.chmod(place, 0o755)
    for name in ("bin/brdma", "bin/brdmad", "bin/brdma-switch", "lib/libbitmaprdma.so"):
        os.makedirs(os.path.dirname(f"{place}/{name}"), exist_ok=True)
        shutil.copy(f"{build}/{name}", f"{place}/{name}")
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in os.listdir(folder):
        if name.endswith(".py"):
            shutil.copy(f"{folder}/{name}", place)
    return f"{place}/{os.path.basename(sys.argv[0])}"


NOBODY = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]


def enter(build, script, words, as_nobody, seconds=240):
    """Runs the script with `words` in namespaces of its own. The build is visible below /mnt, and /tmp and /dev/shm
    are new and empty."""
    user = NOBODY if as_nobody else []
    # Root's own Python may lie where nobody can enter.
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") if as_nobody else sys.executable
    mounts = f"mount --rbind '{os.path.abspath(build)}' /mnt; mount -t tmpfs tmpfs /dev/shm; exec \"$@\""
    command = [*user, *namespaces(as_nobody), "bash", "-e", "-c", mounts, "enter", python, "-c", INSIDE, script, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)


# The scripts may lie below /tmp: they are read before it is covered.
INSIDE = """
import os, runpy, subprocess, sys
script = sys.argv[1]
folder = os.path.dirname(script)
sys.path.insert(0, folder)
import world
with open(script, encoding="utf-8") as file:
    code = compile(file.read(), script, "exec")
os.chdir("/")
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/tmp"], check=True)
sys.argv = sys.argv[1:]
exec(code, {"__name__": "__main__", "__file__": script})
"""


def run_cases(cases, description):
    """`cases`: name -> function of a World. Each runs in namespaces of its own; last line: `N passed, M failed`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--as-nobody", action="store_true", help="when root: run as user nobody, in a user namespace")
    parser.add_argument("--inside", default="")
    options = parser.parse_args()
    if options.inside:
        try:
            cases[options.inside](make_world())
            return 0
        except (Failure, subprocess.TimeoutExpired) as problem:
            print(problem, flush=True)
            return 1
    if options.list:
        print("\n".join(cases))
        return 0
    chosen = [name for name in options.only.split(",") if name] or list(cases)
    with tempfile.TemporaryDirectory(prefix="brdma-check-") as place:
        as_nobody = options.as_nobody and os.geteuid() == 0
        script = for_nobody(options.build, place) if as_nobody else os.path.abspath(sys.argv[0])
        return run_outside(chosen, place if as_nobody else options.build, script, as_nobody)


def run_outside(chosen, build, script, as_nobody):
    passed = failed = skipped = 0
    for name in chosen:
        done = enter(build, script, ["--inside", name], as_nobody)
        good = done.returncode == 0
        if done.returncode == SKIPPED:
            skipped += 1
            print(f"SKIP  {name}: {done.stdout}", end="", flush=True)
            continue
        passed, failed = passed + good, failed + (not good)
        print(f"ok    {name}" if good else f"FAIL  {name}\n{done.stdout}{done.stderr}", flush=True)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    if not passed and not failed and skipped:
        return SKIPPED
    return 0 if failed == 0 and passed > 0 else 1
