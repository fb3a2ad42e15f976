#!/usr/bin/env python3
"""The container image: built by Buildah from utils/packaging/container/Containerfile, and run by Podman as pages say, under
the confinement of several engines. As root, without a daemon; a registry is not asked. Last line: `N passed, M failed`.

    containers.py --build BUILD [--only TEXT]

The base is a bare Debian (mmdebstrap; kept in BUILD-containers/bare.tar). The stage that compiles is replaced: BUILD's
programs are installed into an image, which the argument PROGRAMS names. All else of the Containerfile is run.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import engine as engines
from engine import CHECKOUT, IMAGE, NOBODY, Engine

LOOPBACK = "--network none"
STRICT = f"{LOOPBACK} --cap-drop=all --read-only --security-opt no-new-privileges --user {NOBODY}"
# A server in the background, and the same program as a client, once the server listens.
PAIR = """ib_write_bw -F -n 200 >/tmp/server 2>&1 & server=$!
until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done
ib_write_bw -F -n 200 127.0.0.1 && wait $server"""
RESULT = "65536      200"


def expect(condition, text):
    if not condition:
        raise RuntimeError(text)


class Cases:
    def __init__(self, folder):
        self.folder = folder
        self.root = Engine(folder)
        docker = " ".join(f"--cap-add {name}" for name in engines.DOCKER_CAPABILITIES)
        self.filtered = f"{LOOPBACK} --security-opt seccomp={folder}/docker.json"
        self.docker = f"{self.filtered} --cap-drop=all {docker}"

    def pair(self, options, user=None):
        out = (user or self.root).run(options, "sh", "-c", PAIR)
        expect(RESULT in out, f"{options}: no result:\n{out}")

    # --- programs ---
    def the_image_says_what_it_is(self):
        out = self.root.run(LOOPBACK)
        expect("hca_id:\tbrdma_lo" in out and "PORT_ACTIVE" in out, out)
        size = int(self.root.call("podman", "image", "inspect", "-f", "{{.Size}}", IMAGE).stdout)
        base = int(self.root.call("podman", "image", "inspect", "-f", "{{.Size}}", "localhost/brdma-base:test").stdout)
        print(f"      image: {size / 1e6:.0f} MB, of which its base {base / 1e6:.0f} MB", flush=True)
        expect(size - base < 150e6, f"{(size - base) / 1e6:.0f} MB more than its base")

    def confined_as_by_docker(self):
        expect("00000000a80425fb" in self.root.run(self.docker, "grep", "CapEff", "/proc/self/status"), "other capabilities than Docker's")
        expect("ermitted" in self.root.run(self.docker, "unshare", "--user", "true", code=1), "the profile is not in force")
        self.pair(self.docker)

    def without_any_capability_and_read_only(self):
        expect("CapEff:\t0000000000000000" in self.root.run(STRICT, "grep", "CapEff", "/proc/self/status"), "it has capabilities")
        expect("Read-only" in self.root.run(STRICT, "touch", "/usr/x", code=1), "it is not read-only")
        self.pair(f"{STRICT} --security-opt seccomp={self.folder}/docker.json")
        # Without a place in /tmp device files go to /dev/shm.
        out = self.root.run(f"{STRICT} --read-only-tmpfs=false", "ibv_devices")
        expect("brdma_lo" in out, out)

    def rootless(self):
        archive = f"{self.folder}/image.tar"
        self.root.call("podman", "save", "-q", "-o", archive, IMAGE, seconds=900)
        os.chown(archive, NOBODY, NOBODY)
        user = Engine(self.folder, NOBODY)
        user.call("podman", "load", "-q", "-i", archive, seconds=900)
        os.unlink(archive)
        self.pair(LOOPBACK, user)
        self.pair(f"{LOOPBACK} --cap-drop=all --read-only", user)
        out = user.run(LOOPBACK, "brdma", "lab", "pair", "--", "ib_write_bw", "-F", "-n", "200")
        expect(RESULT in out, out)

    # --- networks ---
    def between(self, options, address):
        server = self.root.call("podman", "run", "-d", *options.split(), "--name", "server", IMAGE, "ib_write_bw", "-F", "-n", "200").stdout.split()[-1]
        try:
            to = address(server)
            listens = "until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done"
            self.root.call("podman", "exec", "server", "sh", "-c", listens)
            out = self.root.run(options, "ib_write_bw", "-F", "-n", "200", to)
            expect(RESULT in out, f"the client has no result:\n{out}")
            code = self.root.call("podman", "wait", "server").stdout.strip()
            logs = self.root.call("podman", "logs", "server")
            expect(code == "0" and RESULT in logs.stdout, f"the server ended with {code}:\n{logs.stdout}{logs.stderr}")
        finally:
            self.root.call("podman", "rm", "-f", "server")

    def two_on_a_bridge(self):
        self.root.call("podman", "network", "create", "rdma")
        try:
            self.between("--network rdma", lambda name: self.root.call("podman", "inspect", "-f", '{{(index .NetworkSettings.Networks "rdma").IPAddress}}', name).stdout.strip())
        finally:
            self.root.call("podman", "network", "rm", "-f", "rdma")

    def a_pod_that_shares_a_network(self):
        """Two containers, one network: one brdmad serves both, from the container whose program was first."""
        self.root.call("podman", "run", "-d", *LOOPBACK.split(), "--name", "pod", IMAGE, "sleep", "600")
        try:
            self.between("--network container:pod", lambda _: "127.0.0.1")
        finally:
            self.root.call("podman", "rm", "-f", "pod")

    # --- the lab, and its advice ---
    LAB = ["brdma", "lab", "pair", "--", "ib_write_bw", "-F", "-n", "200"]

    def lab(self, options):
        out = self.root.run(options, *self.LAB)
        expect(RESULT in out, f"{options}: no lab:\n{out}")

    def the_lab_as_it_advises(self):
        """What is advised is what works, whichever capabilities there are."""
        advice = self.root.run(self.docker, *self.LAB, code=1)
        expect("seccomp=unconfined" in advice and "--cap-add SYS_ADMIN" in advice, advice)
        self.lab(f"{LOOPBACK} --security-opt seccomp=unconfined")
        self.lab(f"{LOOPBACK} --cap-add SYS_ADMIN")
        self.lab(f"{LOOPBACK} --cap-add SYS_ADMIN --cap-add NET_ADMIN --cap-add NET_RAW")
        capless = f"{LOOPBACK} --cap-drop=all --security-opt seccomp=unconfined"
        advice = self.root.run(capless, *self.LAB, code=1)
        expect("--user 65534" in advice and "--cap-add SETFCAP" in advice, advice)
        self.lab(f"{capless} --user {NOBODY}")
        self.lab(f"{capless} --cap-add SETFCAP")

    def in_a_namespace(self):
        """`brdma run --namespace` where the engine allows it, and the reason where not."""
        words = ["brdma", "run", "--namespace", "--", "env", "-i", "ibv_devices"]
        out = self.root.run(f"{LOOPBACK} --security-opt seccomp=unconfined --cap-add SYS_ADMIN", *words)
        expect("brdma_lo" in out, out)
        out = self.root.run(self.docker, *words, code=1)
        expect("a system-call filter refuses it" in out, out)

    def enabled_in_the_tree(self):
        """`brdma enable --container /` in an image without the variable: also programs with an empty environment."""
        script = "unset LD_PRELOAD; brdma enable --container / --all-programs && env -i ibv_devices && brdma disable --container / && ! env -i ibv_devices | grep brdma && ! ls /etc/ld.so.preload"
        out = self.root.run(LOOPBACK, "sh", "-c", script)
        expect("brdma_lo" in out, out)


def build_image(folder, build, tar):
    """With the machine's network, since packages are installed."""
    helper = f"source {CHECKOUT}/tests/lanes/bare_root.sh; make_bare_root {tar} {folder}/base"
    os.makedirs(f"{folder}/base")
    subprocess.run(["bash", "-euc", helper], check=True)
    subprocess.run(["bash", CHECKOUT / "utils/packaging/container/stage", build, f"{folder}/programs"], check=True)
    root = Engine(folder)
    root.import_folder(f"{folder}/base", "localhost/brdma-base:test")
    root.import_folder(f"{folder}/programs", "localhost/brdma-programs:test")
    os.makedirs(f"{folder}/context")
    file = CHECKOUT / "utils/packaging/container/Containerfile"
    arguments = ["--build-arg", "BASE=localhost/brdma-base:test", "--build-arg", "PROGRAMS=localhost/brdma-programs:test"]
    done = root.call("buildah", "build", "--isolation", "chroot", "--network", "host", *arguments, "-f", str(file), "-t", IMAGE, f"{folder}/context", seconds=900)
    expect("STEP" in done.stdout, done.stdout)
    for name in ("base", "programs", "context"):
        shutil.rmtree(f"{folder}/{name}")


def inside(options):
    """In namespaces of its own; a network with `lo` alone once the image is there."""
    engines.one_hierarchy_of_control_groups()
    if options.inside == "build":
        build_image(options.folder, options.build, options.tar)
        return 0
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    cases = Cases(options.folder)
    names = ["the_image_says_what_it_is", "confined_as_by_docker", "without_any_capability_and_read_only", "rootless", "two_on_a_bridge",
             "a_pod_that_shares_a_network", "the_lab_as_it_advises", "in_a_namespace", "enabled_in_the_tree"]
    passed = failed = 0
    for name in names:
        if options.only not in name:
            continue
        try:
            getattr(cases, name)()
            print(f"ok    {name}", flush=True)
            passed += 1
        except (RuntimeError, subprocess.SubprocessError) as problem:
            print(f"FAIL  {name}: {problem}", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--inside", choices=("build", "run"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--tar", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.build = os.path.realpath(options.build)
    if options.inside:
        return inside(options)
    missing = engines.missing_programs()
    if os.geteuid() != 0 or missing:
        print("containers: SKIPPED: " + (f"missing: {missing}" if missing else "it needs root for images and mounts"))
        return 77
    kept = pathlib.Path(options.build + "-containers")
    kept.mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # or its files would stay
    folder = tempfile.mkdtemp(prefix="brdma-containers-", dir="/tmp")
    try:
        os.chmod(folder, 0o711)
        engines.write_configuration(folder)
        for step, network in (("build", []), ("run", ["--net"])):
            words = [sys.executable, __file__, "--inside", step, "--folder", folder, "--tar", str(kept / "bare.tar"), "--build", options.build, "--only", options.only]
            spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *network]
            code = subprocess.run([*spaces, *words], check=False).returncode
            if code != 0:
                return code
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
