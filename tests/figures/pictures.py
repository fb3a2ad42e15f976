"""Whether pictures can be read:   pictures.py PICTURE.svg...

- no text overlaps another one or leaves the picture (widths are estimated);
- series of one diagram differ in marker or dash, not in colour alone;
- on a logarithmic axis no point lies on the frame's edge: it would be a zero, or a value beyond the axis.

A name, a line for each fault, and exit code 1 if there is one."""
import re
import sys
import xml.etree.ElementTree as xml

from text import text_width

TOUCH = 1.5  # px that boxes may share: the estimate is no better
ASCENT, DESCENT = 0.75, 0.2  # of the size of a font
EDGE = 0.15  # px


def moved(element, at):
    """The place of an element's origin, and whether it is turned by 90 degrees."""
    x, y, turned = at
    for name, values in re.findall(r"(\w+)\(([^)]*)\)", element.get("transform", "")):
        numbers = [float(each) for each in re.split(r"[ ,]+", values.strip())]
        if name == "translate":
            x, y = x + numbers[0], y + (numbers[1] if len(numbers) > 1 else 0)
        elif name == "rotate" and numbers[0] == -90:
            turned = True
    return x, y, turned


def walk(element, at=(0.0, 0.0, False), size=12.0):
    """Each element with its origin and size of font."""
    at, size = moved(element, at), float(element.get("font-size", size))
    yield element, at, size
    for child in element:
        yield from walk(child, at, size)


def tag(element):
    return element.tag.rsplit("}", 1)[-1]


def box(element, at, size):
    """Left, top, right, bottom of a text."""
    x, y, turned = at
    width = text_width(element.text or "", size, element.get("font-weight") == "bold")
    before = {"middle": width / 2, "end": width}.get(element.get("text-anchor"), 0)
    x, y = x + float(element.get("x", 0)), y + float(element.get("y", 0))
    if turned:
        return x - ASCENT * size, y + before - width, x + DESCENT * size, y + before
    return x - before, y - ASCENT * size, x - before + width, y + DESCENT * size


def overlaps(a, b):
    return min(a[2], b[2]) - max(a[0], b[0]) > TOUCH and min(a[3], b[3]) - max(a[1], b[1]) > TOUCH


def texts(root):
    width, height = float(root.get("width")), float(root.get("height"))
    found = [((element.text or ""), box(element, at, size)) for element, at, size in walk(root) if tag(element) == "text"]
    for place, (words, here) in enumerate(found):
        if here[0] < -TOUCH or here[1] < -TOUCH or here[2] > width + TOUCH or here[3] > height + TOUCH:
            yield f"'{words}' leaves the picture"
        yield from (f"'{words}' overlaps '{others}'" for others, there in found[:place] if overlaps(here, there))


def series_of(panel):
    """(name, dashes, marker, places) of each line; a line of its own without a group is one as well."""
    def look(elements):
        dash = {each.get("stroke-dasharray", "") for each in elements if tag(each) == "polyline"}
        marks = {each.get("href") or tag(each) for each in elements if tag(each) in ("use", "circle")}
        lines = " ".join(each.get("points", "") for each in elements if tag(each) == "polyline")
        places = [tuple(map(float, each.split(","))) for each in lines.split()]
        return ",".join(sorted(dash)), ",".join(sorted(marks)), places
    named = [each for each in panel if each.get("data-series") is not None]
    if named:
        return [(each.get("data-series"), *look(list(each))) for each in named]
    found, lines = [], [place for place, each in enumerate(panel) if tag(each) == "polyline"]
    for number, (start, end) in enumerate(zip(lines, [*lines[1:], len(panel)]), 1):
        found.append((f"line {number}", *look(list(panel)[start:end])))
    return found


def logarithmic(panel):
    """By the numbers beside the frame."""
    ticks = []
    for each in panel:
        if tag(each) == "text" and each.get("text-anchor") == "end":
            found = re.fullmatch(r"([0-9.]+)([kM]?)", each.text or "")
            if found:
                ticks.append(float(found.group(1)) * {"": 1, "k": 1e3, "M": 1e6}[found.group(2)])
    return len(ticks) > 2 and ticks[0] > 0 and abs(ticks[1] / ticks[0] - ticks[2] / ticks[1]) < 0.01 and ticks[1] / ticks[0] >= 2


def panels(root):
    """Groups with a frame: diagrams."""
    for element in root.iter():
        frames = [each for each in element if tag(each) == "rect" and each.get("y") and each.get("height")]
        if tag(element) == "g" and frames:
            title = next((each.text for each in element if tag(each) == "text"), "")
            yield title, element, float(frames[0].get("y")), float(frames[0].get("y")) + float(frames[0].get("height"))


def lines(root):
    for title, panel, top, bottom in panels(root):
        seen = {}
        for name, dash, marks, places in series_of(panel):
            same = seen.setdefault((dash, marks), name)
            if same != name:
                yield f"{title}: {same} and {name} differ in colour alone"
            edge = [y for _, y in places if min(abs(y - top), abs(y - bottom)) < EDGE]
            if edge and logarithmic(panel):
                yield f"{title}: {name} has {len(edge)} points on the edge of a logarithmic axis: zero, or beyond it"


def faults(path):
    root = xml.parse(path).getroot()
    return [*texts(root), *lines(root)]


def main(paths):
    wrong = 0
    for path in paths:
        for each in faults(path):
            wrong += 1
            print(f"{path}: {each}", file=sys.stderr)
    if wrong or not paths:
        sys.exit(f"pictures: {wrong} faults in {len(paths)} pictures")
    print(f"pictures: {len(paths)} without overlapping texts, series that differ in colour alone, or zeros on a logarithmic axis")


if __name__ == "__main__":
    main(sys.argv[1:])
