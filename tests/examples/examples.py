#!/usr/bin/env python3
"""Builds and runs the programs of docs/examples and docs/tutorial as their pages say: as root and, with --as-nobody, without.
Last line: `N passed, M failed, K skipped`; exit code 77: the language of the only case is not installed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import own_network  # noqa: E402
from own_network import needs, output_of  # noqa: E402

EXAMPLES = os.path.realpath(os.path.join(HERE, "..", "..", "docs", "examples"))
TUTORIAL = os.path.realpath(os.path.join(HERE, "..", "..", "docs", "tutorial"))
LINES_MAX = 80
C_FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
CXX_FLAGS = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"]


def source(name):
    return os.path.join(EXAMPLES, name)


def run(build, *command, code=0):
    """The program with our devices in sight; its output."""
    return output_of([os.path.join(build, "bin", "brdma"), "run", "--", *command], code=code)


def run_both(build, *command):
    return run(build, "sh", source("both"), *command)


def compiled(folder, text, name, words):
    """The program that the text makes."""
    path, program = os.path.join(folder, name), os.path.join(folder, name.replace(".", "_"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    output_of([*words[0], "-o", program, path, *words[1]])
    return program


def text_of(name):
    with open(source(name), encoding="utf-8") as file:
        return file.read()


def moves_and_checks(build, name, words, said):
    """The program ends well; with a client that has other data the server does not."""
    with tempfile.TemporaryDirectory() as folder:
        text = text_of(name)
        program = compiled(folder, text, name, words)
        assert said in run_both(build, program)
        os.rename(program, program + "_server")
        assert text.count("i * 7") >= 1
        other = compiled(folder, text.replace("i * 7", "i * 5"), name, words)
        both = os.path.join(folder, "mixed")
        with open(both, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\n[ $# = 0 ] && exec {program}_server\nexec {other} "$@"\n')
        done = subprocess.run([os.path.join(build, "bin", "brdma"), "run", "--", "sh", source("both"), "sh", both], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0, f"{name}: it does not notice other data\n{done.stdout}{done.stderr}"


def write_in_c(build):
    moves_and_checks(build, "write.c", ([needs("cc"), *C_FLAGS], ["-libverbs"]), "1048576 bytes are here")


def send_in_cxx(build):
    moves_and_checks(build, "send.cc", ([needs("c++"), *CXX_FLAGS], ["-lrdmacm", "-libverbs"]), "the message is whole")


def read_in_python(build):
    if subprocess.run(["/usr/bin/python3", "-c", "import pyverbs.device"], capture_output=True, check=False).returncode != 0:
        raise own_network.Skip("python3-pyverbs is not installed")
    assert "1048576 bytes are read" in run_both(build, "/usr/bin/python3", source("read.py"))
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "mixed.py")
        text = text_of("read.py")
        assert "at * 7" in text
        with open(script, "w", encoding="utf-8") as file:  # the server has other data
            file.write(text.replace("at * 7", "at * (7 if len(sys.argv) > 1 else 5)"))
        done = subprocess.run([os.path.join(build, "bin", "brdma"), "run", "--", "sh", source("both"), "/usr/bin/python3", script], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0 and "other data than the server has" in done.stderr, done


def loopback_in_go(build):
    needs("cc")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "loopback")
        environment = {**os.environ, "GOCACHE": os.path.join(folder, "cache"), "GOFLAGS": "-mod=mod", "GOPATH": folder, "HOME": folder}
        output_of([needs("go"), "build", "-o", program, source("loopback.go")], seconds=200, env=environment, cwd=folder)
        assert "1048576 bytes are here" in run(build, program)


def loopback_in_rust(build):
    needs("cc")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "loopback")
        output_of([needs("rustc"), "-O", "-o", program, source("loopback.rs"), "-l", "ibverbs"], seconds=200, cwd=folder)
        assert "1048576 bytes are here" in run(build, program)


def tests_in_cmake(build):
    needs("cmake")
    with tempfile.TemporaryDirectory() as folder:
        output_of(["cmake", "-G", "Ninja", "-S", EXAMPLES, "-B", folder, f"-DBRDMA={build}/bin/brdma"])
        output_of(["cmake", "--build", folder], seconds=120)
        said = output_of(["ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error"], seconds=120)
        assert re.search(r"tests passed, 0 tests failed out of 2", said), said


def tests_in_meson(build):
    needs("meson")
    with tempfile.TemporaryDirectory() as folder:
        path = {**os.environ, "PATH": f"{build}/bin:{os.environ['PATH']}"}
        output_of(["meson", "setup", folder, EXAMPLES], env=path)
        said = output_of(["meson", "test", "-C", folder], seconds=120, env=path)
        assert re.search(r"Ok:\s+2", said), said


def tutorial_program(build):
    """On loopback; in a lab, whose client starts when the server listens by RDMA-CM; without the right, the client sees the error."""
    with open(os.path.join(TUTORIAL, "greet.c"), encoding="utf-8") as file:
        text = file.read()
    assert len(text.splitlines()) < 100, "docs/tutorial/2-your-program.md: below 100 lines"
    words = ([needs("cc"), *C_FLAGS], ["-lrdmacm", "-libverbs"])
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(folder, text, "greet.c", words)
        assert "bytes are here: hello from" in run_both(build, program)
        lab = [os.path.join(build, "bin", "brdma"), "lab", "pair", "--name", f"greet{os.getpid()}", "--wait", "1000"]
        assert "h1| 13 bytes are here: hello from h2" in output_of([*lab, "--loss", "1%", "--", program], seconds=100)
        right = " | IBV_ACCESS_REMOTE_WRITE"
        assert right in text
        guarded = compiled(folder, text.replace(right, ""), "guarded.c", words)
        said = output_of([*lab, "--", guarded], code=1, seconds=100)
        assert "h2| WRITE: remote access error" in said and "h1| no message: " in said, said


def tutorial_in_cmake(build):
    needs("cmake")
    with tempfile.TemporaryDirectory() as folder:
        output_of(["cmake", "-S", TUTORIAL, "-B", folder, f"-DBRDMA={build}/bin/brdma"])
        output_of(["cmake", "--build", folder], seconds=120)
        output_of(["ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error"], seconds=120)


def none_is_long(_build):
    for name in sorted(os.listdir(EXAMPLES)):
        if name in ("README.md", "write_events"):  # the latter shows a whole interface: docs/explanation/transfers.md
            continue
        lines = text_of(name).splitlines()
        assert len(lines) < LINES_MAX, f"{name} has {len(lines)} lines"
        assert max(map(len, lines)) <= 120, f"{name} has a line of more than 120 characters"


CASES = [write_in_c, send_in_cxx, read_in_python, loopback_in_go, loopback_in_rust, tests_in_cmake, tests_in_meson, tutorial_program, tutorial_in_cmake, none_is_long]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    own_network.add_options(parser)
    return own_network.main(parser.parse_args(), "tests/examples/examples.py", ["docs/examples", "docs/tutorial"], CASES)


if __name__ == "__main__":
    sys.exit(main())
