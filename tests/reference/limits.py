"""docs/reference/limits.md: limits.tsv with the values that the code has."""

from settings import rows_of
from sources import Mistake, constant, grouped, markdown, table


def setting(source, rows):
    kind, key = source.split(":")
    if key not in rows:
        raise Mistake(f"limits: there is no setting {key}")
    if kind == "max":
        return int(rows[key]["allowed"].split("..")[1].split(",")[0])
    return int(rows[key]["default"])


def value_of(source, rows):
    if source.startswith("text:"):
        return source.removeprefix("text:")
    if source.startswith(("setting:", "max:")):
        return setting(source, rows)
    numbers = [constant(*one.rsplit(":", 1)) for one in source.split(" - ")]
    return numbers[0] - numbers[1] if len(numbers) == 2 else numbers[0]


def place(source):
    """The last column: where the value stands."""
    if source.startswith(("setting:", "max:")):
        return "setting"
    if source.startswith("text:"):
        return "by its nature"
    return ", ".join(f"`{path}`" for path in dict.fromkeys(one.rsplit(":", 1)[0] for one in source.split(" - ")))


def tables(build):
    listed, printed = table("limits.tsv"), rows_of(build)
    if printed is None:
        return {}
    rows = {row["key"]: row for row in printed}
    parts = []
    for section in dict.fromkeys(row[0] for row in listed):
        lines = []
        for row in (row for row in listed if row[0] == section):
            _, limit, source, unit, change = row + [""] * (5 - len(row))
            value = value_of(source, rows)
            lines.append([limit, f"{grouped(value)} {unit}".strip(), change, place(source)])
        heading = f"`{section}`" if "_" in section else section
        parts.append(f"## {heading}\n" + markdown(["limit", "value", "changed by; beyond it", "where it stands"], lines))
    return {"limits": "\n".join(parts)}
