"""One program, a kernel's device and one of ours: both listed, both open at once, on each a pair of queue pairs that exchange data
in turn.     both_devices.py KERNEL_DEVICE GID_INDEX OUR_DEVICE GID_INDEX; prints `all right`."""
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

BYTES = 20000
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ


class Pair:
    """Two connected queue pairs of one device."""

    def __init__(self, name, index):
        self.context = Context(name=name)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 10)
        self.regions = [MR(self.pd, BYTES, ACCESS) for _ in range(2)]
        given = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(max_send_wr=4, max_recv_wr=4))
        self.qps = [QP(self.pd, given, None) for _ in range(2)]
        gid = self.context.query_gid(1, index)
        for own, other in (self.qps, self.qps[::-1]):
            attributes = QPAttr(port_num=1)
            attributes.qp_access_flags = ACCESS
            attributes.dest_qp_num, attributes.path_mtu = other.qp_num, e.IBV_MTU_1024
            attributes.rq_psn = attributes.sq_psn = 1000
            attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
            attributes.min_rnr_timer, attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 12, 18, 7, 7  # 1 s: emulation may stand still
            attributes.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=index))
            own.to_rts(attributes)

    def complete(self, count):
        while count > 0:
            number, completions = self.cq.poll(1)
            if number:
                assert completions[0].status == e.IBV_WC_SUCCESS, completions[0]
                count -= number

    def send(self, seed):
        """From the first to the second, then written back to the first's memory from there."""
        first, second = self.regions
        data = bytes((at * 7 + seed) & 0xFF for at in range(BYTES))
        first.write(data, BYTES)
        self.qps[1].post_recv(RecvWR(num_sge=1, sg=[SGE(second.buf, BYTES, second.lkey)]))
        self.qps[0].post_send(SendWR(num_sge=1, sg=[SGE(first.buf, BYTES, first.lkey)]))
        self.complete(2)
        assert second.read(BYTES, 0) == data
        first.write(bytes(BYTES), BYTES)
        back = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(second.buf, BYTES, second.lkey)])
        back.set_wr_rdma(first.rkey, first.buf)
        self.qps[1].post_send(back)
        self.complete(1)
        assert first.read(BYTES, 0) == data


def main():
    kernel, kernel_index, ours, our_index = sys.argv[1:]
    names = [device.name.decode() for device in get_device_list()]
    assert kernel in names and ours in names, names
    pairs = [Pair(kernel, int(kernel_index)), Pair(ours, int(our_index))]
    guids = [str(pair.context.query_device().node_guid) for pair in pairs]
    assert guids[0] != guids[1], guids
    for seed in range(10):
        for pair in pairs:
            pair.send(seed)
    print("all right")


main()
