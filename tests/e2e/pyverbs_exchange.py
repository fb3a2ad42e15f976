#!/usr/bin/env python3
"""A program on pyverbs: the client sends, writes, reads and counts in the server's memory. The same on both hosts, the client with
the server's address. Prints `all right`."""

import enum
import socket
import struct
import sys
import types

from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR


def enumerators():
    """All of them by their own names, as pyverbs.enums has them. From release 59 on they are in another module, within their enumerations."""
    try:
        import pyverbs.enums
    except ModuleNotFoundError:
        import pyverbs.libibverbs_enums
        kinds = [each for each in vars(pyverbs.libibverbs_enums).values() if isinstance(each, enum.EnumMeta)]
        return types.SimpleNamespace(**{name: value for kind in kinds for name, value in kind.__members__.items()})
    return pyverbs.enums


e = enumerators()
PORT = 18515
BYTES = 100000
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
# Sent by each side to the other: queue pair, key, address, GID.
FACTS = "!IIQ64s"


def pattern(seed):
    return bytes((at * 7 + seed) & 0xFF for at in range(BYTES))


class Side:
    def __init__(self):
        self.context = Context(name="brdma_eth0")
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 100)
        self.mr = MR(self.pd, BYTES, ACCESS)
        self.word = MR(self.pd, 8, ACCESS)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(max_send_wr=10, max_recv_wr=10)), None)

    def exchange(self, connection):
        """Connects the queue pair; the other side may use the larger region."""
        gid = str(self.context.query_gid(1, 1))
        connection.sendall(struct.pack(FACTS, self.qp.qp_num, self.mr.rkey, self.mr.buf, gid.encode()))
        answer = b""
        while len(answer) < struct.calcsize(FACTS):
            part = connection.recv(struct.calcsize(FACTS) - len(answer))
            assert part, "the other side is gone"
            answer += part
        qpn, self.rkey, self.address, peer_gid = struct.unpack(FACTS, answer)
        route = GlobalRoute(dgid=GID(peer_gid.rstrip(b"\0").decode()), sgid_index=1)
        attributes = QPAttr(port_num=1)
        attributes.dest_qp_num, attributes.path_mtu = qpn, e.IBV_MTU_1024
        attributes.rq_psn = attributes.sq_psn = 1000
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4
        attributes.min_rnr_timer, attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 12, 14, 7, 7
        attributes.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        self.qp.to_rts(attributes)

    def complete(self):
        while True:
            count, completions = self.cq.poll(1)
            if count:
                assert completions[0].status == e.IBV_WC_SUCCESS, completions[0]
                return completions[0]

    def do(self, opcode, region, length, **more):
        request = SendWR(opcode=opcode, num_sge=1, sg=[SGE(region.buf, length, region.lkey)], send_flags=e.IBV_SEND_SIGNALED, **more)
        if opcode in (e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ):
            request.set_wr_rdma(self.rkey, self.address)
        if opcode == e.IBV_WR_ATOMIC_FETCH_AND_ADD:
            request.set_wr_atomic(self.rkey, self.address, 5, 0)
        self.qp.post_send(request)
        self.complete()


def client(side):
    side.mr.write(pattern(1), BYTES)
    side.do(e.IBV_WR_SEND, side.mr, BYTES)
    side.mr.write(pattern(2), BYTES)
    side.do(e.IBV_WR_RDMA_WRITE, side.mr, BYTES)
    side.mr.write(bytes(BYTES), BYTES)
    side.do(e.IBV_WR_RDMA_READ, side.mr, BYTES)
    assert side.mr.read(BYTES, 0) == pattern(2), "what was read is not what was written"
    first = int.from_bytes(pattern(2)[:8], "little")
    for count in range(10):
        side.do(e.IBV_WR_ATOMIC_FETCH_AND_ADD, side.word, 8)
        assert int.from_bytes(side.word.read(8, 0), "little") == first + 5 * count
    side.do(e.IBV_WR_SEND, side.word, 8)


def server(side, connection):
    connection.sendall(b"!")
    assert side.complete().byte_len == BYTES
    assert side.mr.read(BYTES, 0) == pattern(1), "what was sent is not what came"
    side.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(side.word.buf, 8, side.word.lkey)]))
    connection.sendall(b"!")
    side.complete()
    assert side.mr.read(BYTES, 0)[8:] == pattern(2)[8:], "what was written is not what is there"


def main():
    side = Side()
    first = QPAttr(port_num=1)
    first.qp_access_flags = ACCESS
    side.qp.to_init(first)
    if len(sys.argv) > 1:
        with socket.create_connection((sys.argv[1], PORT)) as connection:
            side.exchange(connection)
            connection.recv(1)
            client(side)
    else:
        side.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(side.mr.buf, BYTES, side.mr.lkey)]))
        with socket.create_server(("", PORT)) as listener:
            print("listening", flush=True)
            connection, _ = listener.accept()
            with connection:
                side.exchange(connection)
                server(side, connection)
    print("all right")


if __name__ == "__main__":
    main()
