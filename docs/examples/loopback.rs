// RDMA WRITE in Rust without a crate, by plain FFI to libibverbs: from one buffer of this process into another one,
// through two connected queue pairs. Build: rustc -O loopback.rs -l ibverbs
use std::os::raw::{c_int, c_void};
use std::{mem::zeroed, mem::transmute, ptr::null_mut};

type Ptr = *mut c_void;
#[repr(C)] // ibv_post_send and ibv_poll_cq are inline functions of the header: they call these two
struct Context { device: Ptr, ops: [Ptr; 32] }
const OPS: [usize; 2] = [11, 25]; // the places of poll_cq and post_send
type PollCq = extern "C" fn(Ptr, c_int, *mut Wc) -> c_int;
type PostSend = extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int;
#[repr(C)]
struct Qp { context: Ptr, user: Ptr, pd: Ptr, cqs: [Ptr; 2], srq: Ptr, handle: u32, number: u32 }
#[repr(C)]
struct Mr { context: Ptr, pd: Ptr, address: u64, length: usize, handle: u32, lkey: u32, rkey: u32 }
#[repr(C)]
struct QpInit { user: Ptr, cqs: [Ptr; 2], srq: Ptr, cap: [u32; 5], kind: u32, all_signaled: c_int }
#[repr(C, align(8))]
struct Ah { gid: [u8; 16], flow: u32, gid_index: u8, hops: u8, class: u8, lid: [u8; 6], global: u8, port: u8 }
#[repr(C)]
struct QpAttr {
    state: u32, current: u32, mtu: u32, migration: u32, qkey: u32, rq_psn: u32, sq_psn: u32, peer: u32, access: u32,
    cap: [u32; 5], ah: Ah, alternative: Ah, pkeys: [u16; 2], drain: [u8; 2], reads: [u8; 2], rnr_timer: u8, port: u8,
    timeout: u8, retries: u8, rnr_retries: u8, alternative_port: [u8; 2], limit: u32,
}
#[repr(C)]
struct Sge { address: u64, length: u32, lkey: u32 }
#[repr(C)]
struct SendWr { id: [u64; 2], list: *mut Sge, count: u32, op: u32, flags: [u32; 2], to: u64, key: u32, rest: [u64; 9] }
#[repr(C)]
struct Wc { id: u64, status: u32, rest: [u32; 16] }
#[link(name = "ibverbs")]
extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *mut Ptr;
    fn ibv_open_device(device: Ptr) -> *mut Context;
    fn ibv_query_gid(context: *mut Context, port: u8, index: c_int, gid: *mut [u8; 16]) -> c_int;
    fn ibv_alloc_pd(context: *mut Context) -> Ptr;
    fn ibv_create_cq(context: *mut Context, size: c_int, user: Ptr, channel: Ptr, vector: c_int) -> Ptr;
    fn ibv_reg_mr(pd: Ptr, address: *mut u8, length: usize, access: c_int) -> *mut Mr;
    fn ibv_create_qp(pd: Ptr, init: *mut QpInit) -> *mut Qp;
    fn ibv_modify_qp(qp: *mut Qp, to: *mut QpAttr, mask: c_int) -> c_int;
}
unsafe fn connect(qp: *mut Qp, peer: *mut Qp, gid: [u8; 16]) {
    let mut to = QpAttr { state: 1, port: 1, access: 2, ..zeroed() };
    assert_eq!(ibv_modify_qp(qp, &mut to, 0x39), 0, "INIT"); // state, P_Key, port, access
    let ah = Ah { gid, gid_index: 1, hops: 64, global: 1, port: 1, ..zeroed() };
    to = QpAttr { state: 2, mtu: 3, peer: (*peer).number, ah, ..zeroed() };
    assert_eq!(ibv_modify_qp(qp, &mut to, 0x12_9181), 0, "RTR"); // state, address, MTU, peer, PSN, RNR timer, READs
    to = QpAttr { state: 3, timeout: 14, retries: 7, rnr_retries: 7, ..zeroed() };
    assert_eq!(ibv_modify_qp(qp, &mut to, 0x1_2e01), 0, "RTS"); // state, timeout, retries, RNR retries, PSN, READs
}
fn main() {
    let (mut from, mut to) = ((0..1 << 20).map(|i| (i * 7) as u8).collect::<Vec<u8>>(), vec![0u8; 1 << 20]);
    unsafe {
        let (mut list, mut context, mut gid) = (ibv_get_device_list(null_mut()), null_mut(), [0; 16]);
        while gid == [0; 16] && !list.is_null() && !(*list).is_null() {
            context = ibv_open_device(*list);
            ibv_query_gid(context, 1, 1, &mut gid); // GID 1: RoCEv2, the interface's IPv4 address
            list = list.add(1);
        }
        assert_ne!(gid, [0; 16], "no RDMA device has an IPv4 address; is this started by `brdma run`?");
        let (pd, cq) = (ibv_alloc_pd(context), ibv_create_cq(context, 1, null_mut(), null_mut(), 0));
        let source = ibv_reg_mr(pd, from.as_mut_ptr(), from.len(), 1); // local write
        let target = ibv_reg_mr(pd, to.as_mut_ptr(), to.len(), 3); // and remote write
        let mut init = QpInit { cqs: [cq, cq], kind: 2, cap: [1, 1, 1, 1, 0], ..zeroed() };
        let pair = [ibv_create_qp(pd, &mut init), ibv_create_qp(pd, &mut init)];
        (connect(pair[0], pair[1], gid), connect(pair[1], pair[0], gid));
        let mut sge = Sge { address: (*source).address, length: from.len() as u32, lkey: (*source).lkey };
        let (to, key) = ((*target).address, (*target).rkey);
        let mut request = SendWr { list: &mut sge, count: 1, flags: [2, 0], to, key, ..zeroed() };
        let post: PostSend = transmute((*context).ops[OPS[1]]);
        assert_eq!(post(pair[0], &mut request, &mut null_mut()), 0, "ibv_post_send");
        let (poll, mut done): (PollCq, Wc) = (transmute((*context).ops[OPS[0]]), zeroed());
        while poll(cq, 1, &mut done) == 0 {}
        assert_eq!(done.status, 0, "WRITE");
    }
    assert!(from == to, "other data than was written");
    println!("{} bytes are here", to.len());
}
