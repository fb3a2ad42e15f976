#!/usr/bin/env python3
"""RDMA READ between two processes, by pyverbs (Debian: python3-pyverbs).
    read.py            the server: has the data
    read.py ADDRESS    the client: reads the server's memory and checks it
"""
import contextlib
import socket
import struct
import sys

from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

PORT, BYTES, GID_INDEX = 18519, 1 << 20, 1  # GID 1: RoCEv2, the interface's IPv4 address
FACTS = "!IIQ40s"  # queue pair, key, address, GID: of each side for the other one
RC, READ = 2, 4  # IBV_QPT_RC, IBV_WR_RDMA_READ: the module of these names changed in rdma-core 59
LOCAL_WRITE, REMOTE_READ, SIGNALED, MTU_1024 = 1, 4, 2, 3  # IBV_ACCESS_..., IBV_SEND_SIGNALED, IBV_MTU_1024


def connect(qp, qpn, gid):
    first = QPAttr(port_num=1)
    first.qp_access_flags = REMOTE_READ
    qp.to_init(first)
    to = QPAttr(port_num=1)
    to.dest_qp_num, to.path_mtu, to.max_rd_atomic, to.max_dest_rd_atomic = qpn, MTU_1024, 4, 4
    to.min_rnr_timer, to.timeout, to.retry_cnt, to.rnr_retry = 12, 14, 7, 7
    to.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=GID(gid), sgid_index=GID_INDEX))
    qp.to_rts(to)


def device_with_address():
    for device in get_device_list():
        context = Context(name=device.name.decode())
        with contextlib.suppress(PyverbsError):
            gid = str(context.query_gid(1, GID_INDEX))
            if gid.strip("0:"):  # else there is none at that index
                return context, gid
    sys.exit("no RDMA device has an IPv4 address; is this started by `brdma run`?")


def main(tcp, is_client):
    context, own = device_with_address()
    pd = PD(context)
    cq = CQ(context, 1)
    mr = MR(pd, BYTES, LOCAL_WRITE | REMOTE_READ)
    qp = QP(pd, QPInitAttr(qp_type=RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=1, max_recv_wr=1)), None)
    data = bytes(at * 7 & 0xFF for at in range(BYTES))
    if not is_client:
        mr.write(data, BYTES)
    tcp.sendall(struct.pack(FACTS, qp.qp_num, mr.rkey, mr.buf, own.encode()))
    qpn, rkey, address, gid = struct.unpack(FACTS, tcp.recv(struct.calcsize(FACTS), socket.MSG_WAITALL))
    connect(qp, qpn, gid.rstrip(b"\0").decode())
    tcp.sendall(b"!")
    assert tcp.recv(1), "the other side is gone"  # both are connected
    if is_client:
        request = SendWR(opcode=READ, num_sge=1, sg=[SGE(mr.buf, BYTES, mr.lkey)], send_flags=SIGNALED)
        request.set_wr_rdma(rkey, address)
        qp.post_send(request)
        count = 0
        while count == 0:
            count, done = cq.poll(1)
        assert done[0].status == 0, done[0]
        assert mr.read(BYTES, 0) == data, "other data than the server has"
        print(f"{BYTES} bytes are read", flush=True)
    tcp.shutdown(socket.SHUT_WR)
    tcp.recv(1)  # nothing of a side goes away before the other one is done


if len(sys.argv) > 1:
    main(socket.create_connection((sys.argv[1], PORT)), True)
else:
    with socket.create_server(("", PORT)) as listener:
        main(listener.accept()[0], False)
