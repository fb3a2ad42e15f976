"""docs/reference/counters.md: the lists of trace/counters.h, trace/qp_counters.h, trace/drop_reason.h, cm/config.h, fabric/link.h."""

import re

from sources import Mistake, macro_rows, markdown, table, text_of

# The first counter of each group, in the order of the list.
GROUPS = {
    "sent_pkts": "Packets and bytes",
    "duplicate_request": "Standard recovery and errors",
    "rdma_sends": "Operations",
    "acks_sent": "Acknowledgements and bitmap mode",
    "gaps_seen": "Gaps",
    "cross_path_waits": "Paths and tolerance",
    "ffm_sent": "Fast feedback (FFM)",
    "edn_received": "Explicit drop notifications (EDN)",
    "retransmitted_by_edn": "Retransmissions",
    "held_for_receive": "Early packets",
    "operations_sent": "Large transfers",
    "write_events": "Events of WRITEs and local transfer",
    "np_ecn_marked_roce_packets": "Congestion and credit",
    "socket_overflow": "Sockets",
    "link_state_inquiries_sent": "Wide-area paths",
    "stopped_queries_sent": "Stopped peers",
    "qps_created": "Queue pairs and events",
    "send_failed_pkts": "Errors of the system",
}
UNITS = [
    ("bytes", r"^bytes"),
    ("packets", r"packets?\b|acknowledgements|feedback messages|RNR NAKs|NAKs|^CAPS|requests? |^EDNs|notifications|inquiries|feedback |datagrams|frames|copies|answers|queries|replies|^dropped"),
    ("times", r"^times|timeouts"),
    ("queue pairs", r"^queue pairs"),
    ("gaps", r"gaps|^runs of missing"),
    ("messages", r"messages|SENDs|receives"),
    ("segments", r"segments of"),
]

OTHER_UNITS = {
    "req_cqe_flush_error": "work requests", "completions_overwritten": "completions", "rdma_recvs": "receives", "ack_ranges_sent": "ranges", "replays_edn": "requests",
    "retransmit_single": "batches", "retransmit_interval": "batches", "retransmit_aggregated": "batches", "resend_window_full": "batches", "send_blocked": "batches",
    "transfers_complete": "transfers", "fetch_faults": "fetches", "links_congested": "links", "peer_unreachable": "errors",
    "managed_added": "destinations", "managed_released": "destinations", "managed_full": "destinations",
}


def unit(name, meaning):
    if name in OTHER_UNITS:
        return OTHER_UNITS[name]
    first = [(found.start(), text) for text, pattern in UNITS if (found := re.search(pattern, meaning))]
    return min(first)[1] if first else "events"


def node_names():
    return dict(re.findall(r'NodeName\{"(\w+)", "(\w+)"\}', text_of("utils/brdma-metrics/node_names.h")))


def prometheus(name, nodes):
    return f"`brdma_{name}_total`" + (f", `node_infiniband_{nodes[name]}_total`" if name in nodes else "")


def added_to():
    """Counters of a queue pair: the device's counters that each sums."""
    body = text_of("trace/qp_counters.h").split("switch (counter)")[1]
    found, waiting = {}, []
    for case, result in re.findall(r"case Counter::(\w+):|return QpCounter::(\w+);", body):
        if case:
            waiting.append(case)
        elif result != "kNone":
            found.setdefault(result, []).extend(waiting)
            waiting = []
    return found


def device_tables():
    rows, nodes, parts = macro_rows("trace/counters.h", "BRDMA_COUNTERS"), node_names(), []
    names = [row[1] for row in rows]
    missing = [name for name in GROUPS if name not in names] + [name for name in nodes if name not in names and not name.startswith("drop_")]
    if missing:
        raise Mistake(f"counters: there is no {missing[0]}")
    of_queue_pairs = {case for cases in added_to().values() for case in cases}
    starts = [names.index(name) for name in GROUPS]
    if starts != sorted(starts) or starts[0] != 0:
        raise Mistake("counters: the groups of tests/reference/counters.py are in another order than the list")
    for title, begin, end in zip(GROUPS.values(), starts, starts[1:] + [len(rows)]):
        lines = [[f"`{name}`", unit(name, meaning), meaning, "yes" if enumerator in of_queue_pairs else "", prometheus(name, nodes)] for enumerator, name, meaning in rows[begin:end]]
        parts.append(f"### {title}\n" + markdown(["counter", "unit", "what moves it", "of queue pairs too", "Prometheus"], lines))
    return "\n".join(parts)


def queue_pair_table():
    names = {row[0]: row[1] for row in macro_rows("trace/counters.h", "BRDMA_COUNTERS")}
    sums, lines = added_to(), []
    for enumerator, name, meaning in macro_rows("trace/qp_counters.h", "BRDMA_QP_COUNTERS"):
        parts = [f"`{names[case]}`" for case in sums.get(enumerator, [])]
        source = "the `drop_` counters" if not parts else "the same" if parts == [f"`{name}`"] else ", ".join(parts)
        lines.append([f"`{name}`", unit(name, meaning), meaning, source, f"`brdma_qp_{name}_total`"])
    return markdown(["counter", "unit", "what moves it", "counters of the device that it adds up", "Prometheus, `--queue-pairs`"], lines)


def drop_table():
    nodes = node_names()
    lines = [[f"`{name}`", meaning.removeprefix("dropped: "), prometheus(name, nodes)] for _, name, meaning in macro_rows("trace/drop_reason.h", "BRDMA_DROP_REASONS")]
    return markdown(["counter", "a received packet is dropped: why", "Prometheus"], lines)


def described(name, found, form):
    """Counters without a text in the code have one in counters.tsv; each must be there."""
    texts = {row[1]: row[2:] for row in table("counters.tsv") if row[0] == name}
    if sorted(texts) != sorted(found):
        raise Mistake(f"counters: counters.tsv has other {name} counters than the code: {sorted(set(texts) ^ set(found))}")
    return [[f"`{one}`", *texts[one]] + ([f"`{form.format(one)}`"] if form else []) for one in found]


def tables(_build):
    connections = re.findall(r'NamedCounter\{"(\w+)"', text_of("cm/config.h"))
    datagrams = re.findall(r'\{"((?:mads|stopped)_\w+)",', text_of("utils/brdmad/queries/queries.cc"))
    links = {row[0]: row[1] for row in macro_rows("fabric/link.h", "BRDMA_LINK_COUNTERS")}
    return {
        "device counters": device_tables(),
        "queue pair counters": queue_pair_table(),
        "drop reasons": drop_table(),
        "connection counters": markdown(["counter", "what moves it", "Prometheus"], described("cm", connections, "brdma_{}_total") + described("daemon", datagrams, "brdma_daemon_{}_total")),
        "link counters": markdown(["counter", "what moves it"], [[f"`{name}`", note] for name, note in links.items()]),
    }
