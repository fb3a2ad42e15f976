"""docs/reference/events.md: the lists of trace/journal.h, control/alarms.h, recovery/gap_judge.cc, trace/retransmissions.h; texts in events.tsv."""

import re

from sources import Mistake, macro_rows, markdown, table, text_of

DAEMON = r'kDaemons\{([^}]*)\}'


def texts(kind, names):
    """The text of each name; as many as there are names."""
    found = {row[1]: row[2] for row in table("events.tsv") if row[0] == kind}
    if sorted(found) != sorted(names):
        raise Mistake(f"events: events.tsv has other names of the kind '{kind}' than the code: {sorted(set(found) ^ set(names))}")
    return found


def events():
    rows = macro_rows("trace/journal.h", "BRDMA_EVENT_TYPES")
    meanings = texts("event", [row[1] for row in rows])
    rates = texts("rate", re.findall(r"k\w+", re.search(r"enum class EventRate[^{]*\{([^}]*)\}", text_of("trace/journal.h"))[1]))
    lines = [[f"`{name}`", meanings[name], f"`{' '.join(filter(None, values))}`", rates[rate]] for _, name, *values, rate in rows]
    own = re.findall(r'"(\w+)"', re.search(DAEMON, text_of("utils/brdma/event_objects.cc"))[1])
    daemon = texts("daemon", own)
    lines += [[f"`{name}`", daemon[name].split("; values ")[0], daemon[name].split("; values ")[1] if "; values " in daemon[name] else "`count`", "`brdmad`'s own"] for name in own]
    return markdown(["type", "what happened", "values", "limited"], lines)


def causes():
    names = re.findall(r'return "(\w+)";', text_of("recovery/gap_judge.cc"))
    names.remove("unknown")
    meanings = texts("cause", names)
    return markdown(["`cause`", "the gap counts as lost because", "counter"],
                    [[f"`{name}`", meanings[name], counter_of(name)] for name in names])


def counter_of(cause):
    name = {"same_path": "path", "requested": "request"}.get(cause, cause)
    known = {row[1] for row in macro_rows("trace/counters.h", "BRDMA_COUNTERS")}
    return f"`gaps_promoted_{name}`" if f"gaps_promoted_{name}" in known else ""


def alarms():
    rows = macro_rows("control/alarms.h", "BRDMA_ALARMS")
    meanings = texts("alarm", [row[1] for row in rows])
    return markdown(["alarm", "value", "threshold"], [[f"`{name}`", meanings[name], f"[`alarm.{setting}`](settings.md#alarms)"] for _, name, setting in rows])


def retransmissions():
    used = re.findall(r"Counter::(k\w+)", text_of("trace/retransmissions.h").split("{", 1)[1].split("};")[0])
    named = {row[0]: row for row in macro_rows("trace/counters.h", "BRDMA_COUNTERS")}
    return markdown(["counter", "what moves it"], [[f"`{named[one][1]}`", named[one][2]] for one in used])


def tables(_build):
    return {"events": events(), "causes": causes(), "alarms": alarms(), "retransmission reasons": retransmissions()}
