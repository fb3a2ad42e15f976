"""docs/reference/settings.md: the table of settings, as `brdma -j system show config` prints it."""

import json
import os
import subprocess

from sources import Mistake, markdown

# Each key stands in one group; a key ends a name here or is a whole one.
GROUPS = {
    "recovery: mode, windows, memory": "recovery.mode window base_packets extension_packets segment_packets granularity slide_step qps_max device_state_bytes_max state_bytes_max hold_bytes_max standard_window",
    "recovery: when a gap counts as lost": "recovery.depth_max age_max_us stall_max_us stall_packets adaptive depth_ceiling time_ceiling_us",
    "recovery: feedback and acknowledgements": "recovery.ffm_threshold ack_packets ack_delay_us rnr_hold_us edn edn_pause_max_us",
    "recovery: retransmission": "recovery.resend_interval_min_us aggregate_delay_us resend_window send_stall_min_us probe_timeout_min_us retransmit_timeout_min_us stopped_peer_seconds",
    "recovery: paths": "recovery.paths path_bitmaps spraying",
    "congestion": "congestion.control ecn edn rate_first_mbps rate_min_mbps rate_max_mbps burst_bytes pace_interval_us cnp_interval_us",
    "congestion: TIMELY": "congestion.timely_alpha_permille timely_beta_permille timely_low_us timely_high_us timely_min_rtt_us timely_add_mbps timely_hyper_after timely_hyper_factor",
    "congestion: DCQCN": "congestion.dcqcn_g_shift dcqcn_alpha_period_us dcqcn_increase_period_us dcqcn_increase_bytes dcqcn_fast_recovery dcqcn_additive_mbps dcqcn_hyper_mbps",
    "wide-area paths": "wan.delay_samples walk_interval_us inquiry_timeouts inquiry_interval_us hop_limit link_queue_percent link_speed_percent congested_links visit_interval_us managed_rate_percent managed_weight_percent managed_dscp managed_rate_min_mbps managed_raise_percent managed_wait_percent",
    "large transfers and local transfer": "transfer.threshold_bytes segment_bytes escape_bytes_max escape_time_us regular_turns local local_threshold_bytes",
    "alarms": "alarm.retransmission_percent queue_pairs_percent state_percent stall_seconds",
    "datapath": "datapath.receive transmit xdp_mode xdp_chunks shards poll_stay_max_us",
    "devices and RDMA-CM": "device.loopback kernel_rdma_cm kernel_devices port_rate_mbps seed rdma_cm.ack_timeout",
    "brdmad, controller, metrics": "daemon.path idle_seconds controller.address key_file name metrics.listen",
}
UNITS = {"_us": "us", "_mbps": "Mbit/s", "_percent": "%", "_permille": "1/1000", "_seconds": "s", "_packets": "packets", "_bytes": "bytes", "_bytes_max": "bytes"}
OTHER_UNITS = {
    "window": "packets", "granularity": "packets", "slide_step": "packets", "qps_max": "queue pairs", "standard_window": "packets", "depth_max": "packets", "depth_ceiling": "packets",
    "ffm_threshold": "gaps", "resend_window": "packets", "paths": "paths", "path_bitmaps": "paths", "timely_hyper_after": "round trips", "timely_hyper_factor": "factor", "dcqcn_g_shift": "exponent",
    "dcqcn_fast_recovery": "steps", "delay_samples": "samples", "inquiry_timeouts": "packets", "hop_limit": "hops", "congested_links": "links", "managed_dscp": "DSCP", "regular_turns": "batches",
    "xdp_chunks": "chunks", "shards": "shards", "seed": "number", "ack_timeout": "exponent",
}


def keys_of(names):
    """recovery.mode window -> recovery.mode recovery.window"""
    table, keys = "", []
    for name in names.split():
        if "." in name:
            table, name = name.split(".")
        keys.append(f"{table}.{name}")
    return keys


def unit(row):
    name = row["key"].split(".")[1]
    if not row["allowed"][0].isdigit():
        return "switch" if row["allowed"] == "false|true" else "word" if "|" in row["allowed"] else "text"
    found = OTHER_UNITS.get(name) or next((text for end, text in UNITS.items() if name.endswith(end)), None)
    if found is None:
        raise Mistake(f"settings: the unit of {row['key']} is unknown: name it in tests/reference/settings.py")
    return found


def rows_of(build):
    """Of a build's program; defaults, whatever this machine has set. None where it has no program."""
    program = os.path.join(build, "bin", "brdma")
    if not build or not os.access(program, os.X_OK):
        return None
    done = subprocess.run([program, "-j", "system", "show", "config"], capture_output=True, text=True, check=False, env={"HOME": "/nonexistent"}, timeout=60)
    return json.loads(done.stdout)


def tables(build):
    """The text between the marks, by name; none without a build."""
    printed = rows_of(build)
    if printed is None:
        return {}
    rows = {row["key"]: row for row in printed}
    named = [key for names in GROUPS.values() for key in keys_of(names)]
    if sorted(named) != sorted(rows):
        raise Mistake(f"settings: tests/reference/settings.py has other keys than the code: {sorted(set(named) ^ set(rows))}")
    parts = []
    for title, names in GROUPS.items():
        lines = []
        for key in keys_of(names):
            row = rows[key]
            lines.append([f"`{key}`", f"`{row['variable']}`", unit(row), row["allowed"].replace("|", ", "), row["default"] or "empty", row["applies"], row["meaning"]])
        parts.append(f"## {title[0].upper()}{title[1:]}\n" + markdown(["key", "variable", "unit", "range", "default", "a change reaches", "what it bounds or chooses"], lines))
    return {"settings": "\n".join(parts)}
