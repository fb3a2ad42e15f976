"""The code blocks of the documents, and their treatment in the lanes `docs` and `commands`.

Every block names its language. Two of them hold commands:

    ```sh         commands, one a line, a backslash joins two; a comment says what a reader should know
    ```console    the same with their output: "$ " or, of root's shell, "# " begins a command, other lines are its output

The page's output must be printed, in that order; a line `...` stands for more output. Numbers, times and sizes differ
from run to run: the comparison uses `masked` of both. An HTML comment right above a block, which readers do not see,
has notes for the lane `commands`:

    <!-- commands
    not typed: REASON        the block cannot run on one machine, or not there
    not typed as user: REASON        the same, for one of the two users
    PROGRAM=ib_write_bw      replaces a placeholder in the block; `TEXT => TEXT` for more than a word
    before: COMMAND          typed first, to reach the page's state
    after: COMMAND           typed at the end, after success or failure
    seconds: 900             time limit, if more than 120
    needs: the build         the programs alone are not enough (`commands --programs`)
    network: the machine's        it needs the archive; else it is typed in a network namespace of its own
    -->
"""

import dataclasses
import re
import subprocess

FENCE = re.compile(r"^```(.*)$")
MARKER = re.compile(r"<!-- commands\n(.*?)-->\s*\Z", re.DOTALL)
KEYS = ("needs", "network", "not typed", "not typed as root", "not typed as user", "before", "after", "seconds")
COMMANDS, OUTPUT = ("sh", "console"), "console"


class Mistake(Exception):
    """An error in a page."""


@dataclasses.dataclass
class Step:
    command: str
    output: list  # lines that the page shows; empty: none


@dataclasses.dataclass
class Block:
    page: str
    line: int  # of its first fence
    language: str
    steps: list
    notes: dict  # notes of the comment above: lists, by key
    replaced: list  # pairs

    @property
    def name(self):
        return f"{self.page}:{self.line}"

    def reason_not_typed(self, user):
        for key in ("not typed", f"not typed as {user}"):
            if key in self.notes:
                return self.notes[key][0]
        return None

    def fill(self, command):
        for old, new in self.replaced:
            command = command.replace(old, new)
        return command


def notes_of(text, where):
    notes, replaced = {}, []
    for line in filter(None, map(str.strip, text.splitlines())):
        key, colon, value = line.partition(": ")
        if " => " in line:
            replaced.append(tuple(line.split(" => ", 1)))
        elif re.match(r"^[A-Z_]+=", line):
            replaced.append(tuple(line.split("=", 1)))
        elif colon and key in KEYS:
            notes.setdefault(key, []).append(value)
        else:
            raise Mistake(f"{where}: the comment says '{line}', which tests/lanes/blocks.py does not know")
    return notes, replaced


def steps_of(language, lines):
    steps, joined = [], ""
    for line in lines:
        if language == OUTPUT and not joined:
            if not line.startswith(("$ ", "# ")):
                if not steps:
                    raise Mistake(f"output '{line}' before a command")
                steps[-1].output.append(line)
                continue
            line = line[2:]
        joined += line
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        if joined.strip() and not joined.lstrip().startswith("#"):
            steps.append(Step(joined, []))
        joined = ""
    return steps


def blocks_of(page, text):
    """All blocks with commands; Mistake if a block names no language."""
    found, inside, before, language, start = [], None, "", "", 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if not fence:
            if inside is None:
                before += line + "\n"
            else:
                inside.append(line)
        elif inside is None:
            inside, language, start = [], fence[1].strip(), number
            if not language:
                raise Mistake(f"{page}:{number}: a block without a language: ```sh and ```console for commands, ```text for what is none")
        else:
            marker = MARKER.search(before)
            if language in COMMANDS:
                where = f"{page}:{start}"
                notes, replaced = notes_of(marker[1] if marker else "", where)
                try:
                    found.append(Block(page, start, language, steps_of(language, inside), notes, replaced))
                except Mistake as mistake:
                    raise Mistake(f"{where}: {mistake}") from None
            inside, before = None, ""
    if inside is not None:
        raise Mistake(f"{page}:{start}: a block without an end")
    return found


def pages(root="."):
    listed = subprocess.run(["git", "-C", root, "ls-files", "*.md"], capture_output=True, text=True, check=True).stdout
    return sorted(listed.split())


def all_blocks(root="."):
    found = []
    for page in pages(root):
        with open(f"{root}/{page}", encoding="utf-8") as file:
            found += blocks_of(page, file.read())
    return found


NUMBER = re.compile(r"\b0x[0-9a-f]+\b|\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?")


def masked(line):
    """A line in comparable form: times are T, numbers N, and any white space is one blank."""
    return " ".join(NUMBER.sub("N", TIME.sub("T", line)).split())


def missing_line(expected, printed):
    """The first of the page's lines that is missing in the output, behind those before it; None: all are there."""
    rest = iter([masked(line) for line in printed])
    return next((line for line in expected if line.strip() != "..." and masked(line) not in rest), None)
