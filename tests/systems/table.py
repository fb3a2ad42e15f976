"""Writes a table of docs/reference/systems.md, between its marks, from the results that tests/systems/run left: a line a compiler.
With --packages first, from those of tests/systems/packages: a line a system. What was not run now keeps its line.
"""
import pathlib
import sys

BEGIN, END = "<!-- written by bash tests/run systems -->", "<!-- end -->"
PACKAGES_BEGIN = "<!-- written by SYSTEMS_ONLY=packages bash tests/run systems -->"
PACKAGES_HEAD = ["system", "packages"]
HEAD = ["system", "compiler", "CMake", "glibc", "Boost", "CLI11", "libibverbs", "libbpf", "programs", "quickstart", "lanes of tests/run"]
KEYS = ["compiler", "cmake", "glibc", "libboost-dev", "libcli11-dev", "libibverbs-dev", "libbpf-dev", "build", "quickstart", "lanes"]


def system(name):
    return "Debian 12, aarch64" if name == "aarch64" else name.replace("-", " ", 1).capitalize()


def row(path):
    found = dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)
    name, compiler = path.name.rsplit(".", 1)
    cells = [found.get(key, "not run") for key in KEYS]
    cells[0] = f"{compiler} {cells[0]}"
    return [system(name)] + cells


def packages_row(path):
    return [system(path.name), path.read_text().strip()]


def write(page, begin, head, key, new):
    """The table at `begin`; `key`: what a line is known by."""
    text = page.read_text()
    before, rest = text.split(begin)
    old, after = rest.split(END, 1)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in old.strip().splitlines()[2:]]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cells) + " |" for _, cells in sorted({key(cells): cells for cells in rows + new}.items())]
    page.write_text(before + begin + "\n" + "\n".join(lines) + "\n" + END + after)


def main():
    of_packages = sys.argv[1] == "--packages"
    results, page = (pathlib.Path(word) for word in sys.argv[1 + of_packages :])
    found = [path for path in sorted(results.iterdir()) if path.suffix != ".log" and path.read_text().strip()]
    if of_packages:
        write(page, PACKAGES_BEGIN, PACKAGES_HEAD, lambda cells: cells[0], [packages_row(path) for path in found])
    else:
        write(page, BEGIN, HEAD, lambda cells: (cells[0], cells[1].split(" ")[0]), [row(path) for path in found])


main()
