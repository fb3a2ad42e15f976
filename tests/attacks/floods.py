"""Floods of one user against brdmad --system (tests/daemon/users_test.cc, Floods): memory of the worker and time to
answer others."""

import os
import re
import subprocess

from parts import TIMEOUT_SECONDS, Skipped, expect, has_root

ANSWER_MS, MEMORY_MB = 100, 64


def run(options):
    if not has_root():
        raise Skipped("two users take root")
    program = os.path.join(options.build, "bin", "daemon_test")
    done = subprocess.run([program, "--gtest_filter=System/Floods.*"], capture_output=True, text=True, timeout=5 * TIMEOUT_SECONDS, check=False)
    floods = {}
    for name, text in re.findall(r"\[ RUN      \] System/Floods\.\w+/(\w+)\n(.*?)\[ ", done.stdout, re.DOTALL):
        figure = re.search(r"(\d+) answers, median (\d+) ms, longest (\d+) ms; worker's memory (\d+) MB", text)
        if figure:
            floods[name] = dict(zip(("answers", "median_ms", "longest_ms", "memory_mb"), map(int, figure.groups())))
    expect(done.returncode == 0, done.stdout[-3000:])
    expect(len(floods) >= 6, f"figures of {len(floods)} floods alone:\n{done.stdout[-3000:]}")
    slowest, largest = max(flood["median_ms"] for flood in floods.values()), max(flood["memory_mb"] for flood in floods.values())
    longest = max(flood["longest_ms"] for flood in floods.values())
    expect(slowest <= ANSWER_MS and largest <= MEMORY_MB, str(floods))
    return {"floods": floods}, f"{len(floods)} local floods: median answer at most {slowest} ms, longest {longest} ms; worker at most {largest} MB"
