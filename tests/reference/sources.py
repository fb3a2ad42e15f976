"""Reads lists out of the sources: X macros, named constants, table rows."""

import ast
import operator
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


class Mistake(Exception):
    """The code has another form than is read here, or a table's file disagrees with it."""


def text_of(path):
    for folder in ("", "libbitmaprdma/"):
        if (ROOT / folder / path).exists():
            return (ROOT / folder / path).read_text(encoding="utf-8")
    raise Mistake(f"there is no file {path}")


def arguments(text):
    """Of a macro's call: what commas outside of strings divide; strings joined."""
    found, inside = [""], False
    for place, letter in enumerate(text):
        if letter == '"' and text[place - 1 : place] != "\\":
            inside = not inside
        if letter == "," and not inside:
            found.append("")
        else:
            found[-1] += letter
    return ["".join(STRING.findall(one)) if '"' in one else one.strip() for one in found]


def macro_rows(path, name):
    """The arguments of each X(...) of `#define NAME(X)`."""
    found = re.search(rf"#define {name}\(X\)((?:.*\\\n)*.*)\n", text_of(path))
    if not found:
        raise Mistake(f"{path} has no list {name}")
    body = found[1].replace("\\\n", "\n")
    rows, at = [], 0
    while (at := body.find("X(", at)) >= 0:
        end, inside = at + 2, False
        while body[end] != ")" or inside:
            inside ^= body[end] == '"'
            end += 1
        note = re.match(r"\)\s*/\* (.*?) \*/", body[end:])
        rows.append(arguments(body[at + 2 : end]) + ([note[1]] if note else []))
        at = end
    if len(rows) < 3:
        raise Mistake(f"{path}: only {len(rows)} rows in {name}")
    return rows


OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.LShift: operator.lshift, ast.FloorDiv: operator.floordiv}
UNIT = re.compile(r"(\d+)_(ns|us|ms|s)\b")


def value(expression, path):
    """Of a constant expression: a number, or a duration as text."""
    expression = re.sub(r"\bstd::\w+(?:<[\w:]+>)?\s*", "", expression).strip().strip("{}").strip()
    duration = UNIT.fullmatch(expression)
    if duration:
        return f"{duration[1]} {duration[2]}"
    plain = re.sub(r"(?<=\d)'(?=\d)", "", expression).replace("{", "(").replace("}", ")")
    plain = re.sub(r"\b(\d+|0x[0-9A-Fa-f]+)[uUlL]+\b", r"\1", plain).replace("/", "//")

    def of(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.Name):
            return constant(path, node.id)
        raise Mistake(f"{path}: cannot compute '{expression}'")

    try:
        return of(ast.parse(plain.strip(), mode="eval").body)
    except SyntaxError as error:
        raise Mistake(f"{path}: cannot compute '{expression}'") from error


def constant(path, name):
    """The value of `... NAME = VALUE` or `NAME{VALUE}` in that file."""
    found = re.search(rf"\b{name}(?: = ([^;,]+?)|\{{([^}}]*)\}})(?=[;,]\s|;|$)", text_of(path), re.MULTILINE)
    if not found:
        raise Mistake(f"{path} has no constant {name}")
    return value(found[1] if found[1] is not None else found[2], path)


def table(path):
    """Rows of a file with tabs; lines that begin with # are comments."""
    lines = (pathlib.Path(__file__).parent / path).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.split("\t")] for line in lines if line.strip() and not line.startswith("#")]


def cell(text):
    """A bar is written with a backslash."""
    return str(text).replace("|", "\\|")


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows]) + "\n"


def grouped(number):
    """1048576 -> 1,048,576"""
    return f"{number:,}" if isinstance(number, int) else str(number)
