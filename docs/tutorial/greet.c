// One process writes into another one's memory; RDMA-CM connects them.    cc -o greet greet.c -lrdmacm -libverbs
//   greet            the server: offers its memory, sleeps until a client has written into it, prints it
//   greet ADDRESS    the client
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kBytes = 4096 };
struct place {  // where the client may write; the server sends it when it accepts
  uint64_t address;
  uint32_t rkey;
};
static char memory[kBytes];

static void require(int holds, const char* what) {
  if (!holds) perror(what), exit(1);
}

// An identifier with a queue pair and its completion queues. The server's one listens and passes them on.
static struct rdma_cm_id* endpoint(const char* server) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = server ? 0 : RAI_PASSIVE}, *found;
  require(!rdma_getaddrinfo(server, "18518", &hints, &found), "rdma_getaddrinfo");
  struct ibv_qp_init_attr wanted = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}, .sq_sig_all = 1};
  struct rdma_cm_id* id;
  require(!rdma_create_ep(&id, found, NULL, &wanted), "rdma_create_ep");
  rdma_freeaddrinfo(found);
  return id;
}

static void serve(void) {
  struct rdma_cm_id *listener = endpoint(NULL), *id;
  require(!rdma_listen(listener, 1), "rdma_listen");
  require(!rdma_get_request(listener, &id), "rdma_get_request");
  struct ibv_mr* mr = ibv_reg_mr(id->pd, memory, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  require(mr != NULL, "ibv_reg_mr");
  require(!rdma_post_recv(id, NULL, memory, kBytes, mr), "rdma_post_recv");  // the immediate takes it
  struct place place = {.address = (uintptr_t)memory, .rkey = mr->rkey};
  struct rdma_conn_param reply = {.private_data = &place, .private_data_len = sizeof place, .rnr_retry_count = 7};
  require(!rdma_accept(id, &reply), "rdma_accept");
  struct ibv_wc done;
  require(rdma_get_recv_comp(id, &done) == 1, "rdma_get_recv_comp");
  if (done.status != IBV_WC_SUCCESS) printf("no message: %s\n", ibv_wc_status_str(done.status)), exit(1);
  printf("%u bytes are here: %s\n", ntohl(done.imm_data), memory);
  rdma_disconnect(id);
}

static void greet(const char* server) {
  struct rdma_cm_id* id = endpoint(server);
  struct ibv_mr* mr = ibv_reg_mr(id->pd, memory, kBytes, IBV_ACCESS_LOCAL_WRITE);
  require(mr != NULL, "ibv_reg_mr");
  struct rdma_conn_param request = {.retry_count = 7, .rnr_retry_count = 7};
  require(!rdma_connect(id, &request), "rdma_connect");
  struct place place;
  memcpy(&place, id->event->param.conn.private_data, sizeof place);

  char host[64] = "";
  gethostname(host, sizeof host - 1);
  const uint32_t length = (uint32_t)snprintf(memory, kBytes, "hello from %s", host);
  struct ibv_sge piece = {.addr = (uintptr_t)memory, .length = length, .lkey = mr->lkey};
  struct ibv_send_wr write = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM}, *bad;
  write.imm_data = htonl(length);
  write.wr.rdma.remote_addr = place.address;
  write.wr.rdma.rkey = place.rkey;
  require(!ibv_post_send(id->qp, &write, &bad), "ibv_post_send");
  struct ibv_wc done;
  require(rdma_get_send_comp(id, &done) == 1, "rdma_get_send_comp");
  printf("WRITE: %s\n", ibv_wc_status_str(done.status));
  if (done.status != IBV_WC_SUCCESS) exit(1);
  rdma_disconnect(id);
}

int main(int argc, char** argv) {
  if (argc > 1) {
    greet(argv[1]);
  } else {
    serve();
  }
  return 0;
}
