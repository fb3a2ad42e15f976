"""Memory windows and SEND with invalidate between two hosts, by the program's own words over TCP: the server binds windows to its region,
the client writes and reads through them, invalidates one, and is refused where it must be. Prints `all right`.
     windows.py DEVICE GID_INDEX            server
     windows.py DEVICE GID_INDEX ADDRESS    client"""
import json
import socket
import sys

import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

PORT = 18515
BYTES, HALF = 8192, 4096
REMOTE = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | REMOTE | e.IBV_ACCESS_MW_BIND


class Side:
    def __init__(self, device, index, connection):
        self.device, self.index = device, index
        self.connection, self.lines = connection, connection.makefile()
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 50)
        self.mr = MR(self.pd, BYTES, ACCESS)

    def say(self, **what):
        self.connection.sendall((json.dumps(what) + "\n").encode())

    def hear(self):
        line = self.lines.readline()
        assert line, "the other side is gone"
        return json.loads(line)

    def connect(self):
        """A fresh queue pair: a refusal breaks one."""
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(max_send_wr=8, max_recv_wr=8)), None)
        self.say(qpn=self.qp.qp_num, gid=str(self.context.query_gid(1, self.index)))
        peer = self.hear()
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = ACCESS
        attributes.dest_qp_num, attributes.path_mtu = peer["qpn"], e.IBV_MTU_1024
        attributes.rq_psn = attributes.sq_psn = 1000
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4
        attributes.min_rnr_timer, attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 12, 18, 7, 7  # 1 s: emulation may stand still
        attributes.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=GID(peer["gid"]), sgid_index=self.index))
        self.qp.to_rts(attributes)
        self.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(self.mr.buf, 16, self.mr.lkey)]))
        self.say(ready=True)  # neither side continues before both are ready
        self.hear()

    def complete(self):
        while True:
            count, completions = self.cq.poll(1)
            if count:
                return completions[0]

    def do(self, request, status=e.IBV_WC_SUCCESS):
        self.qp.post_send(request)
        done = self.complete()
        assert done.status == status, f"{done.status} instead of {status}"

    def bind(self, window, length, flags=REMOTE):
        """Type 1 by ibv_bind_mw, type 2 by a work request; returns the key for others, and the completion."""
        info = MWBindInfo(self.mr, self.mr.buf, length, flags)
        if window.type == e.IBV_MW_TYPE_1:
            self.qp.bind_mw(window, MWBind(info, send_flags=e.IBV_SEND_SIGNALED))
            key = window.rkey
        else:
            request = SendWR(opcode=e.IBV_WR_BIND_MW)
            request.set_bind_wr(window, info)
            key = request.rkey  # pyverbs has chosen the next one
            self.qp.post_send(request)
        done = self.complete()
        assert done.status == e.IBV_WC_SUCCESS, f"bind: {done.status}"
        return key

    def remote(self, opcode, key, address, length, status=e.IBV_WC_SUCCESS):
        request = SendWR(opcode=opcode, num_sge=1, sg=[SGE(self.mr.buf, length, self.mr.lkey)])
        request.set_wr_rdma(key, address)
        self.do(request, status)

    def use(self, key, address, seed):
        """Written through the window, and read back by it."""
        data = bytes((at * 7 + seed) & 0xFF for at in range(HALF))
        self.mr.write(data, HALF)
        self.remote(e.IBV_WR_RDMA_WRITE, key, address, HALF)
        self.mr.write(bytes(HALF), HALF)
        self.remote(e.IBV_WR_RDMA_READ, key, address, HALF)
        assert self.mr.read(HALF, 0) == data
        return data.hex()


def serve(side):
    for window_type in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2):
        side.connect()
        window = MW(side.pd, window_type)
        key = side.bind(window, HALF)
        side.say(key=key, address=side.mr.buf)
        written = side.hear()["written"]
        assert side.mr.read(HALF, 0).hex() == written
        if window_type == e.IBV_MW_TYPE_1:
            side.bind(window, 0)
            side.say(unbound=True)
        else:
            done = side.complete()
            # Linux 6.1's rxe writes the kernel's own flag, which verbs read as "IP checksum OK".
            flag = e.IBV_WC_IP_CSUM_OK if side.device.startswith("rxe") else e.IBV_WC_WITH_INV
            assert done.status == e.IBV_WC_SUCCESS and done.wc_flags & flag, done
            assert done.imm_data in (key, int.from_bytes(key.to_bytes(4, "big"), "little")), (hex(done.imm_data), hex(key))
        side.hear()  # refused: the queue pair is broken
        side.qp.close()
        while side.cq.poll(1)[0]:
            pass
        window.close()
    # An access beyond a window is refused, though the region behind it is there. Linux 6.1's rxe checks the region
    # only.
    side.connect()
    window = MW(side.pd, e.IBV_MW_TYPE_1)
    side.say(key=side.bind(window, HALF), address=side.mr.buf, holds=not side.device.startswith("rxe"))
    side.hear()
    side.qp.close()
    window.close()  # before its region


def ask(side):
    for window_type in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2):
        side.connect()
        granted = side.hear()
        side.say(written=side.use(granted["key"], granted["address"], window_type))
        if window_type == e.IBV_MW_TYPE_1:
            side.hear()
        else:
            side.do(SendWR(opcode=e.IBV_WR_SEND_WITH_INV, num_sge=1, sg=[SGE(side.mr.buf, 16, side.mr.lkey)], imm_data=granted["key"]))
        side.remote(e.IBV_WR_RDMA_WRITE, granted["key"], granted["address"], 16, status=e.IBV_WC_REM_ACCESS_ERR)
        side.say(refused=True)
        side.qp.close()
        while side.cq.poll(1)[0]:
            pass
    side.connect()
    granted = side.hear()
    side.use(granted["key"], granted["address"], 9)
    if granted["holds"]:
        side.remote(e.IBV_WR_RDMA_WRITE, granted["key"], granted["address"] + 1, HALF, status=e.IBV_WC_REM_ACCESS_ERR)
    side.say(refused=True)


def main(serve, ask):
    device, index = sys.argv[1], int(sys.argv[2])
    if len(sys.argv) > 3:
        with socket.create_connection((sys.argv[3], PORT)) as connection:
            ask(Side(device, index, connection))
    else:
        with socket.create_server(("", PORT)) as listener:
            connection, _ = listener.accept()
            with connection:
                serve(Side(device, index, connection))
    print("all right")


if __name__ == "__main__":
    main(serve, ask)
