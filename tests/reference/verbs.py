"""docs/reference/verbs.md: verbs.tsv, with what the code says of each call: whether it is served, and by what."""

import pathlib
import re
import subprocess

from sources import ROOT, Mistake, markdown, table, text_of

NEWEST = 65  # release of rdma-core whose calls verbs.tsv lists
HEADERS = ("infiniband/verbs.h", "rdma/rdma_cma.h", "rdma/rdma_verbs.h")
DECLARED = re.compile(r"^(?:#define\s+|[A-Za-z_][\w\s*]*?[\s*])((?:ibv|rdma)_\w+)\s*\(", re.MULTILINE)


def facts():
    """What the code has: operations served, the release of each operation, functions, commands."""
    operations = re.findall(r'visit\("(\w+)"', text_of("provider/verbs/verbs.h"))
    table_of_ops = {name: int(since or 0) for name, since in re.findall(r'\{"(\w+)"(?:, (\d+))?(?:, \d+)?\}', text_of("provider/abi/op_table.cc"))}
    found = {
        "op": set(operations),
        "wr": set(re.findall(r"(?:ex\.wr_\w+ = |set_later\(.*, )wr_(\w+)\)?;", text_of("provider/work_requests/wr_functions.cc"))),
        "reader": set(re.findall(r"cq\.(\w+)[,; ]", text_of("provider/completions/completion_queue_ex.cc"))),
        "cm": set(re.findall(r"\{Command::k(\w+), ", text_of("provider/rdma_cm/execute.cc"))),
    }
    for name, members in found.items():
        if len(members) < 10:
            raise Mistake(f"verbs: only {len(members)} {name} found in the code")
    return found, table_of_ops


def shown(call, test):
    """The test as a link; it must name the call."""
    if not test:
        return ""
    path, _, word = test.partition(":")
    file = ROOT / "tests" / path
    if not file.exists() or not re.search(rf"\b{word or call}\b", file.read_text(encoding="utf-8")):
        raise Mistake(f"verbs: tests/{path} does not name {word or call}")
    return f"[{pathlib.Path(path).stem}](../../tests/{path})"


class Row:
    def __init__(self, cells):
        self.section, self.call, self.since, self.by, self.note, self.test = cells + [""] * (6 - len(cells))
        self.kind, _, self.what = self.by.partition(":")

    def served(self, found, operations, rows):
        """yes, or no and the errno or the call that refuses."""
        if self.kind == "op":
            if self.what not in operations:
                raise Mistake(f"verbs: {self.call}: provider/abi/op_table.cc has no operation {self.what}")
            if operations[self.what] > max(int(self.since), 28):
                raise Mistake(f"verbs: {self.call} is of release {self.since}, its operation of {operations[self.what]}")
            return ("yes", "") if self.what in found["op"] else ("no", "`EOPNOTSUPP`")
        if self.kind in found:
            if self.what not in found[self.kind]:
                raise Mistake(f"verbs: {self.call}: the code has no {self.kind} {self.what}")
            return "yes", ""
        if self.kind in ("as", "at"):
            if self.what not in rows:
                raise Mistake(f"verbs: {self.call}: there is no row of {self.what}")
            return ("yes", f"as `{self.what}`") if self.kind == "as" else ("no", f"`{self.what}` refuses before")
        fixed = {"library": ("yes", "the library's own"), "files": ("yes", "by the device files"), "ours": ("yes", ""), "command": ("yes", ""), "kernel": ("no", "`EOPNOTSUPP`"), "refused": ("no", f"`{self.what}`")}
        if self.kind not in fixed:
            raise Mistake(f"verbs: {self.call}: '{self.by}' is unknown")
        return fixed[self.kind]


def installed_calls():
    """Calls of this machine's headers; none where their release is later than the list."""
    done = subprocess.run(["pkg-config", "--modversion", "libibverbs"], capture_output=True, text=True, check=False)
    parts = done.stdout.strip().split(".")
    if done.returncode != 0 or len(parts) < 3 or int(parts[-2]) > NEWEST:
        return set()
    found = set()
    for name in HEADERS:
        file = pathlib.Path("/usr/include") / name
        if file.exists():
            text = re.sub(r"/\*.*?\*/", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
            found |= set(DECLARED.findall(text))
    return found


def tables(_build):
    listed = [Row(cells) for cells in table("verbs.tsv")]
    rows = {row.call: row for row in listed}
    if len(rows) != len(listed):
        raise Mistake("verbs: a call has two rows")
    found, operations = facts()
    missing = found["op"] - {row.what for row in listed if row.kind == "op"}
    if missing:
        raise Mistake(f"verbs: verbs.tsv has no call of the operations {sorted(missing)}")
    absent = {call for call in installed_calls() if call not in rows}
    if absent:
        raise Mistake(f"verbs: verbs.tsv has no row of {sorted(absent)}")
    parts, counts = [], {"yes": 0, "no": 0}
    for section in dict.fromkeys(row.section for row in listed):
        lines = []
        for row in (row for row in listed if row.section == section):
            served, how = row.served(found, operations, rows)
            counts[served] += 1
            test = shown(row.call, row.test) or (shown(row.what, rows[row.what].test) if row.kind in ("as", "at") else "")
            since = row.since if int(row.since) > 28 else ""
            lines.append([f"`{row.call}`", served, since, "; ".join(filter(None, (how, row.note))), test])
        parts.append(f"## {section}\n" + markdown(["call", "served", "since", "how, or the errno", "test"], lines))
    head = f"{len(listed)} calls: {counts['yes']} served, {counts['no']} refused.\n\n"
    return {"verbs": head + "\n".join(parts)}
