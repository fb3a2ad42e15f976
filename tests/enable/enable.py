#!/usr/bin/env python3
"""`brdma enable` and `brdma disable` on file trees, and on this system's in a mount namespace of its own: each scope is
put in force and taken back to the byte, and what must be refused changes nothing. Last line: `N passed, M failed`.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys

from trees import HOME, LIBRARY, Failure, difference, environment, expect, run, snapshot, tree

UNIT = "/usr/lib/systemd/system/web.service"
USER_UNIT = "/usr/lib/systemd/user/web.service"
DROP_IN = "60-bitmaprdma.conf"
SERVICE = "[Service]\nExecStart=/bin/true\n"
SCOPES = {
    "user": ["--user"],
    "user service": ["--user", "--service", "web"],
    "service": ["--service", "web.service"],
    "system": ["--system"],
    "all programs": ["--system", "--all-programs"],
}
# Trees that a command may find; each must be as before in the end.
TREES = {
    "bare": ({UNIT: SERVICE, USER_UNIT: SERVICE}, ["etc", HOME[1:]]),
    "empty folders": (
        {UNIT: SERVICE, USER_UNIT: SERVICE},
        ["etc/environment.d", "etc/profile.d", "etc/systemd/system.conf.d", "etc/systemd/system/web.service.d", f"{HOME[1:]}/.config/environment.d"],
    ),
    "files of others": (
        {
            UNIT: SERVICE,
            USER_UNIT: SERVICE,
            "etc/environment.d/10-other.conf": "A=b\n",
            "etc/ld.so.preload": "/usr/lib/other.so\n",
            "etc/systemd/system/web.service.d/10-other.conf": "[Service]\nNice=1\n",
            f"{HOME}/.config/systemd/user/web.service.d/other.conf": "[Service]\nNice=2\n",
        },
        [],
    ),
    "a list without a newline": ({UNIT: SERVICE, USER_UNIT: SERVICE, "etc/ld.so.preload": "/usr/lib/other.so"}, [HOME[1:]]),
    "an empty list": ({UNIT: SERVICE, USER_UNIT: SERVICE, "etc/ld.so.preload": ""}, [HOME[1:]]),
}


def undone(scope):
    return [word for word in scope if word != "--all-programs"]


class Cases:
    def __init__(self, build):
        self.build = os.path.realpath(build)
        self.brdma = os.path.join(self.build, "bin", "brdma")

    def enable(self, root, *words, **options):
        return run([self.brdma, "enable", *words, "--root", root], **options)

    def disable(self, root, *words, **options):
        return run([self.brdma, "disable", *words, "--root", root], **options)

    def show(self, root):
        return json.loads(run([self.brdma, "-j", "enable", "show", "--root", root]).stdout)

    # --- trees ---
    def taken_back_whole(self):
        for name, (files, folders) in TREES.items():
            for scope, words in SCOPES.items():
                with tree(files, folders) as root:
                    before = snapshot(root)
                    self.enable(root, *words)
                    enabled = snapshot(root)
                    expect(enabled != before, f"{name}, {scope}: nothing is enabled")
                    again = self.enable(root, *words)
                    expect("unchanged" in again.stdout and "written" not in again.stdout, f"{name}, {scope}: {again.stdout}")
                    expect(snapshot(root) == enabled, f"{name}, {scope}: a second time changes {difference(enabled, snapshot(root))}")
                    rows = self.show(root)
                    expect(any(row["scope"] == scope and row["by"] == "brdma enable" and row["state"] == "in force" for row in rows), f"{name}, {scope}: {rows}")
                    expect(all(row["library"] == LIBRARY for row in rows), f"{name}, {scope}: {rows}")
                    self.disable(root, *undone(words))
                    expect(snapshot(root) == before, f"{name}, {scope}: left {difference(before, snapshot(root))}")
                    expect("nothing was enabled" in self.disable(root, *undone(words)).stdout, f"{name}, {scope}: a second disable")

    def both_ways_of_a_system(self):
        """The last command decides; one disable takes either back."""
        with tree() as root:
            before = snapshot(root)
            self.enable(root, "--system")
            self.enable(root, "--system", "--all-programs")
            expect([row["scope"] for row in self.show(root)] == ["all programs"], self.show(root))
            self.enable(root, "--system")
            expect({row["scope"] for row in self.show(root)} == {"system"}, self.show(root))
            self.disable(root, "--system")
            expect(snapshot(root) == before, difference(before, snapshot(root)))

    def two_units_share_folders(self):
        units = {f"/usr/lib/systemd/user/{name}.service": SERVICE for name in ("one", "two")}
        for order in (["one", "two"], ["two", "one"]):
            with tree(units, [HOME[1:]]) as root:
                before = snapshot(root)
                for name in ("one", "two"):
                    self.enable(root, "--user", "--service", name)
                for name in order:
                    self.disable(root, "--user", "--service", name)
                expect(snapshot(root) == before, f"{order}: left {difference(before, snapshot(root))}")

    def lines_of_others_stay(self):
        """Also those that came later, in front of ours and behind."""
        with tree({"etc/ld.so.preload": "/usr/lib/first.so\n"}) as root:
            self.enable(root, "--system", "--all-programs")
            list_ = pathlib.Path(root, "etc/ld.so.preload")
            list_.write_text("/usr/lib/new.so\n" + list_.read_text() + "/usr/lib/last.so # mine\n")
            list_.chmod(0o640)
            self.disable(root, "--system")
            expect(list_.read_text() == "/usr/lib/new.so\n/usr/lib/first.so\n/usr/lib/last.so # mine\n", list_.read_text())
            expect(stat.S_IMODE(list_.stat().st_mode) == 0o640, "another mode")
        with tree({UNIT: SERVICE}) as root:  # a drop-in of others that came into our folder
            self.enable(root, "--service", "web")
            other = pathlib.Path(root, "etc/systemd/system/web.service.d/10-other.conf")
            other.write_text("[Service]\nNice=1\n")
            self.disable(root, "--service", "web")
            expect(other.read_text() == "[Service]\nNice=1\n", "the other's drop-in is gone")
            expect(not other.with_name(DROP_IN).exists(), "ours is still there")

    def units_keep_their_own_list(self):
        unit = '[Service]\nEnvironment="LD_PRELOAD=/usr/lib/one.so" A=b\n'
        with tree({UNIT: unit, "usr/lib/systemd/system/web.service.d/20-two.conf": "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/two.so\n"}) as root:
            self.enable(root, "--service", "web")
            drop_in = pathlib.Path(root, "etc/systemd/system/web.service.d", DROP_IN)
            expect(f'"LD_PRELOAD=/usr/lib/two.so:{LIBRARY}"' in drop_in.read_text(), drop_in.read_text())
            if shutil.which("systemd-analyze"):  # it lacks other units there, and says so; but our file must be good
                said = subprocess.run(["systemd-analyze", f"--root={root}", "verify", "web.service"], capture_output=True, text=True, check=False, timeout=60).stderr
                expect("web.service" in said and DROP_IN not in said, said)
        with tree({"usr/lib/systemd/system/web@.service": SERVICE}) as root:
            self.enable(root, "--service", "web@7")
            expect(os.path.exists(f"{root}/etc/systemd/system/web@7.service.d/{DROP_IN}"), "no drop-in of the instance")

    def driver_file(self):
        """Where the kernel has RDMA, and no package brought one."""
        path = "etc/libibverbs.d/bitmaprdma.driver"
        plugin = {"usr/lib/libibverbs/libbitmaprdma-rdmav34.so": ""}
        with tree(plugin, ["etc", "sys/class/infiniband"]) as root:
            before = snapshot(root)
            self.enable(root, "--system")
            expect("driver /usr/lib/libibverbs/libbitmaprdma\n" in pathlib.Path(root, path).read_text(), "another driver file")
            expect(any(row["scope"] == "driver" and row["state"] == "in force" for row in self.show(root)), self.show(root))
            self.disable(root, "--system")
            expect(snapshot(root) == before, difference(before, snapshot(root)))
        with tree({**plugin, "etc/libibverbs.d/package.driver": "driver /usr/lib/libibverbs/libbitmaprdma\n"}, ["sys/class/infiniband"]) as root:
            self.enable(root, "--system")
            expect(not os.path.exists(f"{root}/{path}"), "a second driver file")
        with tree() as root:
            self.enable(root, "--system")
            expect(not os.path.exists(f"{root}/{path}"), "a driver file though the kernel has no RDMA")

    def a_container(self):
        with tree() as root:
            before = snapshot(root)
            said = run([self.brdma, "enable", "--container", root]).stdout
            expect(f"give the image LD_PRELOAD={LIBRARY}" in said, said)
            run([self.brdma, "enable", "--container", root, "--all-programs"])
            expect(pathlib.Path(root, "etc/ld.so.preload").read_text().startswith(LIBRARY + " "), "not in the list")
            run([self.brdma, "disable", "--container", root])
            expect(snapshot(root) == before, difference(before, snapshot(root)))

    def what_is_in_force(self):
        with tree({"etc/environment": f"LD_PRELOAD={LIBRARY}\n", "etc/profile.d/x.sh": "# libbitmaprdma.so\n"}) as root:
            self.enable(root, "--user")
            rows = self.show(root)
            expect([(row["scope"], row["by"]) for row in rows] == [("system", "others"), ("user", "brdma enable")], rows)
            columns = run([self.brdma, "enable", "show", "--root", root, "-o", "unit,scope"]).stdout.split()
            expect(columns == ["unit", "scope", "-", "system", "-", "user"], columns)
            os.unlink(root + LIBRARY)
            expect({row["state"] for row in self.show(root)} == {"library missing"}, self.show(root))
        nothing = run([self.brdma, "enable", "show", "--root", "/var/empty" if os.path.isdir("/var/empty") else "/proc/self/fdinfo"])
        expect(nothing.stdout == "" and "nothing is enabled" in nothing.stderr, nothing)
        library = f"{self.build}/lib/libbitmaprdma.so"
        rows = json.loads(run([self.brdma, "-j", "enable"], env=environment(LD_PRELOAD=library)).stdout)
        expect([row["scope"] for row in rows[:2]] == ["this process", "environment"] and rows[1]["library"] == library, rows)

    # --- refusals ---
    def nothing_changes_when_refused(self):
        foreign = {f"etc/systemd/system/web.service.d/{DROP_IN}": "[Service]\n"}
        later = {"etc/systemd/system/web.service.d/90-x.conf": "[Service]\nEnvironment=LD_PRELOAD=/x.so\n"}
        file_ = {"usr/lib/systemd/system/web.service": "[Service]\nEnvironmentFile=-/etc/default/web\n", "etc/default/web": "LD_PRELOAD=/x.so\n"}
        service = ["--service", "web"]
        refused = [
            ({}, service, "no unit web.service"),
            ({UNIT: SERVICE, **foreign}, service, "not of 'brdma enable'"),
            ({UNIT: SERVICE, **later}, service, "add the library there by hand"),
            (file_, service, "which overrides drop-ins"),
            ({"etc/systemd/system.conf.d/" + DROP_IN: "[Manager]\n"}, ["--system"], "not of 'brdma enable'"),
            ({}, ["--system", "--library", "/usr/lib/none.so"], "No such file"),
            ({"/usr/lib/a b/lib.so": ""}, ["--system", "--library", "/usr/lib/a b/lib.so"], "cannot hold"),
        ]
        for files, words, reason in refused:
            with tree(files) as root:
                before = snapshot(root)
                said = self.enable(root, *words, code=1).stderr
                expect(reason in said, f"{words}: {said}")
                expect(snapshot(root) == before, f"{words}: changed {difference(before, snapshot(root))}")
        with tree({UNIT: SERVICE, **foreign}) as root:
            before = snapshot(root)
            self.disable(root, *service)
            expect(snapshot(root) == before, "disable removed somebody else's file")
        with tree(library=None) as root:
            expect("no libbitmaprdma.so in" in self.enable(root, "--user", code=1).stderr, "it needs a library there")

    def misuse(self):
        with tree({UNIT: SERVICE}) as root:
            before = snapshot(root)
            for words in (["--user", "--system"], ["--service"], ["--service", "../x"], ["--service", "web.socket"], ["--user", "--all-programs"],
                          ["--nonsense"], ["--system", "--service", "web"], ["--container", root, "--system"], ["--service", "a b"]):
                self.enable(root, *words, code=2)
            run([self.brdma, "disable"], code=2)
            run([self.brdma, "disable", "--system", "--all-programs"], code=2)
            expect(snapshot(root) == before, "misuse changes files")

    def links_do_not_lead_out(self):
        """A tree from elsewhere: its links lead to where they would if it were the system's."""
        with tree(folders=["real"]) as root, tree(library=None) as outside:
            os.symlink(outside + "/etc", root + "/etc")
            before = snapshot(outside)
            said = run([self.brdma, "enable", "--container", root], code=1).stderr
            expect(snapshot(outside) == before, f"written outside: {said}")
        with tree(folders=["real"]) as root:
            os.symlink("/real", root + "/etc")
            run([self.brdma, "enable", "--container", root])
            expect(os.path.exists(f"{root}/real/profile.d/bitmaprdma.sh"), "not where its link leads")
            run([self.brdma, "disable", "--container", root])
            expect(os.listdir(f"{root}/real") == [], os.listdir(f"{root}/real"))
        with tree({"etc/elsewhere": ""}) as root:
            os.symlink("elsewhere", root + "/etc/ld.so.preload")
            before = snapshot(root)
            self.enable(root, "--system", "--all-programs", code=1)
            expect(snapshot(root) == before, difference(before, snapshot(root)))

    def no_right_to_write(self):
        if os.geteuid() == 0:
            return  # nothing is forbidden to root; the same as a user shows it
        with tree({UNIT: SERVICE}) as root:
            os.chmod(root + "/etc", 0o555)
            before = snapshot(root)
            said = self.enable(root, "--system", code=1).stderr
            expect("run this as root, or use --user" in said, said)
            expect(snapshot(root) == before, difference(before, snapshot(root)))
            os.chmod(root + "/etc", 0o755)

    def output_that_cannot_be_written(self):
        with tree() as root, open("/dev/full", "w", encoding="utf-8") as full:
            for words in (["enable", "--user"], ["enable", "show"], ["disable", "--user"]):
                done = subprocess.run([self.brdma, *words, "--root", root], stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), check=False, timeout=60)
                expect(done.returncode == 1, f"{words}: exit code {done.returncode}")

    # --- programs ---
    def in_namespaces(self, script, *arguments):
        """As root of a user namespace where the caller is not root: networks, mounts, with `lo` up."""
        kinds = ["--net", "--mount", "--pid", "--fork", "--kill-child"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
        prepared = f"set -eu; ip link set lo up; brdma={self.brdma}; {script}"
        return run(["unshare", *kinds, "bash", "-c", prepared, "bash", *arguments])

    def a_full_disk(self):
        """Space ends between the files of --system: those written before go again."""
        for size in ("nr_inodes=7", "size=8k"):
            with tree(library=None) as folder:
                script = f"""
                mount -t tmpfs -o {size} none "$1"; mkdir "$1/etc"; : >"$1/libbitmaprdma.so"
                before=$(find "$1" | sort)
                ! "$brdma" enable --system --root "$1" --library /libbitmaprdma.so || [ {size} != nr_inodes=7 ]
                [ {size} != nr_inodes=7 ] || [ "$before" = "$(find "$1" | sort)" ] || {{ find "$1"; exit 1; }}"""
                self.in_namespaces(script, folder)

    # A copy of /etc in place of it, which ends with the namespace; programs get no variable of ours.
    OWN_ETC = """
    mount -t tmpfs none /mnt; cp -a /etc/. /mnt/ 2>/dev/null || true; mount --bind /mnt /etc; export BRDMA_IDLE_SECONDS=1
    devices() { env -i BRDMA_IDLE_SECONDS=1 PATH="$PATH" HOME=/nonexistent "$@" 2>&1; }
    """

    def all_programs_of_the_system(self):
        self.in_namespaces(self.OWN_ETC + """
            ! devices ibv_devices | grep brdma_lo || exit 1
            "$brdma" enable --system --all-programs
            devices ibv_devices | grep brdma_lo
            devices "$brdma" -j enable | grep '"scope":"this process"' | grep '"scope":"all programs"'
            "$brdma" disable --system
            ! devices ibv_devices | grep brdma_lo || exit 1
            [ ! -e /etc/ld.so.preload ]
            """)

    def a_namespace_where_it_is_enabled(self):
        """`brdma run --namespace` when brdma itself has the library, by the list or by its environment."""
        self.in_namespaces(self.OWN_ETC + """
            LD_PRELOAD="${brdma%/bin/brdma}/lib/libbitmaprdma.so" "$brdma" run --namespace -- env -i ibv_devices | grep brdma_lo
            "$brdma" enable --system --all-programs
            "$brdma" run --namespace -- env -i ibv_devices | grep brdma_lo
            "$brdma" lab pair -- ibv_rc_pingpong -g 1 -n 100 | grep 'iters in'
            """)

    def log_in_shells(self):
        self.in_namespaces(self.OWN_ETC + """
            "$brdma" enable --system
            devices bash --login -c 'ibv_devices; echo "$LD_PRELOAD"' >/mnt/seen
            grep brdma_lo /mnt/seen
            [ "$(devices bash --login -c '. /etc/profile.d/bitmaprdma.sh; echo "$LD_PRELOAD"')" = "$(tail -n 1 /mnt/seen)" ]
            "$brdma" disable --system
            ! devices bash --login -c ibv_devices | grep brdma_lo || exit 1
            """)

    def a_users_manager(self):
        """environment.d as systemd's own generator reads it, where there is one; its form is a shell's, too."""
        generator = "/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator"
        with tree(library=None, folders=["home"]) as folder:
            home = folder + "/home"
            env = environment(HOME=home, LD_PRELOAD="")
            del env["LD_PRELOAD"]
            run([self.brdma, "enable", "--user"], env=env)
            file = f"{home}/.config/environment.d/{DROP_IN}"
            made = run([generator], env=env).stdout if os.access(generator, os.X_OK) else run(["sh", "-c", f'. {file}; echo "LD_PRELOAD=$LD_PRELOAD"'], env=env).stdout
            library = re.search(r"^LD_PRELOAD=\"?([^\"\n]*)\"?$", made, re.MULTILINE)
            expect(library, made)
            seen = self.in_namespaces('LD_PRELOAD="$1" BRDMA_IDLE_SECONDS=1 ibv_devices', library[1]).stdout
            expect("brdma_lo" in seen, seen)
            run([self.brdma, "disable", "--user"], env=env)
            expect(os.listdir(home) == [], os.listdir(home))

    def programs_are_not_changed(self):
        """A program without RDMA: the same output, error output, exit code and open descriptors with the library as without."""
        script = 'ls -l /proc/self/fd | wc -l; echo out; echo err >&2; trap "exit 7" TERM; ulimit -n; umask; kill -TERM $$; sleep 1'
        seen = []
        for preload in ({}, {"LD_PRELOAD": f"{self.build}/lib/libbitmaprdma.so"}):
            env = {"PATH": os.environ["PATH"], **preload}
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=env, check=False, timeout=60)
            seen.append((done.returncode, done.stdout, done.stderr))
        expect(seen[0] == seen[1] and seen[0][0] == 7, seen)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--as-nobody", action="store_true")
    options = parser.parse_args()
    if options.as_nobody and os.geteuid() == 0:
        words = [word for word in sys.argv if word != "--as-nobody"]
        os.execvp("setpriv", ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", sys.executable, *words])
    cases = Cases(options.build)
    names = [
        name
        for name, case in vars(Cases).items()
        if callable(case) and not name.startswith("_") and name not in ("enable", "disable", "show", "in_namespaces")
    ]
    passed = failed = 0
    for name in names:
        if options.only not in ("", name):
            continue
        try:
            getattr(cases, name)()
            print(f"ok    {name}", flush=True)
            passed += 1
        except (Failure, subprocess.TimeoutExpired) as problem:
            print(f"FAIL  {name}: {problem}", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
