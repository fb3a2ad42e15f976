"""A region whose rights are changed (ibv_rereg_mr) while a peer uses it, with the TCP messages of windows.py: the peer
writes, is refused once writing is no longer allowed, and writes again when it is. Keys stay. Prints `all right`;
arguments as in windows.py."""
import pyverbs.enums as e
from windows import ACCESS, HALF, main

READ_ONLY = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ


def serve(side):
    for round_, access in enumerate((ACCESS, READ_ONLY, ACCESS)):
        side.connect()
        if round_ > 0:
            key = side.mr.rkey
            side.mr.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, side.pd, 0, 0, access)
            assert side.mr.rkey == key
        side.say(key=side.mr.rkey, address=side.mr.buf, allowed=access == ACCESS)
        written = side.hear()["written"]
        if written:
            assert side.mr.read(HALF, 0).hex() == written
        side.qp.close()
        while side.cq.poll(1)[0]:
            pass


def ask(side):
    for round_ in range(3):
        side.connect()
        granted = side.hear()
        if granted["allowed"]:
            side.say(written=side.use(granted["key"], granted["address"], round_))
        else:
            side.remote(e.IBV_WR_RDMA_READ, granted["key"], granted["address"], HALF)
            side.remote(e.IBV_WR_RDMA_WRITE, granted["key"], granted["address"], 16, status=e.IBV_WC_REM_ACCESS_ERR)
            side.say(written="")
        side.qp.close()
        while side.cq.poll(1)[0]:
            pass


main(serve, ask)
