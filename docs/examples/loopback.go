// RDMA WRITE in Go, by cgo over libibverbs: from one buffer of this process into another one, through two connected
// queue pairs. Build: go build loopback.go
package main

// #cgo LDFLAGS: -libverbs
// #include <infiniband/verbs.h>
// #include <stdlib.h>
//
// // Unions, bit fields and inline functions are C's.
// static struct ibv_qp* make_qp(struct ibv_pd* pd, struct ibv_cq* cq) {
//   struct ibv_qp_init_attr wanted = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
//   return ibv_create_qp(pd, &wanted);
// }
// static int connect_qp(struct ibv_qp* qp, struct ibv_qp* peer, union ibv_gid gid, int gid_index) {
//   struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
//   int error = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
//   struct ibv_qp_attr b = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num};
//   b.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {gid, 0, gid_index, 64, 0}};
//   error |= ibv_modify_qp(qp, &b, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
//                                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
//   struct ibv_qp_attr c = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
//   return error | ibv_modify_qp(qp, &c, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
//                                            IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
// }
// static const char* write_all(struct ibv_qp* qp, struct ibv_mr* from, struct ibv_mr* to) {
//   struct ibv_sge sge = {(uintptr_t)from->addr, (uint32_t)from->length, from->lkey};
//   struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
//   wr.send_flags = IBV_SEND_SIGNALED;
//   wr.wr.rdma.remote_addr = (uintptr_t)to->addr;
//   wr.wr.rdma.rkey = to->rkey;
//   struct ibv_wc done = {.status = IBV_WC_GENERAL_ERR};
//   if (ibv_post_send(qp, &wr, &bad) == 0) while (ibv_poll_cq(qp->send_cq, 1, &done) == 0) continue;
//   return done.status == IBV_WC_SUCCESS ? NULL : ibv_wc_status_str(done.status);
// }
import "C"

import (
	"bytes"
	"fmt"
	"log"
	"unsafe"
)

const size, gidIndex = 1 << 20, 1 // GID 1: RoCEv2, the interface's IPv4 address

func require(holds bool, what string) {
	if !holds {
		log.Fatal(what)
	}
}

func main() {
	var count C.int
	var device *C.struct_ibv_context // one with an IPv4 address
	var gid, none C.union_ibv_gid
	for list := C.ibv_get_device_list(&count); count > 0 && gid == none; count-- {
		device = C.ibv_open_device(unsafe.Slice(list, count)[count-1])
		C.ibv_query_gid(device, 1, gidIndex, &gid)
	}
	require(gid != none, "no RDMA device has an IPv4 address; is this started by `brdma run`?")
	pd, cq := C.ibv_alloc_pd(device), C.ibv_create_cq(device, 1, nil, nil, 0)
	var regions [2]*C.struct_ibv_mr
	var data [2][]byte
	for i := range regions { // C's memory: Go may move its own
		memory := C.calloc(1, size)
		regions[i] = C.ibv_reg_mr(pd, memory, size, C.IBV_ACCESS_LOCAL_WRITE|C.IBV_ACCESS_REMOTE_WRITE)
		data[i] = unsafe.Slice((*byte)(memory), size)
	}
	a, b := C.make_qp(pd, cq), C.make_qp(pd, cq)
	require(C.connect_qp(a, b, gid, gidIndex) == 0 && C.connect_qp(b, a, gid, gidIndex) == 0, "cannot connect")
	for i := range data[0] {
		data[0][i] = byte(i * 7)
	}
	failed := C.write_all(a, regions[0], regions[1])
	require(failed == nil, C.GoString(failed))
	require(bytes.Equal(data[0], data[1]), "other data than was written")
	fmt.Println(size, "bytes are here")
}
