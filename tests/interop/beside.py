"""A host whose kernel has RDMA devices: programs see those and this library's, and use both. Runs in the guest alone.
Soft-RoCE has UDP port 4791 of the guest's first network namespace, so ours are used in another one, where rxe0 is
visible too (`rdma system`: netns shared)."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))
SET_UP = "ip netns add beside && ip -n beside link set lo up"


def pair(program, options, server):
    """Both ends on this host."""
    return f"({program} {options} & server=$!; until [[ $(ss -Hltn sport = :18515) ]]; do sleep 0.1; done; {program} {options} {server} && wait $server)"


def connected(address):
    """Likewise, by RDMA-CM: a request is refused while nobody listens. The server's end is what counts (see cases.RPING_RACE)."""
    return f"(rping -s -a {address} -C 5 & server=$!; until rping -c -a {address} -C 5 || ! kill -0 $server; do sleep 0.2; done; wait $server)"


def cases(build, address):
    """Name, command, and the expected output."""
    brdma = f"/host{build}/bin/brdma"
    run, elsewhere = f"{brdma} run --with-kernel-devices --", f"ip netns exec beside {brdma} run --with-kernel-devices --"
    listed = "hca_id:\trxe0", "hca_id:\tbrdma_lo"
    yield "both are listed", f"{elsewhere} ibv_devinfo", listed
    yield "both are listed, from an empty environment", f"ip netns exec beside {brdma} run --namespace --with-kernel-devices -- env -i ibv_devinfo", listed
    yield "the kernel's, with this library", f"{run} bash -c '{pair('ibv_rc_pingpong', '-d rxe0 -g 1 -n 100', '127.0.0.1')}'", ("100 iters",)
    yield "the kernel's, with events", f"{run} bash -c '{pair('ibv_rc_pingpong', '-d rxe0 -g 1 -n 100 -e', '127.0.0.1')}'", ("100 iters",)
    yield "the kernel's, in a namespace", f"{brdma} run --namespace --with-kernel-devices -- env -i bash -c '{pair('ibv_rc_pingpong', '-d rxe0 -g 1 -n 100 -e', '127.0.0.1')}'", ("100 iters",)
    yield "ours, beside it", f"{elsewhere} bash -c '{pair('ibv_rc_pingpong', '-d brdma_lo -g 0 -n 100 -e', '127.0.0.1')}'", ("100 iters",)
    yield "both in one program", f"{elsewhere} python3 /host{HERE}/both_devices.py rxe0 1 brdma_lo 0", ("all right",)
    yield "our RDMA-CM", f"{elsewhere} bash -c '{connected('127.0.0.1')}'", ("DISCONNECT",)
    yield "the kernel's RDMA-CM", f"{brdma} run --kernel-rdma-cm true -- bash -c '{connected(address)}'", ("DISCONNECT",)
    yield "ours alone", f"ip netns exec beside {brdma} run -- bash -c 'ibv_devices; test $(ls /sys/class/infiniband) = brdma_lo' 2>&1", ("shows rxe0", "brdma_lo")
    yield "rdma shows the kernel's", f"{run} rdma link", ("link rxe0/1",)
    yield "rdma shows ours", f"ip netns exec beside {brdma} run -- rdma link", ("link brdma_lo/1",)
    yield "the port is taken", f"{run} ibv_devinfo 2>&1", ("UDP port 4791 is taken by the kernel", "hca_id:\trxe0")


def run(guest, build, only):
    """How many passed, how many failed."""
    guest.run(SET_UP)
    passed = failed = 0
    for name, command, says in cases(build, guest.address):
        if only not in name + command:
            continue
        started = guest.start(command)
        try:
            code = started.wait(120)
            missing = [text for text in says if text not in started.output]
            problem = f"exit code {code}, not said: {missing}\n{started.output[-1500:]}" if missing else None
            if code != 0 and name != "the port is taken":
                problem = f"exit code {code}\n{started.output[-1500:]}"
        except TimeoutError as slow:
            started.stop()
            problem = str(slow)
        passed, failed = (passed + 1, failed) if problem is None else (passed, failed + 1)
        print(f"{'ok  ' if problem is None else 'FAIL'}  beside the kernel: {name}{'' if problem is None else ': ' + problem}", flush=True)
    return passed, failed
