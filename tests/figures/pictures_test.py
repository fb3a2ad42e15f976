"""Pictures of docs/figures can be read, and are what their committed points give:   pictures_test.py ROOT

Faults that are planted into small pictures are found. Nothing is simulated or measured."""
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

from chart import Axis, figure
from pictures import faults, lines, texts

NAMES = ["one", "two"]


def drawn(panels, y, directory):
    path = os.path.join(directory, "small.svg")
    figure(path, "A picture", "Simulator; link 10 Gbit/s; path MTU 4096; one run.", Axis("x, us", [1, 10, 100], log=True), y, panels)
    return path


def planted(directory):
    """A sound picture has no fault; each planted one is found."""
    path = drawn([("panel", [(name, [(1, 2), (10, 3 + place), (100, 5)]) for place, name in enumerate(NAMES)])], Axis("y, us", [1, 10, 100], log=True, none="none"), directory)
    assert faults(path) == [], faults(path)
    with open(path) as file:
        sound = file.read()
    edge = next(each.get("y") for each in xml.fromstring(sound).iter() if each.get("class") == "f")
    for what, changes, find in (
            ("texts overlap", {'"middle">10<': f'"middle">{"0" * 90}<'}, texts),
            ("a text leaves the picture", {">A picture<": f">{'A long picture ' * 10}<"}, texts),
            ("series differ in colour alone", {' stroke-dasharray="8 3" points': " points", "#m1": "#m0"}, lines),
            ("a point on the edge", {'points="': f'points="100,{edge} '}, lines)):
        spoilt = sound
        for old, new in changes.items():
            assert old in spoilt, f"{what}: nothing to plant it in"
            spoilt = spoilt.replace(old, new)
        assert list(find(xml.fromstring(spoilt))), f"{what}: not found"


def refused():
    """No zero on a logarithmic axis without a place of its own, and no value beyond an axis."""
    for axis, value in ((Axis("y", [1, 10], log=True), 0), (Axis("y", [1, 10], log=True, none="none"), 0.5), (Axis("y", [0, 1]), 1.1)):
        try:
            axis.place(value)
        except ValueError:
            continue
        raise AssertionError(f"{value} was drawn on an axis from {axis.low} to {axis.high}")


def redrawn(root, directory):
    """Pictures and tables again, from the committed points: the committed ones."""
    committed = os.path.join(root, "docs", "figures")
    subprocess.run(["bash", os.path.join(root, "tests", "figures", "redraw"), directory], check=True)
    pictures = 0
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name)) as new, open(os.path.join(committed, name)) as old:
            assert new.read() == old.read(), f"docs/figures/{name} is not what its points give: bash tests/figures/redraw"
        if name.endswith(".svg"):
            pictures += 1
            assert not faults(os.path.join(directory, name)), f"docs/figures/{name}: {faults(os.path.join(directory, name))}"
    others = [name for name in os.listdir(committed) if name.endswith(".svg") and not os.path.exists(os.path.join(directory, name))]
    for name in others:
        assert not faults(os.path.join(committed, name)), f"docs/figures/{name}: {faults(os.path.join(committed, name))}"
    print(f"{pictures} pictures are what their points give; {len(others)} more can be read")


def main(root):
    refused()
    with tempfile.TemporaryDirectory(prefix="brdma-pictures-") as directory:
        planted(directory)
    with tempfile.TemporaryDirectory(prefix="brdma-pictures-") as directory:
        redrawn(root, directory)


if __name__ == "__main__":
    main(sys.argv[1])
