#!/usr/bin/env python3
"""A process that passes its kill point unharmed, because another one had the token, sees no effect: a failed call keeps
its errno.

  kill_point_test.py LIBRARY     libbrdma_kill_point.so
"""

import os
import subprocess
import sys

CALLS = 4000  # far more than the interpreter makes by itself
PROGRAM = f"""
import errno, socket
a, b = socket.socketpair()
a.setblocking(False)
for _ in range({CALLS}):
    try:
        a.recv(1)
    except OSError as error:
        assert error.errno == errno.EAGAIN, error
"""


def main():
    for after in (0, 1):  # before the call, and after it
        point = f"0:{CALLS + after}:/nonexistent/token"
        folder, name = os.path.split(sys.argv[1])  # the loader splits LD_PRELOAD at blanks
        environment = dict(os.environ, LD_PRELOAD=name, LD_LIBRARY_PATH=folder, BRDMA_KILL_POINT=point)
        subprocess.run([sys.executable, "-S", "-c", PROGRAM], env=environment, check=True)


main()
