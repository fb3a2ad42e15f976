"""Reads Prometheus' text form, version 0.0.4, and fails for what a careless writer gets wrong: a sample without HELP and TYPE, a family in two
places, a sample twice, a counter that is not called `_total`."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)\Z")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|\Z)')


class Family:
    def __init__(self, text):
        self.help, self.type, self.samples = text, None, {}  # by sorted pairs of labels


def labels_of(text):
    found = LABEL.findall(text)
    assert "".join(f'{key}="{value}",' for key, value in found).rstrip(",") == text.rstrip(","), f"labels: {text}"
    return tuple(sorted(found))


def read(text):
    """Families by name."""
    assert text.endswith("\n"), "the last line has no end"
    families, current = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, current, words = line.split(" ", 3)
            assert current not in families and words, f"HELP of {current}: empty, or a second one"
            families[current] = Family(words)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and families[name].type is None and kind in ("counter", "gauge"), line
            assert (kind == "counter") == name.endswith("_total"), f"{name} is a {kind}"
            families[name].type = kind
        else:
            found = SAMPLE.match(line)
            assert found, f"no sample: {line}"
            assert found[1] == current and families[current].type, f"{found[1]} is not behind its HELP and TYPE"
            key = labels_of(found[2] or "")
            assert key not in families[current].samples, f"twice: {line}"
            families[current].samples[key] = float(found[3])
    return families


def value(families, name, **labels):
    return families[name].samples[tuple(sorted(labels.items()))]
