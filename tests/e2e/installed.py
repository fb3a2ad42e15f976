#!/usr/bin/env python3
"""`cmake --install` of the build tree into a prefix: writes below the prefix alone, all or nothing, and the result
works.

All other files are read-only meanwhile, in a mount namespace, so that any other write fails. As root; as an ordinary user with
--as-nobody (as root) or when started by one. Last line: `N passed, M failed`.
"""

import argparse
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
SYS_MOUNT_SETATTR = 442
PROGRAMS = ["brdma", "brdmad", "brdma-switch", "brdma-controller", "brdma-perf", "brdma-sim"]


class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


def set_read_only(path, on, recursive=False):
    class MountAttr(ctypes.Structure):
        _fields_ = [("set", ctypes.c_uint64), ("clear", ctypes.c_uint64), ("propagation", ctypes.c_uint64), ("userns", ctypes.c_uint64)]

    attributes = MountAttr(MOUNT_ATTR_RDONLY if on else 0, 0 if on else MOUNT_ATTR_RDONLY, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, str(path).encode(), AT_RECURSIVE if recursive else 0, ctypes.byref(attributes), ctypes.sizeof(attributes)) != 0:
        raise OSError(ctypes.get_errno(), f"mount_setattr {path}")


def install_inside(arguments):
    """In namespaces of its own: everything read-only but the writable folder and CMake's list of what it installed."""
    build, writable, hide = arguments.build, pathlib.Path(arguments.writable), arguments.hide
    manifest = pathlib.Path(build, "install_manifest.txt")
    mine = writable / "manifest"
    for source, target in [(writable, writable), (mine, manifest)]:
        subprocess.run(["mount", "--bind", source, target], check=True)
    if hide:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", pathlib.Path(build, "bin")], check=True)
    set_read_only("/", True, recursive=True)
    for path in [writable, manifest]:
        set_read_only(path, False)
    command = ["cmake", "--install", build]
    if arguments.prefix:
        command += ["--prefix", arguments.prefix]
    if arguments.as_nobody:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", *command]
    os.chdir(writable)
    os.umask(0o077)
    os.execvp(command[0], command)


class Cases:
    def __init__(self, build, as_nobody):
        self.build, self.as_nobody = os.path.realpath(build), as_nobody
        self.root = os.geteuid() == 0

    def install(self, folder, prefix, hide=False):
        manifest = folder / "manifest"
        manifest.touch()
        pathlib.Path(self.build, "install_manifest.txt").touch()
        if self.as_nobody:
            for path in [folder, manifest]:
                os.chown(path, 65534, 65534)
        namespaces = ["--mount"] if self.root else ["--user", "--map-root-user", "--mount"]
        command = ["unshare", *namespaces, sys.executable, __file__, "--build", self.build, "--inside", "--writable", str(folder), "--prefix", prefix]
        command += ["--hide"] * hide + ["--as-nobody"] * self.as_nobody
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def work(self, prefix):
        """An installed program finds its library by itself, in a network of its own."""
        namespaces = ["--net"] if self.root else ["--user", "--map-root-user", "--net"]
        drop = "setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs" if self.as_nobody else ""
        script = f"ip link set lo up && exec {drop} env BRDMA_IDLE_SECONDS=1 HOME=/nonexistent '{prefix}/bin/brdma' run -- ibv_devices"
        return subprocess.run(["unshare", *namespaces, "bash", "-c", script], capture_output=True, text=True, timeout=60)

    def manuals(self, prefix):
        """Every program has a page, with every option of its help."""
        for program in PROGRAMS:
            section = 1 if program == "brdma-perf" else 8
            page = (prefix / f"share/man/man{section}" / f"{program}.{section}").read_text().replace("\\-", "-")
            said = subprocess.run([prefix / "bin" / program, "--help"], capture_output=True, text=True, timeout=60).stdout
            options = set(re.findall(r"^  (?:-\w,)?(--[a-z][a-z-]*)", said, re.MULTILINE))
            expect(options or program == "brdma", f"{program} --help names no options: {said}")
            missing = sorted(option for option in options if option not in page)
            expect(not missing, f"{program}.{section} lacks {missing}")

    def a_prefix(self, folder):
        prefix = folder / "prefix"
        done = self.install(folder, str(prefix))
        expect(done.returncode == 0, f"cmake --install: {done.stdout[-500:]}{done.stderr}")
        for program in PROGRAMS:
            expect(os.access(prefix / "bin" / program, os.X_OK), f"no bin/{program}")
        listed = (folder / "manifest").read_text().splitlines()
        outside = [line for line in listed if not line.startswith(str(prefix) + "/")]
        expect(listed and not outside, f"installed outside the prefix: {outside}")
        expect(all(os.path.lexists(line) for line in listed), "listed, but not there")
        self.manuals(prefix)
        service = (prefix / "lib/systemd/system/bitmaprdma-brdmad.service").read_text()
        expect(f'ExecStart="{prefix}/bin/brdmad"' in service, service)
        if os.path.exists(os.path.join(self.build, "bin", "brdma-metrics")):  # built with prometheus-cpp
            unit = (prefix / "lib/systemd/system/bitmaprdma-metrics.service").read_text()
            expect(f'ExecStart="{prefix}/bin/brdma" metrics serve' in unit, unit)
            expect((prefix / "share/bitmaprdma/grafana-dashboard.json").is_file(), "no dashboard")
        driver = (prefix / "etc/libibverbs.d/bitmaprdma.driver").read_text()
        expect(driver.startswith(f"driver {prefix}/lib"), driver)
        for made in ["man/man8/brdma.8", "man/man8/brdma-lab.8", "bash-completion/completions/brdma", "fish/vendor_completions.d/brdma.fish"]:
            expect((prefix / "share" / made).stat().st_size > 100, f"share/{made} is empty")
        expect(list((prefix / "share/zsh").glob("*/_brdma")), "no completion for zsh")
        seen = self.work(prefix)
        expect(seen.returncode == 0 and "brdma_lo" in seen.stdout, f"ibv_devices: {seen.stdout}{seen.stderr}")

    def a_relative_prefix(self, folder):
        done = self.install(folder, "here")
        expect(done.returncode == 0, f"cmake --install: {done.stdout[-500:]}{done.stderr}")
        driver = (folder / "here/etc/libibverbs.d/bitmaprdma.driver").read_text()
        expect(driver.startswith(f"driver {folder}/here/lib"), driver)

    def all_or_nothing(self, folder):
        prefix = folder / "prefix"
        done = self.install(folder, str(prefix), hide=True)
        expect(done.returncode != 0, "installed though nothing is built")
        expect("is not built, and nothing is installed" in " ".join(done.stderr.split()), done.stderr)
        expect(not prefix.exists(), f"left behind: {list(prefix.rglob('*'))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--as-nobody", action="store_true")
    for option in ["--inside", "--hide"]:
        parser.add_argument(option, action="store_true", help=argparse.SUPPRESS)
    for option in ["--writable", "--prefix"]:
        parser.add_argument(option, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        install_inside(arguments)
    if arguments.as_nobody and os.geteuid() != 0:
        arguments.as_nobody = False  # it is one already
    cases = Cases(arguments.build, arguments.as_nobody)
    passed = failed = 0
    for name in ["a_prefix", "a_relative_prefix", "all_or_nothing"]:
        if arguments.only and arguments.only != name:
            continue
        folder = pathlib.Path(tempfile.mkdtemp(prefix="brdma-installed-"))
        os.chmod(folder, 0o755)
        try:
            getattr(cases, name)(folder)
            print(f"PASS {name}")
            passed += 1
        except (Failure, OSError, subprocess.SubprocessError) as failure:
            print(f"FAIL {name}: {failure}")
            failed += 1
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


main()
