"""Line charts as SVG: rows of panels with common axes, one line a series. No dependencies."""
import math
from html import escape

COLOURS = ["#b03a2e", "#ca8a04", "#2874a6", "#1e8449", "#7d3c98", "#566573", "#0e9aa7", "#d35400", "#34495e"]
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 300, 220, 58, 34, 12, 46


class Axis:
    """Linear, logarithmic, or one step a value; `ticks` are the values that are labelled."""

    def __init__(self, label, ticks, log=False, steps=False):
        self.label, self.ticks, self.log, self.steps = label, ticks, log, steps

    def place(self, value):
        """0..1"""
        if self.steps:
            return self.ticks.index(value) / max(len(self.ticks) - 1, 1)
        low, high = self.ticks[0], self.ticks[-1]
        value = min(max(value, low), high)
        if self.log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)


def number(value):
    return value if isinstance(value, str) else f"{value:g}"


def panel(title, x, y, series, left):
    """`series`: [(name, [(x, y)])]. Lines keep their colour by their place."""
    at_x = lambda value: LEFT + x.place(value) * WIDTH
    at_y = lambda value: TOP + (1 - y.place(value)) * HEIGHT
    out = [f'<g transform="translate({left},0)">',
           f'<text x="{LEFT + WIDTH / 2}" y="{TOP - 12}" text-anchor="middle" font-weight="bold">{escape(title)}</text>',
           f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888"/>']
    for tick in x.ticks:
        out.append(f'<text x="{at_x(tick):.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{number(tick)}</text>')
    for tick in y.ticks:
        out.append(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{at_y(tick):.1f}" y2="{at_y(tick):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{at_y(tick) + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    out.append(f'<text x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 34}" text-anchor="middle">{escape(x.label)}</text>')
    for place, (_, points) in enumerate(series):
        colour = COLOURS[place % len(COLOURS)]
        dots = [(at_x(a), at_y(b)) for a, b in points]
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="' +
                   " ".join(f"{a:.1f},{b:.1f}" for a, b in dots) + '"/>')
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{colour}"/>' for a, b in dots]
    return "\n".join(out + ["</g>"])


def legend(names, width):
    """Places of the names, (left, line), as many lines as they need."""
    places, at, line = [], LEFT, 0
    for name in names:
        step = 40 + 8 * len(name)
        if at + step > width and at > LEFT:
            at, line = LEFT, line + 1
        places.append((at, line))
        at += step
    return places


def figure(path, title, x, y, panels):
    """`panels`: [(title, series)], side by side; the legend is the first panel's series."""
    step = LEFT + WIDTH + RIGHT
    width, names = step * len(panels) + 10, [name for name, _ in panels[0][1]]
    places = legend(names, width)
    top = TOP + HEIGHT + BOTTOM + 44
    height = top + 16 + 18 * max((line for _, line in places), default=0)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="10" y="20" font-size="15" font-weight="bold">{escape(title)}</text>', '<g transform="translate(0,26)">']
    out += [panel(name, x, y, series, place * step) for place, (name, series) in enumerate(panels)]
    out.append(f'<text transform="translate(14,{TOP + HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y.label)}</text></g>')
    for place, (name, (at, line)) in enumerate(zip(names, places)):
        out.append(f'<circle cx="{at}" cy="{top + 18 * line}" r="5" fill="{COLOURS[place % len(COLOURS)]}"/>'
                   f'<text x="{at + 10}" y="{top + 4 + 18 * line}">{escape(name)}</text>')
    with open(path, "w") as file:
        file.write("\n".join(out + ["</svg>"]) + "\n")


def table(head, rows):
    """Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"
