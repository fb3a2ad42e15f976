"""Whether the machine's processors are near each other at the moment. On a virtual machine that changes by the second
(core_distance.cc), and halves the data rate between two programs: so a row of one state does not compare with a row of
the other."""
import os
import subprocess
import time

FAR = 2  # times the least seen


class Cores:
    def __init__(self, build, seconds=3.0):
        self.program, self.least, self.looks, self.near_looks = os.path.join(build, "bin", "core_distance"), None, 0, 0
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(0.1)

    def look(self):
        """ns that a line takes, one way."""
        said = subprocess.run([self.program], capture_output=True, text=True, timeout=10, check=True)
        found = float(said.stdout.split()[1])
        self.least = found if self.least is None else min(self.least, found)
        return found

    def near(self):
        now = self.look() <= FAR * self.least
        self.looks, self.near_looks = self.looks + 1, self.near_looks + now
        return now

    def wait(self, seconds):
        """Waits until they are near, or so long. Returns whether they are."""
        until = time.monotonic() + seconds
        while not (near := self.near()) and time.monotonic() < until:
            time.sleep(0.05)
        return near

    def shown(self):
        if self.looks == 0:
            return ""
        return f"Processors near each other ({self.least:.0f} ns a cache line, at most {FAR} times that) in {100 * self.near_looks // self.looks} % of {self.looks} looks"
