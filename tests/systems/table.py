"""Writes the table of docs/reference/systems.md, between its marks, from the results that tests/systems/run left: a line a compiler.

A system that was not run now keeps its line.
"""
import pathlib
import sys

BEGIN, END = "<!-- written by bash tests/run systems -->", "<!-- end -->"
HEAD = ["system", "compiler", "CMake", "glibc", "Boost", "CLI11", "libibverbs", "libbpf", "programs", "quickstart", "lanes of tests/run"]
KEYS = ["compiler", "cmake", "glibc", "libboost-dev", "libcli11-dev", "libibverbs-dev", "libbpf-dev", "build", "quickstart", "lanes"]


def row(path):
    found = dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)
    name, compiler = path.name.split(".", 1) if not path.name.startswith("ubuntu") else path.name.rsplit(".", 1)
    cells = [found.get(key, "not run") for key in KEYS]
    cells[0] = f"{compiler} {cells[0]}"
    return [name.replace("-", " ", 1).capitalize() if name != "aarch64" else "Debian 12, aarch64"] + cells


def main():
    results, page = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    text = page.read_text()
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    rows = {}
    for line in old.strip().splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[cells[0], cells[1].split(" ")[0]] = cells
    for path in sorted(results.iterdir()):
        if path.suffix != ".log" and path.read_text().strip():
            cells = row(path)
            rows[cells[0], cells[1].split(" ")[0]] = cells
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(cells) + " |" for _, cells in sorted(rows.items())]
    page.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + after)


main()
