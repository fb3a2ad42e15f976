#!/usr/bin/env python3
"""What a runner does with .github/actions/setup-rdma, and with utils/packaging/ci/gitlab.yml, in an Ubuntu 24.04 root:
the action's `run:` steps, in their order, with inputs, conditions, outputs and GITHUB_ENV, then a job's test under `brdma
run`. As root. Last line: `N passed, M failed`.

    ci.py --build BUILD [--root DIR] [--source]

The action gets a package, which is made from BUILD's programs: its files are those of `cmake --install`, and libraries
that Ubuntu has in another version are put beside them. --source: the action builds the checkout instead (minutes).
--root: an existing root (tests/systems/make_root); it is not changed. Steps that install use the machine's network, for the
archive; all others have a network of their own, with `lo` and one interface.
"""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import yaml

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
ACTION = ".github/actions/setup-rdma"
WORKSPACE = "/home/runner/work"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Ubuntu 24.04 has other releases of these: their sonames differ.
OTHER_RELEASE = {"libspdlog1.10": "libspdlog.so.1.10"}

ENTER = """
set -e
root=$1 script=$2
shift 2
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mkdir -p "$root/run/before"
cd "$root"
pivot_root . run/before
umount -l /run/before
cd "$WORKDIR"
exec bash --noprofile --norc -eo pipefail "$script"
"""


class Runner:
    """A machine that steps run on one after another; what they write stays for the next."""

    def __init__(self, base, folder):
        self.folder = pathlib.Path(folder)
        self.root, self.count = self.folder / "root", 0
        for name in ("root", "upper", "work"):
            (self.folder / name).mkdir()
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={base},upperdir={folder}/upper,workdir={folder}/work", self.root], check=True)
        self.job_environment = {}
        (self.root / WORKSPACE.lstrip("/")).mkdir(parents=True)
        shutil.copytree("/etc/apt/apt.conf.d", self.root / "etc/apt/apt.conf.d", dirs_exist_ok=True)

    def path(self, inside):
        return self.root / inside.lstrip("/")

    def step(self, script, environment, network, code=0):
        """As a runner does: a file, run by bash with errexit and pipefail; then GITHUB_ENV and GITHUB_OUTPUT are read."""
        self.count += 1
        names = {key: f"/tmp/step{self.count}.{key}" for key in ("script", "GITHUB_ENV", "GITHUB_OUTPUT")}
        for key, name in names.items():
            self.path(name).write_text(script if key == "script" else "", encoding="utf-8")
        env = {"PATH": PATH, "HOME": "/root", "CI": "true", "GITHUB_WORKSPACE": WORKSPACE, "WORKDIR": WORKSPACE, "TERM": "dumb", "BRDMA_IDLE_SECONDS": "1"}
        # The job's variables are those of its steps, not of what enters the root.
        own = {**self.job_environment, **environment}
        env.update({key: value for key, value in names.items() if key != "script"})
        exported = "".join(f"export {key}={quoted(value)}\n" for key, value in own.items())
        self.path(names["script"]).write_text(exported + script, encoding="utf-8")
        spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *(["--net"] if not network else [])]
        prepare = "" if network else "ip link set lo up; ip link add eth0 type veth peer name far0; ip link set far0 up; ip link set eth0 up; ip address add 10.0.0.1/24 dev eth0\n"
        began = time.monotonic()
        done = subprocess.run([*spaces, "bash", "-c", prepare + ENTER, "runner", str(self.root), names["script"]], capture_output=True, text=True, env=env, check=False, timeout=1800)
        seconds = time.monotonic() - began
        if done.returncode != code:
            raise RuntimeError(f"exit code {done.returncode}, not {code}, of:\n{script}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        self.job_environment.update(pairs_of(self.path(names["GITHUB_ENV"]).read_text(encoding="utf-8")))
        return pairs_of(self.path(names["GITHUB_OUTPUT"]).read_text(encoding="utf-8")), done.stdout + done.stderr, seconds


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def pairs_of(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


class Action:
    """The action's file, and the values of its expressions."""

    def __init__(self, runner, place):
        self.runner, self.place = runner, place
        self.file = yaml.safe_load(runner.path(f"{place}/action.yml").read_text(encoding="utf-8"))
        assert self.file["runs"]["using"] == "composite", self.file["runs"]
        self.outputs = {}

    def value(self, text, inputs):
        def of(match):
            expression = match[1].strip()
            comparison = re.fullmatch(r"(\S+) == '([^']*)'", expression)
            if comparison:
                return "true" if self.value("${{ %s }}" % comparison[1], inputs) == comparison[2] else "false"
            if expression == "github.action_path":
                return self.place
            kind, _, name = expression.partition(".")
            if kind == "inputs":
                return inputs[name]
            step = re.fullmatch(r"steps\.(\w+)\.outputs\.(\w+)", expression)
            if step:
                return self.outputs[step[1]][step[2]]
            raise RuntimeError(f"no value for {expression}")

        return re.sub(r"\$\{\{(.*?)\}\}", of, text)

    def run(self, wanted):
        unknown = wanted.keys() - self.file["inputs"].keys()
        assert not unknown, unknown
        inputs = {name: wanted.get(name, one["default"]) for name, one in self.file["inputs"].items()}
        said, took = "", {}
        for step in self.file["runs"]["steps"]:
            if "if" in step and self.value(step["if"], inputs) != "true":
                continue
            assert step["shell"] == "bash", step
            environment = {key: self.value(value, inputs) for key, value in step.get("env", {}).items()}
            outputs, text, seconds = self.runner.step(self.value(step["run"], inputs), environment, step["name"] == "Install")
            self.outputs[step.get("id", step["name"])] = outputs
            said += text
            took[step["name"]] = seconds
        return {name: self.value(one["value"], inputs) for name, one in self.file["outputs"].items()}, said, took


def make_package(build, folder):
    """A package of the build's programs, below /usr/local."""
    tree = pathlib.Path(folder, "package")
    subprocess.run(["bash", CHECKOUT / "utils/packaging/container/stage", build, tree], check=True)
    needed = (tree / "usr/local/share/bitmaprdma/packages").read_text(encoding="utf-8").split()
    for package, library in OTHER_RELEASE.items():
        if package in needed:
            found = subprocess.run(["sh", "-c", f"ldconfig -p | awk '/{library} / {{ print $NF; exit }}'"], capture_output=True, text=True, check=True).stdout.strip()
            shutil.copy(os.path.realpath(found), tree / "usr/local/lib" / library)
    depends = ", ".join(name for name in needed if name not in OTHER_RELEASE)
    (tree / "DEBIAN").mkdir()
    control = f"Package: bitmaprdma\nVersion: 0.1\nArchitecture: amd64\nMaintainer: nobody <nobody@example.invalid>\nDepends: {depends}\nDescription: a trial\n"
    (tree / "DEBIAN/control").write_text(control, encoding="utf-8")
    (tree / "DEBIAN/postinst").write_text("#!/bin/sh\nldconfig\n", encoding="utf-8")
    (tree / "DEBIAN/postinst").chmod(0o755)
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", "-Zgzip", tree, f"{folder}/bitmaprdma.deb"], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return f"{folder}/bitmaprdma.deb"


def expect(condition, text):
    if not condition:
        raise RuntimeError(text)


def copy_checkout(runner, place):
    """The files of this tree that git has."""
    runner.path(place).mkdir(parents=True)
    files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, cwd=CHECKOUT, check=True).stdout
    listed = b"\0".join(name for name in files.split(b"\0") if name and (CHECKOUT / name.decode()).exists())
    tar = subprocess.run(["tar", "--null", "-T", "-", "-c"], input=listed, capture_output=True, cwd=CHECKOUT, check=True).stdout
    subprocess.run(["tar", "-x", "-C", runner.path(place)], input=tar, check=True)


def the_action(runner, package):
    place = f"{WORKSPACE}/_actions/libbitmaprdma"
    copy_checkout(runner, place)
    action = Action(runner, f"{place}/{ACTION}")
    inputs = {"enable": "true"}
    if package:
        shutil.copy(package, runner.path("/tmp/bitmaprdma.deb"))
        inputs |= {"package": "/tmp/bitmaprdma.deb", "sha256": hashlib.sha256(pathlib.Path(package).read_bytes()).hexdigest()}
    outputs, said, took = action.run(inputs)
    print("      " + ", ".join(f"{name}: {seconds:.1f} s" for name, seconds in took.items()), flush=True)
    expect(re.search(r"setup-rdma: brdma_\w+ works: [0-9.]+ MB/s", said), said)
    expect(outputs["library"] == "/usr/local/lib/libbitmaprdma.so", outputs)
    # Later steps of the job: enabled, and by brdma run.
    _, seen, _ = runner.step("ibv_devices", {}, False)
    expect("brdma_eth0" in seen, f"not enabled for later steps: {seen}")
    del runner.job_environment["LD_PRELOAD"]
    _, seen, _ = runner.step("! ibv_devices 2>&1 | grep brdma_ && brdma run -- ibv_devinfo", {}, False)
    expect("hca_id:\tbrdma_eth0" in seen, seen)


def mistakes_are_named(runner, package):
    place = f"{WORKSPACE}/_actions/libbitmaprdma/{ACTION}"
    install = f"bash {place}/../../../utils/packaging/ci/install"
    for variables, words in (({"SETUP_RDMA_PACKAGE": "/none.deb"}, "no package /none.deb"), ({"SETUP_RDMA_PACKAGE": "https://example.invalid/x.deb"}, "sha256")):
        _, said, _ = runner.step(install, variables, False, code=2)
        expect(words in said, said)
    if package:
        _, said, _ = runner.step(install, {"SETUP_RDMA_PACKAGE": "/tmp/bitmaprdma.deb", "SETUP_RDMA_SHA256": "0" * 64}, False, code=1)
        expect("FAILED" in said, said)
    # A device that cannot be used is not called one that works.
    check = f"ip link set lo down; ip link delete eth0; bash {place}/../../../utils/packaging/ci/check"
    _, said, _ = runner.step(check, {}, False, code=1)
    expect("setup-rdma:" in said and "works" not in said, said)


def the_gitlab_job(runner, package):
    """Its before_script, but for the clone, which this tree's files replace; then the job."""
    file = yaml.safe_load((CHECKOUT / "utils/packaging/ci/gitlab.yml").read_text(encoding="utf-8"))
    job = file[".rdma"]
    shutil.copytree(runner.path(f"{WORKSPACE}/_actions/libbitmaprdma"), runner.path("/tmp/setup-rdma"))
    variables = {**job["variables"], **({"SETUP_RDMA_PACKAGE": "/tmp/bitmaprdma.deb"} if package else {})}
    lines = [line for line in job["before_script"] if not line.startswith("git clone")]
    expect(len(lines) == len(job["before_script"]) - 1, job["before_script"])
    for line in lines:
        _, said, _ = runner.step(line, variables, not line.endswith("/check"))
    expect("works" in said, said)
    _, seen, _ = runner.step("brdma run -- ibv_devinfo", variables, False)
    expect("PORT_ACTIVE" in seen, seen)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--root")
    parser.add_argument("--source", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.build = os.path.realpath(options.build)
    if os.geteuid() != 0:
        print("ci: SKIPPED: it needs root for a root of Ubuntu")
        return 77
    root = os.path.realpath(options.root or options.build + "-ci/ubuntu-24.04")
    if not options.inside:
        if not os.path.exists(root + "/.complete"):
            subprocess.run(["bash", CHECKOUT / "tests/systems/make_root", "ubuntu-24.04", root], check=True)
        folder = tempfile.mkdtemp(prefix="brdma-ci-", dir=os.path.dirname(root))
        try:
            words = [sys.executable, __file__, *sys.argv[1:], "--inside", folder]
            return subprocess.run(["unshare", "--mount", "--propagation", "private", *words], check=False).returncode
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    passed = failed = 0
    package = None if options.source else make_package(options.build, options.inside)
    runner = Runner(root, options.inside)
    for name, case in (("the action", lambda: the_action(runner, package)), ("mistakes are named", lambda: mistakes_are_named(runner, package)),
                       ("the job of GitLab", lambda: the_gitlab_job(runner, package))):
        try:
            case()
            print(f"ok    {name}", flush=True)
            passed += 1
        except (RuntimeError, subprocess.SubprocessError) as problem:
            print(f"FAIL  {name}: {problem}", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
