"""Line charts as SVG: panels with common axes, one line a series. No dependencies.

A picture is 720 px wide, for light and dark backgrounds. A series has a marker and a dash of its own beside its colour,
and its name at the end of its line or in a legend. A logarithmic axis has no zero: such a point is an error, or stands
at a place of its own below a break of the axis (`none`). pictures_check.py checks the result."""
import math
from html import escape

from text import text_width, wrapped

# Of light and dark backgrounds: more than 3:1 of contrast each.
COLOURS = [("#b03a2e", "#ff8a7a"), ("#8a5a00", "#f0b429"), ("#1f618d", "#6fb7ee"), ("#1e7d43", "#5fd38d"), ("#7d3c98", "#cf9be8"),
           ("#4d5656", "#c0c8cc"), ("#007a87", "#4fd5e0"), ("#c0470a", "#ffa45c"), ("#34495e", "#a9bcd0")]
DASHES = ["", "8 3", "2 3", "8 3 2 3", "14 4", "5 2 1 2 1 2", "4 4", "12 3 4 3", "1 4"]
MARKERS = ["M-3.6,0a3.6,3.6 0 1 0 7.2,0a3.6,3.6 0 1 0 -7.2,0", "M-3.4,-3.4h6.8v6.8h-6.8z", "M0,-4.4L4.2,3.2H-4.2z", "M0,-5L5,0L0,5L-5,0z",
           "M-3.6,-3.6L3.6,3.6M-3.6,3.6L3.6,-3.6", "M0,4.4L4.2,-3.2H-4.2z", "M-4.8,0H4.8M0,-4.8V4.8", "M-4.4,0L3.2,-4.2V4.2z",
           "M-4.6,-1.6H4.6V1.6H-4.6z"]
WIDTH, LEFT, RIGHT, HEIGHT, ABOVE, BELOW, NONE_BELOW = 720, 62, 16, 180, 30, 52, 26
SMALL, TITLE, LINE = 11, 15, 14  # sizes of texts; the step from a line to the next
MARKED = 12  # points of a line that have markers: all, if these are not fewer
DIRECT_WIDTH = 125  # names longer than this stand in a legend
STYLE = """<style>
.bg{fill:#fff}.t{fill:#222}.q{fill:#555}.f{stroke:#888;fill:none}.g{stroke:#ddd}.b{stroke:#555;fill:none}
LIGHT
.l{fill:none;stroke-width:1.8}.m{fill:none;stroke-width:1.5}
@media (prefers-color-scheme:dark){.bg{fill:#15191e}.t{fill:#e6e6e6}.q{fill:#b0b8c0}.f{stroke:#8a929a}.g{stroke:#3a4149}.b{stroke:#b0b8c0}
DARK}
</style>"""


class Axis:
    """Linear, logarithmic, or one step a value; `ticks` are the values that are labelled. `low`, `high`: the axis ends there
    and not at its first and last tick. `none`: what the place of zero below a logarithmic axis is called."""

    def __init__(self, label, ticks, log=False, steps=False, low=None, high=None, none=None):
        self.label, self.ticks, self.log, self.steps, self.none = label, ticks, log, steps, none
        self.low, self.high = (None, None) if steps else (ticks[0] if low is None else low, high or ticks[-1])

    def place(self, value):
        """0..1; None: at the place of zero."""
        if self.steps:
            return self.ticks.index(value) / max(len(self.ticks) - 1, 1)
        if self.log and value == 0 and self.none:
            return None
        if not self.low <= value <= self.high:
            raise ValueError(f"{value:g} is not on the axis '{self.label}' from {self.low:g} to {self.high:g}")
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def number(value):
    """A tick's: 100,000 would reach the axis' label."""
    if isinstance(value, str) or value < 10_000:
        return value if isinstance(value, str) else f"{value:g}"
    return f"{value / 1000:g}k" if value < 1_000_000 else f"{value / 1_000_000:g}M"


def text(x, y, words, anchor="start", size=SMALL, kind="t", bold=False, rotated=False):
    more = (' font-weight="bold"' if bold else "") + (f' transform="rotate(-90 {x:.1f} {y:.1f})"' if rotated else "") + (f' font-size="{size}"' if size != SMALL else "")
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def marker(place, x, y):
    return f'<use class="m c{place}" href="#m{place}" x="{x:.1f}" y="{y:.1f}"/>'


def apart(places, low, high, step=LINE):
    """Places at least `step` apart, each near its own, between the limits; in the order of the places."""
    order = sorted(range(len(places)), key=lambda each: places[each])
    moved = [places[each] for each in order]
    for at in range(len(moved)):
        moved[at] = max(moved[at], moved[at - 1] + step if at else low)
    for at in reversed(range(len(moved))):
        moved[at] = min(moved[at], moved[at + 1] - step if at + 1 < len(moved) else high)
    out = [0.0] * len(places)
    for at, each in enumerate(order):
        out[each] = moved[at]
    return out


class Panel:
    """One diagram: its frame in the picture and what is drawn in it."""

    def __init__(self, title, x, y, series, left, top, direct):
        self.title, self.x, self.y, self.series, self.left, self.top = title, x, y, series, left + LEFT, top + ABOVE
        self.direct = direct  # width of the names beside the lines; 0: none
        self.width = direct.cell - LEFT - (direct.names or RIGHT)
        self.bottom = self.top + HEIGHT

    def at_x(self, value):
        return self.left + self.x.place(value) * self.width

    def at_y(self, value):
        share = self.y.place(value)
        return self.bottom + NONE_BELOW - 4 if share is None else self.top + (1 - share) * HEIGHT

    def x_ticks(self):
        """Those that have room for their numbers: all, or every second one, and so on."""
        for step in range(1, len(self.x.ticks) + 1):
            shown = self.x.ticks[::step]
            spans = [(self.at_x(tick), text_width(number(tick), SMALL) / 2) for tick in shown]
            if all(a + half + 4 <= b - other for (a, half), (b, other) in zip(spans, spans[1:])):
                return shown
        return []

    def frame(self, named):
        below = self.bottom + (NONE_BELOW if self.y.none else 0)
        out = [text(self.left + self.width / 2, self.top - 10, self.title, "middle", 12, bold=True),
               f'<rect class="f" x="{self.left:.1f}" y="{self.top:.1f}" width="{self.width:.1f}" height="{HEIGHT}"/>']
        for tick in self.y.ticks:
            out.append(f'<line class="g" x1="{self.left:.1f}" x2="{self.left + self.width:.1f}" y1="{self.at_y(tick):.1f}" y2="{self.at_y(tick):.1f}"/>')
            out.append(text(self.left - 6, self.at_y(tick) + 4, number(tick), "end"))
        if self.y.none:
            at = self.bottom + NONE_BELOW - 4
            out.append(f'<line class="g" x1="{self.left:.1f}" x2="{self.left + self.width:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>')
            out.append(f'<path class="b" d="M{self.left - 5:.1f},{self.bottom + 8:.1f}l10,-4m-10,8l10,-4"/>')
            out.append(text(self.left - 9, at + 4, self.y.none, "end"))
        out += [text(self.at_x(tick), below + 16, number(tick), "middle") for tick in self.x_ticks()]
        out.append(text(self.left + self.width / 2, below + 33, self.x.label, "middle"))
        if named:
            out.append(text(self.left - LEFT + 13, self.top + HEIGHT / 2, self.y.label, "middle", rotated=True))
        return out

    def dots(self, points):
        """Places in the picture, one for each that differs; those of zero are apart: [(x, y, is zero)]."""
        out = []
        for a, b in points:
            x, y, zero = self.at_x(a), self.at_y(b), self.y.log and b == 0
            if not out or zero or abs(x - out[-1][0]) >= 0.7 or abs(y - out[-1][1]) >= 0.7:
                out.append((x, y, zero))
        return out

    def line(self, place, name, points):
        dots, out, run = self.dots(points), [f'<g data-series="{escape(name)}">'], []
        for x, y, zero in [*dots, (0, 0, True)]:
            if not zero:
                run.append(f"{x:.1f},{y:.1f}")
                continue
            if len(run) > 1:
                dash = f' stroke-dasharray="{DASHES[place]}"' if DASHES[place] else ""
                out.append(f'<polyline class="l c{place}"{dash} points="{" ".join(run)}"/>')
            run = []
        every = 1 if len(dots) <= 2 * MARKED else len(dots) // MARKED
        first = 0 if every == 1 else place * every // len(self.series)  # markers of lines that run together take turns
        return out + [marker(place, x, y) for x, y, _ in dots[first::every]] + ["</g>"]

    def names(self):
        """The series' names where their lines end."""
        found = [(place, name, self.dots(points)[-1]) for place, (name, points) in enumerate(self.series) if points]
        heights = apart([y for _, _, (_, y, _) in found], self.top + 2, self.bottom + (NONE_BELOW - 4 if self.y.none else 2))
        out, at = [], self.left + self.width + 16
        for (place, name, (x, y, _)), height in zip(found, heights):
            out.append(f'<path class="b" stroke-width="0.6" d="M{x + 5:.1f},{y:.1f}L{at - 6:.1f},{height:.1f}"/>')
            out += [marker(place, at, height), text(at + 8, height + 4, name)]
        return out

    def drawn(self, named):
        out = ["<g>", *self.frame(named)]
        for place, (name, points) in enumerate(self.series):
            if points:
                out += self.line(place, name, points)
        return out + (self.names() if self.direct.names else []) + ["</g>"]


class Layout:
    """Where panels stand, and whether names stand beside lines."""

    def __init__(self, panels, y, direct):
        names = [name for _, series in panels for name, _ in series]
        self.columns = min(2, len(panels))
        self.cell = WIDTH / self.columns
        longest = max(text_width(name, SMALL) for name in names)
        self.names = 28 + longest if direct and longest <= DIRECT_WIDTH else 0
        self.row = ABOVE + HEIGHT + BELOW + (NONE_BELOW if y.none else 0)
        self.rows = math.ceil(len(panels) / self.columns)
        self.spare = self.rows * self.columns > len(panels)  # the last cell is free: for the legend


def sample(place, name, x, y):
    dash = f' stroke-dasharray="{DASHES[place]}"' if DASHES[place] else ""
    return [f'<path class="l c{place}"{dash} d="M{x:.1f},{y:.1f}h36"/>', marker(place, x + 18, y), text(x + 44, y + 4, name)]


def legend(names, layout, top):
    """In the free cell, or below all panels: (lines, height that it adds)."""
    if layout.spare:
        left, first = layout.cell + LEFT, top + (layout.rows - 1) * layout.row + ABOVE + 12
        return [part for place, name in enumerate(names) for part in sample(place, name, left, first + 22 * place)], 0
    if layout.names:
        return [], 0
    widest = max(text_width(name, SMALL) for name in names) + 64
    columns = max(1, int((WIDTH - 20) // widest))
    first, out = top + layout.rows * layout.row + 6, []
    for place, name in enumerate(names):
        out += sample(place, name, 20 + place % columns * widest, first + 20 * (place // columns))
    return out, 6 + 20 * math.ceil(len(names) / columns)


def styles(count):
    sheets = ("\n".join(f".c{place}{{stroke:{COLOURS[place][dark]}}}" for place in range(count)) for dark in (0, 1))
    return STYLE.replace("LIGHT", next(sheets)).replace("DARK", next(sheets))


def figure(path, title, caption, x, y, panels, direct=True):
    """`panels`: [(title, series)], two beside each other; all panels have the same series in the same order.
    `caption`: where it was measured or simulated: machine, link, MTU, runs. `direct`: names beside lines if they fit."""
    layout, names = Layout(panels, y, direct), [name for name, _ in panels[0][1]]
    lines = wrapped(caption, SMALL, WIDTH - 24)
    top = 30 + LINE * len(lines) + 4
    key, added = legend(names, layout, top)
    height = round(top + layout.rows * layout.row + added + 4)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif" font-size="{SMALL}">',
           f"<title>{escape(title)}</title>", styles(len(names)), "<defs>",
           *(f'<path id="m{place}" d="{MARKERS[place]}"/>' for place in range(len(names))), "</defs>",
           '<rect class="bg" width="100%" height="100%"/>', text(12, 21, title, size=TITLE, bold=True)]
    out += [text(12, 38 + LINE * place, line, kind="q") for place, line in enumerate(lines)]
    for place, (name, series) in enumerate(panels):
        column, row = place % layout.columns, place // layout.columns
        out += Panel(name, x, y, series, column * layout.cell, top + row * layout.row, layout).drawn(column == 0)
    with open(path, "w") as file:
        file.write("\n".join([*out, *key, "</svg>"]) + "\n")


def table(head, rows):
    """Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"
