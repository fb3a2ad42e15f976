"""Every comparison is between modes over one and the same network: scripts that draw one check it here, and end with an
exit code if not.

Two conditions. The networks' settings differ in nothing but the compared option. And the column without faults (no
loss, no drop) has the same figure for all modes, since without faults they do not differ:

- simulated, exactly: the modes put the same packets on the wire, and virtual time has no noise. Only a mode whose
  packets are shorter (go-back-N's standard ones lack bitmap mode's headers) may be faster, by at most the part of a
  packet that these headers are. If the compared option itself may cost something without faults (congestion controls,
  or a start that fills a queue), within 1 %.
- measured, within 1 % or twice the standard error of the difference of medians, whichever is more. If that is more than
  5 %, the runs prove too little, and that is an error as well: more runs, or a machine that does nothing else."""
import math
import statistics
import sys

TOLERANCE, RESOLUTION = 0.01, 0.05
# Headers that standard packets lack: BXTH's 32 bytes, and RETH's 16 where the packet is not its message's first
# (docs/reference/wire.md).
EXTRA_HEADERS = 48


class Difference(Exception):
    pass


def settings_of(text):
    """Of a network as the simulator prints it: "delay=5us;rate=25gbit;both-ways"."""
    return {name: value for name, _, value in (option.partition("=") for option in text.split(";") if option)}


def same_settings(networks, compared=()):
    """`networks`: settings by way, texts or dictionaries. `compared`: the options that may differ."""
    read = {way: settings_of(each) if isinstance(each, str) else each for way, each in networks.items()}
    first, *others = read
    for way in others:
        names = sorted(name for name in {*read[first], *read[way]} if name not in compared and read[first].get(name) != read[way].get(name))
        if names:
            differ = ", ".join(f"{name} {read[first].get(name, 'default')} and {read[way].get(name, 'default')}" for name in names)
            raise Difference(f"'{first}' and '{way}' have different networks: {differ}")


def same_networks(rows, point, way="way", compared=()):
    """`rows` as from csv.DictReader, of a simulator that states the network of each. `point`: the columns that
    distinguish points; within one of them rows differ in `way` alone, a column or several."""
    points = {}
    for row in rows:
        if not row.get("network"):
            raise Difference("a point does not say on which network it ran")
        name = row[way] if isinstance(way, str) else ", ".join(row[each] for each in way)
        networks = points.setdefault(tuple(row[column] for column in point), {})
        if networks.setdefault(name, row["network"]) != row["network"]:
            raise Difference(f"'{name}' has two networks at one point: {networks[name]} and {row['network']}")
    if not points:
        raise Difference("no points")
    for networks in points.values():
        same_settings(networks, compared)


def shorter_by(packet_bytes):
    """The fraction of a packet of so much payload by which a standard one is shorter."""
    return EXTRA_HEADERS / packet_bytes


def same_simulated(values, shorter=None, tolerance=None):
    """`values`: one number or more (mean, 99th percentile) by mode, as printed. `shorter`: modes whose packets are
    shorter, and by what fraction. `tolerance`: a fraction by which values may differ, TOLERANCE at most; none: not by
    the last digit."""
    shorter = shorter or {}
    whole = {way: value for way, value in values.items() if way not in shorter}
    first, *others = whole
    numbers = lambda value: [float(each) for each in (value if isinstance(value, tuple) else (value,))]
    for way in others:
        close = tolerance is not None and all(abs(a - b) <= min(tolerance, TOLERANCE) * b for a, b in zip(numbers(whole[way]), numbers(whole[first])))
        if whole[way] != whole[first] and not close:
            raise Difference(f"without faults '{first}' shows {whole[first]} and '{way}' {whole[way]}")
    for way, part in shorter.items():
        if way not in values:
            continue
        for value, usual in zip(numbers(values[way]), numbers(whole[first])):
            if abs(value - usual) > (part + min(tolerance or 0, TOLERANCE)) * usual:
                raise Difference(f"without faults '{first}' shows {usual:g} and '{way}' {value:g}, more than {part:.1%} apart")


def standard_error(values):
    """Of the median, by the middle half of the values: one disturbed value counts little."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return 1.253 * (high - low) / 1.349 / math.sqrt(len(values))


def same_measured(runs, shorter=None):
    """`runs`: values by mode, five at least, taken turn by turn. Returns a sentence about their agreement."""
    shorter = shorter or {}
    few = [way for way, values in runs.items() if len(values) < 5]
    if few:
        raise Difference(f"without faults '{few[0]}' ran {len(runs[few[0]])} times: five at least")
    first = next(way for way in runs if way not in shorter)
    usual, worst, seen = statistics.median(runs[first]), 0.0, 0.0
    for way, values in runs.items():
        apart = statistics.median(values) / usual - 1
        noise = 2 * math.hypot(standard_error(values), standard_error(runs[first])) / usual
        if noise > RESOLUTION:
            raise Difference(f"without faults '{way}' and '{first}' are known to {noise:.1%} only: more runs, or an idle machine")
        allowed = max(TOLERANCE, noise) + shorter.get(way, 0)
        if abs(apart) > allowed:
            raise Difference(f"without faults '{first}' shows {usual:.4g} and '{way}' {statistics.median(values):.4g}: {apart:+.1%}, more than {allowed:.1%}")
        worst, seen = max(worst, noise), max(seen, abs(apart))
    return f"without faults the ways' medians are {seen:.1%} apart at most, known to {worst:.1%}"


def checked(draw, *arguments):
    """For a script's last line: a difference is its exit code."""
    try:
        draw(*arguments)
    except Difference as difference:
        sys.exit(f"not one network: {difference}")
