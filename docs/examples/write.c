// RDMA WRITE between two processes, by libibverbs. Build: cc -o write write.c -libverbs
//   write            the server: waits for a client, checks what the client wrote into its memory
//   write ADDRESS    the client
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kBytes = 1 << 20, kPort = 18517, kGid = 1 };  // GID 1: RoCEv2, the interface's IPv4 address
enum {
  kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
  kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
           IBV_QP_MIN_RNR_TIMER,
  kToRts = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
};
struct facts {  // of each side for the other one, over TCP; both have the same byte order
  uint64_t address;
  uint32_t qpn, rkey;
  union ibv_gid gid;
};
static void require(int holds, const char* what) {
  if (!holds) perror(what), exit(1);
}
static int connect_tcp(const char* server) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(kPort)};
  const int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (server) {
    require(inet_pton(AF_INET, server, &at.sin_addr) == 1 && connect(fd, (struct sockaddr*)&at, sizeof at) == 0,
            "connect");
    return fd;
  }
  require(bind(fd, (struct sockaddr*)&at, sizeof at) == 0 && listen(fd, 1) == 0, "listen");
  return accept(fd, NULL, NULL);
}
static void connect_qp(struct ibv_qp* qp, const struct facts* peer) {
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  require(!ibv_modify_qp(qp, &to, kToInit), "INIT");
  to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qpn};
  to.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {peer->gid, 0, kGid, 64, 0}};
  require(!ibv_modify_qp(qp, &to, kToRtr), "RTR");
  to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
  require(!ibv_modify_qp(qp, &to, kToRts), "RTS");
}
int main(int argc, char** argv) {
  const int tcp = connect_tcp(argc > 1 ? argv[1] : NULL);
  struct facts own = {0}, peer;
  struct ibv_context* device = NULL;  // the first with an IPv4 address
  for (struct ibv_device** list = ibv_get_device_list(NULL); list && *list && !own.gid.global.interface_id; ++list)
    ibv_query_gid(device = ibv_open_device(*list), 1, kGid, &own.gid);
  require(own.gid.global.interface_id != 0, "no RDMA device has an IPv4 address; is this started by `brdma run`?");
  struct ibv_pd* pd = ibv_alloc_pd(device);
  struct ibv_cq* cq = ibv_create_cq(device, 1, NULL, NULL, 0);
  uint8_t* memory = calloc(1, kBytes);
  struct ibv_mr* mr = ibv_reg_mr(pd, memory, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  struct ibv_qp_init_attr wanted = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
  struct ibv_qp* qp = ibv_create_qp(pd, &wanted);
  own.address = (uintptr_t)memory, own.qpn = qp->qp_num, own.rkey = mr->rkey;
  require(write(tcp, &own, sizeof own) == sizeof own, "own facts");
  require(recv(tcp, &peer, sizeof peer, MSG_WAITALL) == sizeof peer, "the peer's facts");
  connect_qp(qp, &peer);
  char word = 1;  // both are connected
  require(write(tcp, &word, 1) == 1 && read(tcp, &word, 1) == 1, "meet");
  for (int i = 0; argc > 1 && i < kBytes; ++i) memory[i] = (uint8_t)(i * 7);
  if (argc > 1) {
    struct ibv_sge sge = {(uintptr_t)memory, kBytes, mr->lkey};
    struct ibv_send_wr request = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = peer.address, request.wr.rdma.rkey = peer.rkey;
    struct ibv_wc done = {0};
    for (require(!ibv_post_send(qp, &request, &bad), "WRITE"); ibv_poll_cq(cq, 1, &done) == 0;) continue;
    require(done.status == IBV_WC_SUCCESS && write(tcp, &word, 1) == 1, ibv_wc_status_str(done.status));
    return 0;
  }
  require(read(tcp, &word, 1) == 1, "client");  // nothing here shows that a WRITE has come: the client reports it
  for (int i = 0; i < kBytes; ++i) require(memory[i] == (uint8_t)(i * 7), "other data than was written");
  return printf("%d bytes are here\n", kBytes) > 0 && fflush(stdout) == 0 ? 0 : 1;
}
