"""Packets and connection messages forged without having seen any (unit/device/device_forgery_test.cc, unit/cm/cm_forgery_test.cc,
forged_mads_test.cc): so many of each kind, none accepted. The two programs, and the packets' kinds, run beside each
other, on all cores."""

import os
import re
import subprocess
import time

from parts import expect

# Program, tests, and the divisor of their number: of each kind of message a hundredth, 100,000 at least.
KINDS = {
    "packets": ("device_forgery_test", "Forgery.NoGuessedTokenIsAccepted", 1),
    "standard packets": ("device_forgery_test", "Forgery.StandardPacketsAreRefusedOnceBitmapModeIsAgreed", 1),
    "CAPS": ("device_forgery_test", "Forgery.ForgedCapsChangeNothing", 1),
    "connection messages": ("cm_forgery_test", "Managers.BlindForgeriesOfEachKindEndNothing", 1),
    "messages of each kind": ("forged_mads_test", "Each/ForgedMads.*", 100),
}


def run(options):
    waiting, running, took = list(KINDS.items()), {}, {}
    try:
        while waiting or running:
            while waiting and len(running) < os.cpu_count():
                name, (program, test, share) = waiting.pop(0)
                environment = {**os.environ, "BRDMA_FORGERIES": str(max(options.forgeries // share, 100_000))}
                command = [os.path.join(options.build, "bin", program), f"--gtest_filter={test}"]
                running[name] = (subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True), time.monotonic())
            for name, (process, began) in list(running.items()):
                if process.poll() is None:
                    continue
                output = process.stdout.read()
                del running[name]
                took[name] = round(time.monotonic() - began, 1)
                expect(process.returncode == 0 and re.search(r"PASSED  \] \d+ test", output), f"{name}:\n{output[-3000:]}")
            time.sleep(0.1)
    finally:
        for process, _ in running.values():
            process.kill()
            process.wait()
    seconds = ", ".join(f"{name} {value} s" for name, value in took.items())
    return {"of_each": options.forgeries, "seconds": took}, f"{options.forgeries} forgeries of each kind, none taken: {seconds}"
