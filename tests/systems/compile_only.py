"""Compiles the files of the library, the provider and the programs without making objects: a third of a build's time,
and all errors of a compiler or a library's headers. Last line: `N units compile, M do not`; a unit is a file, or
several that are compiled together.

    compile_only.py BUILD [FOLDER...]      default: libbitmaprdma provider utils
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys


def command_of(entry):
    command = re.sub(r" -o \S+", "", entry["command"])
    command = command.replace(" -c ", " -fsyntax-only ")
    return re.sub(r"^\S*ccache ", "", re.sub(r" -(O[123s]|g\d?)\b", "", command))


def compile_one(entry):
    done = subprocess.run(command_of(entry), shell=True, cwd=entry["directory"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return entry["file"], done.returncode, done.stdout


def main():
    build, folders = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] or ["libbitmaprdma", "provider", "utils"]
    source = pathlib.Path(__file__).resolve().parents[2]
    wanted = [f"{place}/{folder}/" for place in (source, build) for folder in folders]  # batches of several sources lie in the build
    entries = [entry for entry in json.loads((build / "compile_commands.json").read_text()) if entry["file"].startswith(tuple(wanted))]
    good = bad = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", os.cpu_count()))) as pool:
        for file, code, output in pool.map(compile_one, entries):
            good, bad = good + (code == 0), bad + (code != 0)
            if code != 0:
                print(f"FAILED: {file}\n{output}", flush=True)
    print(f"{good} units compile, {bad} do not")
    sys.exit(1 if bad or not good else 0)


main()
