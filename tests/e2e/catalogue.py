"""The programs and options that matrix.py runs: a list of rows. Words in braces are filled in there."""

import dataclasses
import re
import subprocess

import connections

# Why a row is run on clean networks only: the program stands still at the first message that is lost, on any device.
UNRELIABLE = "waits for each message of an unreliable service: one lost message stops it, on any device"
LOCAL = "runs on one host"
# Without root a socket holds some 200 KB: a sender of an unreliable service that is faster than its receiver loses messages there.
OVERRUNS = "waits for each message of an unreliable service: one lost message stops it. Without root the receiver's socket buffer overflows at the sender's full rate"

# perftest 4.5, run_iter_bw() in perftest_resources.c; fixed in its release 24.01.0 ("fix completion count").
COUNTS_TOO_MUCH = "`-n` must be a multiple of `-Q` (100). It counts 100 for each completion, so several queue pairs reach the sum early. It does not poll for those that still have data to send. Release 24.01.0 has the fix"

# libfabric's ofi_rxd acknowledges and resends only in the program's calls, and fi_pingpong waits in read(2) for its
# peer between two sizes: a lost last acknowledgement is then never repeated, and the peer ends after 60 s or later.
MANUAL_PROGRESS = "acknowledges and retransmits only within the program's calls, and waits for its peer by TCP between sizes. If the last acknowledgement of a size is lost, the peer retransmits without effect, on any device"


@dataclasses.dataclass(frozen=True)
class Row:
    """One program with its options. The server runs on h1, the client on h2 once the server is `ready`: "tcp:PORT" or
    "udp:PORT" is bound, or "cm": RDMA-CM listens. Passed: both exit with 0, and the client's output has `expects`. A
    row may be `refused`: both exit with an error, no signal, and their output has this pattern."""

    section: str
    client: tuple
    server: tuple = None  # None: a program without a peer
    shown: str = ""  # in the table; empty: the client's command line
    ready: str = "tcp:18515"
    server_ends: bool = True
    expects: str = ""
    refused: str = ""
    own_fault: str = ""  # why it cannot work, on any device: not run
    clean_only: str = ""  # the reason
    root_only: bool = False  # and as root only: see OVERRUNS
    brief: bool = False  # in the default lane too
    seconds: int = 240  # many times what it takes: a busy machine fails nothing
    run: str = ""  # a function of special.py instead of two command lines

    @property
    def name(self):
        words = [word for word in self.client if word not in ("{server}", "-s")] if self.section == "RDMA-CM" else self.client
        return self.shown or " ".join(word for word in words if word != "{server}")


def pair(section, line, **more):
    """The same command line on both sides, the client with the server's address."""
    words = tuple(line.split())
    return Row(section, (*words, "{server}"), words, **more)


def sides(section, server, client, **more):
    return Row(section, tuple(client.split()), tuple(server.split()), **more)


def ibverbs_utils():
    name = "ibverbs-utils"
    rows = [
        Row(name, ("ibv_devices",), expects="brdma_", clean_only=LOCAL),
        Row(name, ("ibv_devinfo", "-v"), expects="PORT_ACTIVE", clean_only=LOCAL),
        Row(name, ("ibv_asyncwatch",), run="watch_events", clean_only=LOCAL, brief=True),
    ]
    common = ["", "-g 0", "-g 1", "-e", "-c", "-s 1", "-r 10", "-l 1", "-i 1 -d brdma_eth0", "-p 18600"]
    for tool, own, unreliable in (
        ("rc", ["-t", "-N", "-t -e", "-N -e -c", "-m 4096 -s 65536 -n 200", "-o", "-P -o", "-O", "-j"], ""),
        ("srq", ["-q 64", "-q 2 -m 4096 -s 20000 -r 100", "-o"], ""),
        ("uc", ["-m 4096 -s 20000 -n 200"], UNRELIABLE),
        ("ud", [], UNRELIABLE),
    ):
        for options in common + own:
            if tool == "srq" and options == "-r 10":
                options = "-r 100"  # at least one for each of its queue pairs
            more = {"clean_only": unreliable, "ready": "tcp:18600" if "18600" in options else "tcp:18515"}
            if options == "-t -e":
                more["own_fault"] = "takes two completions for an event, and ends with *poll CQ failed* when the second one's own event finds nothing (`rc_pingpong.c`)"
            rows.append(pair(name, f"ibv_{tool}_pingpong {options}".strip(), **more))
    return rows + [pair(name, f"ibv_xsrq_pingpong -g 1{options}", brief=not options) for options in ("", " -e", " -m 1024 -s 20000 -n 200")]


def perftest():
    name = "perftest"
    rows = []
    for kind in ("send", "write", "read", "atomic"):
        for measure in ("bw", "lat"):
            tool = f"ib_{kind}_{measure}"
            options = ["", "-D 1", "-x 1", "--use_old_post_send", "-z", "--mr_per_qp" if measure == "bw" else "-m 1024", "--odp", "-c XRC", "-n 20000 -s 8"]
            if kind == "atomic":
                options = [line.replace(" -s 8", "") for line in options] + ["-A CMP_AND_SWAP", "-A FETCH_AND_ADD"]
            else:
                options += (["-a -n 20"] if measure == "bw" else []) + ["-s 1048576 -n 50"]
            if kind != "write":
                options += ["-e"]
            if kind in ("send", "write"):
                options += ["-I 60 -s 32", "-I 220 -s 200", "--inline_recv 32 -s 32" if kind == "send" else "--tclass 32"]
            if measure == "bw":
                options += ["-b", "-b --report-both", "-q 4", "-q 4 -b", "-l 16 -n 1024", "-t 16", "-Q 1", "-N", "--report_gbits", "-D 1 --cpu_util", "--reversed"]
                if kind != "atomic":
                    options += ["--rate_limit=1 --rate_limit_type=SW"]
            if kind == "send":
                options += ["--use-srq", "-r 64"] + (["--use-srq -q 4", "--use-srq -b -q 2"] if measure == "bw" else [])
            if kind == "read":
                options += ["-o 1"]
            for line in options:
                # -a measures the processor's clock again for each of 23 sizes.
                more = {"seconds": 480 if line.startswith("-a") else 240, "ready": "cm" if line == "-z" else "tcp:18515", "brief": line in ("--use_old_post_send", "-D 1 --cpu_util") and tool in ("ib_write_bw", "ib_read_lat")}
                if line == "-c XRC":  # it makes a file of a fixed name in /tmp, which the next user cannot open
                    more["root_only"] = True
                elif line == "--odp" and kind == "atomic":
                    more["refused"] = "ODP does not support ATOMICS"
                rows.append(pair(name, f"{tool} {line}".strip(), **more))
    for transport in ("UC", "UD"):
        rows += [pair(name, f"ib_send_lat -c {transport}{options}", clean_only=UNRELIABLE) for options in ("", " -e -n 200", " -s 512")]
        rows += [pair(name, f"ib_send_bw -c {transport}{options}", clean_only=OVERRUNS, root_only=True) for options in ("", " -e", " --use-srq", " -b", " -q 4")]
        rows.append(pair(name, f"ib_send_bw -c {transport} -D 1"))
    # A multicast group that perftest chooses: ff01:2:c985::, of IPv6's interface-local scope.
    rows.append(pair(name, "ib_send_lat -c UD -g -x 0", clean_only=UNRELIABLE, brief=True))
    rows.append(pair(name, "ib_send_bw -c UD -g -x 0", clean_only=OVERRUNS, root_only=True))
    rows += [pair(name, f"ib_write_bw -c UC{options}") for options in ("", " -s 8 -n 5000", " -b", " -q 4")]
    rows.append(pair(name, "ib_write_lat -c UC", clean_only=UNRELIABLE))
    for tool in ("send_bw", "send_lat", "write_bw", "write_lat", "read_bw", "read_lat", "atomic_bw", "atomic_lat"):
        rows.append(pair(name, f"ib_{tool} -R", ready="cm"))
    rows += [
        pair(name, "ib_write_bw -R -q 4", ready="cm"),
        pair(name, "ib_send_bw -R -x 1", ready="cm"),
        pair(name, "ib_send_bw -R -T 32", ready="cm"),
        pair(name, "ib_send_bw -R -c UD", ready="cm", clean_only=OVERRUNS, root_only=True),
        pair(name, "ib_send_bw -R -e", ready="cm"),
        pair(name, "ib_write_bw -q 64 -n 3125 -s 8", own_fault=COUNTS_TOO_MUCH),
        pair(name, "ib_write_bw -c DC", refused="QP"),
        pair(name, "ib_write_bw --rate_limit=1 --rate_limit_type=HW", refused="rate limit"),
    ]
    for tool in ("bw", "lat"):
        macs = "-B 02:00:00:00:00:01 -E 02:00:00:00:00:02"
        rows.append(sides(name, f"raw_ethernet_{tool} --server {macs}", f"raw_ethernet_{tool} --client {macs}", ready="", refused="QP|flow|not supported|Couldn't", brief=tool == "bw"))
    return rows


def rdmacm_utils():
    name = "RDMA-CM"

    def cm(server, client, **more):
        return sides(name, server, client, **{"ready": "cm", **more})

    cmtime_server, cmtime_client, cmtime_ends, cmtime_listens = connections.cmtime("100")
    return [
        cm("rping -s -C 20 -V", "rping -c -a {server} -C 20 -V"),
        cm("rping -s -a :: -C 5", "rping -c -a {server6} -C 5 -V", shown="rping -a IPV6 -C 5 -V"),
        cm("rping -s -C 50 -S 65000", "rping -c -a {server} -C 50 -S 65000 -V"),
        Row(name, (), shown="rping -s -P: a persistent server, eight clients at once", run="many_clients", brief=True),
        cm("ucmatose -c 10 -C 10", "ucmatose -s {server} -c 10 -C 10"),
        cm("ucmatose -m -c 5", "ucmatose -m -s {server} -c 5"),
        cm("udaddy", "udaddy -s {server}", clean_only=UNRELIABLE),
        cm("udaddy -c 4", "udaddy -s {server} -c 4", clean_only=UNRELIABLE),
        Row(name, (), shown="mckey -m 239.1.1.1", run="multicast", clean_only=UNRELIABLE),
        cm("rdma_server", "rdma_client -s {server}", shown="rdma_server, rdma_client"),
        cm("rdma_xserver -c r", "rdma_xclient -s {server} -c r", shown="rdma_xserver, rdma_xclient -c r (RC)", brief=True),
        cm("rdma_xserver -c x", "rdma_xclient -s {server} -c x", shown="rdma_xserver, rdma_xclient -c x (XRC)", brief=True),
        cm("rstream -S 4096 -C 100 -I 10", "rstream -s {server} -S 4096 -C 100 -I 10"),
        cm("rstream -S 65536 -C 10 -I 5 -T v", "rstream -s {server} -S 65536 -C 10 -I 5 -T v"),
        cm("rstream -T a -C 10 -S 1000", "rstream -s {server} -T a -C 10 -S 1000", own_fault="takes *POLLHUP* for a failure also while data waits (`common.c`): its peer closes as soon as it has sent the last"),
        cm("riostream -S 64 -C 10 -I 10", "riostream -s {server} -S 64 -C 10 -I 10"),
        cm("rcopy", "rcopy {file} {server}:{scratch}/copy", shown="rcopy FILE", server_ends=False),
        Row(name, tuple(cmtime_client), tuple(cmtime_server), shown="cmtime -c 100", ready=cmtime_listens, server_ends=cmtime_ends),
        sides(name, "udpong -b {server}", "udpong -s {server} -b {client} -S 64 -C 10", ready="udp:7174", server_ends=False, clean_only=UNRELIABLE),
    ]


def without_mpi():
    """A ucx_perftest that was built with MPI asks MPI for its peer, unless standard input is a terminal."""
    try:
        said = subprocess.run(["ucx_perftest", "-h"], capture_output=True, text=True, timeout=20, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return " -P 0" if "MPI mode" in said.stdout + said.stderr else ""


# Debian's 1.23.0~rc1-1.
WITHOUT_VERBS = "this UCX was built without its module for verbs (`uct_MODULES` of `ucx_info -b`)"


def ucx_without_verbs():
    """WITHOUT_VERBS, or nothing: also where UCX does not say what it has."""
    try:
        said = subprocess.run(["ucx_info", "-b"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    modules = re.search(r'^#define uct_MODULES\s+"(.*)"', said, re.MULTILINE)
    return WITHOUT_VERBS if modules and "ib" not in modules[1].split(":") else ""


UCX_FAULT = ucx_without_verbs()


def ucx():
    name = "UCX (ucx-utils)"
    no_mpi = without_mpi()
    rows = []
    for transports in ("rc_verbs,ud_verbs", "ud_verbs"):
        tests = ["tag_lat -n 1000", "tag_bw -n 200 -s 65536", "tag_bw -n 20 -s 4194304", "ucp_am_lat -n 500", "stream_lat -n 500", "ucp_put_lat -n 500", "ucp_get -n 500 -s 4096", "ucp_fadd -n 500"]
        if transports == "ud_verbs":  # UCX repeats lost datagrams itself, from the first that is missing: less of it
            tests[2] = "tag_bw -n 5 -w 1 -s 1048576"
        for test in tests:
            brief = test.startswith(("tag_lat", "tag_bw -n 200"))
            line = f"env UCX_TLS={transports} ucx_perftest{no_mpi}"
            rows.append(sides(name, line, f"{line} {{server}} -t {test}", ready="tcp:13337", expects="Final:", shown=f"UCX_TLS={transports} ucx_perftest -t {test}", brief=brief))
    for transport, tests in (("rc_verbs", ("am_lat", "put_lat", "get -s 4096 -D bcopy", "fadd", "am_bw -D zcopy -s 8000")), ("ud_verbs", ("am_lat", "am_bw -D bcopy -s 4000"))):
        for test in tests:
            options = f"-t {test} -n 500 -x {transport} -d brdma_eth0:1"
            line = f"ucx_perftest{no_mpi} {{server}} {options}"
            rows.append(sides(name, f"ucx_perftest{no_mpi}", line, ready="tcp:13337", expects="Final:", shown=f"ucx_perftest {options}"))
    rows.append(Row(name, ("ucx_info", "-d"), expects="Transport: rc_verbs", clean_only=LOCAL))
    return [dataclasses.replace(row, own_fault=UCX_FAULT) for row in rows]


def libfabric():
    name = "libfabric (libfabric-bin)"
    rows = []
    for line, reason in (("-p verbs", UNRELIABLE), ("-p verbs -e msg", ""), ("-p verbs;ofi_rxm -e rdm", ""), ("-p verbs;ofi_rxd -e rdm", MANUAL_PROGRESS)):
        more = {"ready": "tcp:47592", "clean_only": reason, "expects": "usec/xfer", "brief": True}
        rows.append(sides(name, f"fi_pingpong {line}", f"fi_pingpong {line} {{server}}", **more))
    rows.append(Row(name, ("fi_info", "-p", "verbs"), expects="brdma_eth0", clean_only=LOCAL))
    return rows


def qperf():
    name = "qperf"
    kinds = [f"{transport}_{test}" for transport in ("rc", "uc") for test in ("lat", "bw", "bi_bw")] + ["ud_lat", "ud_bw", "ud_bi_bw"]
    kinds += ["rc_rdma_read_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "rc_rdma_write_lat", "rc_rdma_write_poll_lat", "uc_rdma_write_bw", "uc_rdma_write_lat", "uc_rdma_write_poll_lat"]
    kinds += ["rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add"]
    rows = []
    for kind in kinds:
        waits = kind.startswith(("uc", "ud")) and kind.endswith("lat")
        rows.append(sides(name, "qperf", f"qperf -t 1 {{server}} {kind}", ready="tcp:19765", server_ends=False, expects="=", clean_only=UNRELIABLE if waits else "", brief=kind in ("rc_bw", "ud_bw")))
    for transport, kind in (("xrc", "lat"), ("xrc", "bw")):
        rows.append(sides(name, "qperf", f"qperf -t 1 {{server}} {transport}_{kind}", ready="tcp:19765", server_ends=False, refused="bad test"))
    rows.append(sides(name, "qperf", "qperf -t 1 -cm1 {server} rc_bw", ready="tcp:19765", server_ends=False, expects="="))
    return rows


def fio():
    name = "fio (engine rdma)"
    rows = []
    for verb in ("write", "read", "send"):
        # The reader is the server, whatever the verb: a rule of fio.
        server = "fio --name=server --ioengine=rdma --port=9001 --bs=64k --size=32m --iodepth=16 --rw=read"
        client = f"fio --name=client --ioengine=rdma --hostname={{server}} --port=9001 --verb={verb} --bs=64k --size=32m --iodepth=16 --rw=write"
        rows.append(sides(name, server, client, ready="cm", shown=f"fio --ioengine=rdma --verb={verb}", expects="issued rwts", brief=verb == "write"))
    return rows


def others():
    mpi = "Open MPI over UCX"
    return [
        Row(mpi, (), shown="mpi_exchange, 4 ranks on 2 hosts, UCX_TLS=rc_verbs,ud_verbs", run="mpi", brief=True, own_fault=UCX_FAULT),
        Row(mpi, (), shown="mpi_exchange, 4 ranks on 2 hosts, UCX_TLS=ud_verbs", run="mpi_datagrams", own_fault=UCX_FAULT),
        Row("pyverbs", (), shown="pyverbs_exchange.py: SEND, WRITE, READ, atomics between two hosts", run="pyverbs", brief=True),
        Row("pyverbs", (), shown="rdma-core's own tests (python3-pyverbs)", run="rdma_core_tests", clean_only=LOCAL, brief=True, seconds=120),
    ]


def shards():
    """On a device of several shards (docs/reference/provider.md): shared receive queues, several queue pairs of one completion queue, events, threads."""
    def row(client, server="", **more):
        return sides("several shards", f"env BRDMA_SHARDS=3 {server or client}", f"env BRDMA_SHARDS=3 {client}" + ("" if server else " {server}"), shown=f"BRDMA_SHARDS=3 {client}".replace(" -c -a {server}", "").replace(" -s {server}", ""), **more)

    lines = ["ibv_rc_pingpong", "ibv_rc_pingpong -e", "ibv_srq_pingpong", "ibv_srq_pingpong -e", "ibv_srq_pingpong -q 64", "ib_send_bw", "ib_send_bw -e -q 4", "ib_send_lat -e", "ib_write_bw -q 8",
             "ib_write_bw -q 8 -b", "ib_write_lat", "ib_read_bw -q 4", "ib_atomic_bw", "ib_send_bw --use-srq -q 4", "ib_write_bw --mr_per_qp -q 4"]
    return [row(line, brief=line in ("ibv_srq_pingpong -e", "ib_write_bw -q 8")) for line in lines] + [
        row("rping -c -a {server} -C 20 -V", "rping -s -C 20 -V", ready="cm"),
        row("rstream -s {server} -S 4096 -C 100 -I 10", "rstream -S 4096 -C 100 -I 10", ready="cm"),
        row("ucmatose -s {server} -c 10 -C 10", "ucmatose -c 10 -C 10", ready="cm"),
    ]


ROWS = ibverbs_utils() + perftest() + rdmacm_utils() + ucx() + libfabric() + qperf() + fio() + shards() + others()
