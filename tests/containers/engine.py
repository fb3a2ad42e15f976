"""An image built from a Containerfile, and containers of it, by Podman and Buildah without a daemon: their storage is a
folder of the caller, and the mounts and networks end with the namespaces that this module's caller runs in.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
IMAGE = "localhost/bitmaprdma:test"
NOBODY = 65534

# Containers of Docker have these capabilities, and no other (its manual, "Linux capabilities").
DOCKER_CAPABILITIES = "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE".split()
# Calls that Docker's default profile refuses without further capabilities (its manual, "Seccomp security profiles").
DOCKER_REFUSES = """acct add_key bpf clock_adjtime clock_settime create_module delete_module fanotify_init finit_module fsconfig fsmount fsopen
fspick get_kernel_syms get_mempolicy init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl
lookup_dcookie mbind mount mount_setattr move_mount move_pages nfsservctl open_by_handle_at open_tree perf_event_open pivot_root process_vm_readv
process_vm_writev ptrace query_module quotactl reboot request_key set_mempolicy setns settimeofday stime swapoff swapon sysfs _sysctl umount umount2
unshare uselib userfaultfd ustat vm86 vm86old""".split()
NAMESPACE_FLAGS = 0x7E020000  # CLONE_NEW*, but for NEWTIME, which clone cannot have


def docker_profile():
    """As data for an engine: all is allowed but the above, and clone with any namespace; clone3, whose flags cannot be
    seen, is as if the kernel lacked it."""
    refused = {"names": DOCKER_REFUSES, "action": "SCMP_ACT_ERRNO", "errnoRet": 1}
    clone_with = [
        {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "args": [{"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}]}
        for flag in (1 << bit for bit in range(32))
        if flag & NAMESPACE_FLAGS
    ]
    clone3 = {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refused, clone3, *clone_with]}


def write_configuration(folder):
    """The engine's settings: limits that need no right, no control groups (a machine may forbid making them), no log of
    events."""
    path = os.path.join(folder, "containers.conf")
    text = """[network]
network_backend="netavark"
[containers]
default_ulimits=["nofile=1024:1024","nproc=4096:4096"]
cgroups="disabled"
[engine]
events_logger="none"
cgroup_manager="cgroupfs"
"""
    pathlib.Path(path).write_text(text, encoding="utf-8")
    profile = os.path.join(folder, "docker.json")
    pathlib.Path(profile).write_text(json.dumps(docker_profile()), encoding="utf-8")
    for file in (path, profile):
        os.chmod(file, 0o644)
    return path


class Engine:
    """Commands of root, or (user) of an ordinary user, who is alone in a namespace."""

    def __init__(self, folder, user=None):
        self.folder, self.user = str(folder), user
        own = os.path.join(self.folder, "user" if user else "root")
        os.makedirs(os.path.join(own, "run"), exist_ok=True)
        self.environment = {"PATH": os.environ["PATH"], "HOME": own, "XDG_RUNTIME_DIR": own + "/run", "CONTAINERS_CONF": os.path.join(self.folder, "containers.conf")}
        self.storage = ["--root", own + "/storage", "--runroot", own + "/runroot", "--storage-driver", "overlay"]
        self.own, self.prefix = own, []
        if user:
            self.storage += ["--storage-opt", "overlay.ignore_chown_errors=true"]
            self.prefix = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
            for path in (own, own + "/run"):
                os.chown(path, user, user)

    def command(self, program, *words):
        return [*self.prefix, program, *self.storage, *words]

    def call(self, program, *words, code=0, seconds=120, **options):
        done = subprocess.run(self.command(program, *words), capture_output=True, text=True, timeout=seconds, check=False, env=self.environment, cwd=self.own, **options)
        if code is not None and done.returncode != code:
            raise RuntimeError(f"{program} {' '.join(words)}: exit code {done.returncode}, not {code}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done

    def run(self, options, *words, code=0, seconds=120):
        """A container of the image; what it printed."""
        done = self.call("podman", "run", "--rm", *options.split(), IMAGE, *words, code=code, seconds=seconds)
        return done.stdout + done.stderr

    def import_folder(self, folder, name):
        archive = subprocess.Popen(["tar", "-C", str(folder), "-c", "."], stdout=subprocess.PIPE)
        self.call("podman", "import", "-q", "-", name, stdin=archive.stdout)
        if archive.wait() != 0:
            raise RuntimeError(f"tar of {folder} failed")


def one_hierarchy_of_control_groups():
    """The runtime refuses a machine that has both versions: here it sees version 2 alone. In a mount namespace."""
    if not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        subprocess.run(["mount", "-t", "cgroup2", "none", "/sys/fs/cgroup"], check=True)


def missing_programs():
    found = [name for name in ("podman", "buildah", "crun", "mmdebstrap") if subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, check=False).returncode]
    return ", ".join(found)


if __name__ == "__main__":
    sys.exit("run tests/containers/containers.py")
