#!/usr/bin/env python3
"""The tables of docs/reference that are made from lists in the code: compares each with the page, or writes it there.

    tables.py [--write] [BUILD]     settings and limits need BUILD's brdma; without it they are left out, and that is reported

In a page a table stands between `<!-- NAME: written by tests/reference/tables.py --write -->` and `<!-- end of NAME -->`.
"""

import difflib
import sys

import counters
import events
import limits
import settings
import verbs
from sources import ROOT, Mistake

PAGES = {"settings.md": ["settings"], "counters.md": ["device counters", "queue pair counters", "drop reasons", "connection counters", "link counters"],
         "events.md": ["events", "alarms", "causes", "retransmission reasons"], "limits.md": ["limits"], "verbs.md": ["verbs"]}
COMMAND = "python3 tests/reference/tables.py --write build"


def marks(name):
    return f"<!-- {name}: written by tests/reference/tables.py --write -->\n", f"\n<!-- end of {name} -->"


def replaced(page, text, name, table):
    """The page's text with that table, and the table that it had."""
    begin, end = marks(name)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise Mistake(f"{page} has no place for the table '{name}'")
    before, rest = text.split(begin)
    old, after = rest.split(end)
    return before + begin + table + end + after, old


def main():
    words = sys.argv[1:]
    write = "--write" in words
    build = next((word for word in words if not word.startswith("-")), "")
    made, failed, left_out = {}, 0, []
    for module in (settings, counters, events, limits, verbs):
        made.update(module.tables(build))
    for page, names in PAGES.items():
        path = ROOT / "docs" / "reference" / page
        text = old_text = path.read_text(encoding="utf-8")
        for name in names:
            if name not in made:
                left_out.append(name)
                continue
            text, old = replaced(path, text, name, made[name])
            if not write and old != made[name]:
                failed += 1
                differences = [line for line in difflib.unified_diff(old.splitlines(), made[name].splitlines(), "page", "code", n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))]
                print(f"docs: docs/reference/{page}: the table '{name}' differs from the code ('{COMMAND}' writes it):\n  " + "\n  ".join(differences[:4]), file=sys.stderr)
        if write and text != old_text:
            path.write_text(text, encoding="utf-8")
    if not failed:
        rows = sum(table.count("\n| ") for table in made.values())
        print(f"docs: {len(made)} tables of docs/reference are as the code: {rows} rows" + (f"; SKIPPED without a build: {', '.join(left_out)}" if left_out else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Mistake as mistake:
        sys.exit(f"docs: {mistake}")
