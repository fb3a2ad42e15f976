"""A kernel Soft-RoCE host: a guest under software emulation that replaces a lab host on the network, with its
addresses. The host's files are visible read-only under /host in the guest."""
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time

BOOT_TIMEOUT_SECONDS = 180  # seconds; 10 when nothing else runs
# In the host's network namespace: the guest takes the interface's MAC address, so that static neighbour entries stay
# right.
BRIDGE = """set -e
read -r _ _ _ _ mtu _ < <(ip -o link show eth0)  # sysfs shows another namespace's
guest_mac=$(ip -o link show eth0 | grep -o 'link/ether [^ ]*' | cut -d' ' -f2)
ip link set eth0 down
ip link set eth0 address {own_mac}
ip address flush dev eth0
ip link add bridge type bridge forward_delay 0 mcast_snooping 0
ip tuntap add tap mode tap
for port in eth0 tap; do ip link set $port mtu $mtu master bridge up; done
ip link set bridge mtu $mtu up
echo $guest_mac $mtu
"""


class Command:
    """A command in the guest: lines as they come, exit code at its end."""

    def __init__(self, guest, number):
        self.guest, self.number, self.output, self.code, self.done = guest, number, "", None, threading.Event()

    def wait(self, timeout):
        if not self.done.wait(timeout):
            raise TimeoutError(f"not done after {timeout} s: {self.output[-2000:]}")
        return self.code

    def poll(self):
        return self.code

    def stop(self):
        if self.code is None:
            self.guest.say(id=self.number, signal=int(signal.SIGTERM))


class Guest:
    def __init__(self, lab, host, image, memory="768M"):
        self.lab, self.host, self.address = lab, host, "10.77.0." + host[1:]
        self.commands, self.ready = {}, threading.Event()
        self.directory = tempfile.TemporaryDirectory(prefix="brdma-guest-")
        self.console = os.path.join(self.directory.name, "console")
        mac, mtu = self.bridge().split()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(self.directory.name, "agent"))
        listener.listen(1)
        here = os.path.dirname(os.path.abspath(__file__))
        arguments = f"console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0 guest.address={self.address} guest.mtu={mtu} guest.agent={here}/agent.py"
        self.process = subprocess.Popen(
            lab.on(host, "env", "-u", "LD_PRELOAD", "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1", "-m", memory,
                   "-nodefaults", "-display", "none", "-no-reboot", "-serial", f"file:{self.console}", "-kernel", f"{image}/vmlinuz", "-initrd", f"{image}/initramfs",
                   "-append", arguments, "-drive", f"file={image}/root.img,format=raw,if=virtio,snapshot=on",
                   "-netdev", "tap,id=net,ifname=tap,script=no,downscript=no", "-device", f"virtio-net-pci,netdev=net,mac={mac}",
                   "-device", "virtio-rng-pci", "-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,path={listener.getsockname()}",
                   "-device", "virtserialport,chardev=agent,name=agent", "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        listener.settimeout(30)
        self.port, _ = listener.accept()
        listener.close()
        self.next_number = 1
        threading.Thread(target=self.listen, daemon=True).start()

    def bridge(self):
        own_mac = "02:" + ":".join(f"{random.randrange(256):02x}" for _ in range(5))
        done = subprocess.run(self.lab.on(self.host, "env", "-u", "LD_PRELOAD", "bash", "-c", BRIDGE.format(own_mac=own_mac)), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def listen(self):
        with self.port.makefile(encoding="utf-8") as answers:
            for line in answers:
                answer = json.loads(line)
                if answer.get("ready"):
                    self.ready.set()
                    continue
                command = self.commands[answer["id"]]
                command.output += answer.get("out", "")
                if "exit" in answer:
                    command.code = answer["exit"]
                    command.done.set()

    def say(self, **what):
        self.port.sendall((json.dumps(what) + "\n").encode())

    def wait_until_up(self):
        end = time.monotonic() + BOOT_TIMEOUT_SECONDS
        while not self.ready.wait(1):
            if time.monotonic() < end and self.process.poll() is None:
                continue
            with open(self.console, errors="replace") as console:
                raise TimeoutError(f"guest {self.host} does not come up; its console ends with\n{console.read()[-2000:]}")
        self.run("rdma link add rxe0 type rxe netdev eth0 && until [[ $(cat /sys/class/infiniband/rxe0/ports/1/state) == *ACTIVE* ]]; do sleep 0.1; done")

    def start(self, command):
        started = self.commands[self.next_number] = Command(self, self.next_number)
        self.next_number += 1
        self.say(id=started.number, run=command)
        return started

    def run(self, command, timeout=120):
        started = self.start(command)
        code = started.wait(timeout)
        assert code == 0, f"in guest {self.host}: {command}: exit code {code}\n{started.output[-3000:]}"
        return started.output

    def counters(self):
        """Those of rxe0, by name."""
        text = self.run("cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *")
        return {name: int(value) for name, value in (line.split(":") for line in text.splitlines())}

    def stop(self):
        with contextlib.suppress(OSError):
            self.port.close()
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=10)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.directory.cleanup()
