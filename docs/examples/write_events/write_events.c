// A receiver that sleeps until RDMA WRITEs arrive, and a sender of ordinary WRITEs without immediate.
//   write_events            the receiver: waits for a sender, prints each WRITE, ends after the last one
//   write_events ADDRESS    the sender: three short texts and one WRITE of 1 MB
// Both exchange what queue pairs need over TCP. Built and run by tests/provider/write_events/write_events_installed.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <bitmaprdma/write_events.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kMemoryBytes = 1 << 20, kTexts = 3, kTextBytes = 64, kWrites = kTexts + 1 };
static const char kPort[] = "18516";

struct side {
  FILE *in, *out;  // of a TCP connection
  struct ibv_context* context;
  int gid_index;
  union ibv_gid gid;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  char* memory;
};

struct peer {
  unsigned qp_num, rkey;
  uint64_t address;
  union ibv_gid gid;
};

static void require(int holds, const char* what) {
  if (holds) return;
  perror(what);
  exit(1);
}

// A TCP connection: to `host`, or (null) the first that comes.
static int connect_tcp(const char* host) {
  const struct addrinfo wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE};
  struct addrinfo* found = NULL;
  require(getaddrinfo(host, kPort, &wanted, &found) == 0, "getaddrinfo");
  int fd = socket(found->ai_family, found->ai_socktype, 0);
  require(fd >= 0, "socket");
  if (host) {
    require(connect(fd, found->ai_addr, found->ai_addrlen) == 0, "connect");
  } else {
    const int listener = fd, yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    require(bind(listener, found->ai_addr, found->ai_addrlen) == 0 && listen(listener, 1) == 0, "listen");
    fd = accept(listener, NULL, NULL);
    require(fd >= 0, "accept");
    close(listener);
  }
  freeaddrinfo(found);
  return fd;
}

// The device and GID of the interface that the TCP connection goes over.
static void open_device(struct side* me) {
  struct sockaddr_in own;
  socklen_t bytes = sizeof own;
  require(getsockname(fileno(me->in), (struct sockaddr*)&own, &bytes) == 0, "getsockname");
  union ibv_gid wanted = {.raw = {[10] = 0xFF, [11] = 0xFF}};  // ::ffff:a.b.c.d
  memcpy(wanted.raw + 12, &own.sin_addr, 4);
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  require(list != NULL, "ibv_get_device_list");
  for (int i = 0; i < count; ++i) {
    me->context = ibv_open_device(list[i]);
    for (me->gid_index = 0; me->context && ibv_query_gid(me->context, 1, me->gid_index, &me->gid) == 0;
         ++me->gid_index) {
      if (memcmp(&me->gid, &wanted, sizeof wanted) != 0) continue;
      ibv_free_device_list(list);
      return;
    }
    if (me->context) ibv_close_device(me->context);
  }
  fprintf(stderr, "no RDMA device has the address of this connection: start it by `brdma run`?\n");
  exit(1);
}

static void create_objects(struct side* me) {
  me->memory = calloc(1, kMemoryBytes);
  me->pd = ibv_alloc_pd(me->context);
  me->cq = ibv_create_cq(me->context, kWrites, NULL, NULL, 0);
  require(me->memory && me->pd && me->cq, "ibv_create_cq");
  me->mr = ibv_reg_mr(me->pd, me->memory, kMemoryBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  require(me->mr != NULL, "ibv_reg_mr");
  struct ibv_qp_init_attr wanted = {.send_cq = me->cq, .recv_cq = me->cq, .qp_type = IBV_QPT_RC};
  wanted.cap.max_send_wr = wanted.cap.max_recv_wr = kWrites;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  me->qp = ibv_create_qp(me->pd, &wanted);
  require(me->qp != NULL, "ibv_create_qp");
}

static struct peer exchange(struct side* me) {
  fprintf(me->out, "%x %x %" PRIx64 " ", me->qp->qp_num, me->mr->rkey, (uint64_t)(uintptr_t)me->memory);
  for (size_t i = 0; i < sizeof me->gid.raw; ++i) fprintf(me->out, "%02x", me->gid.raw[i]);
  fprintf(me->out, "\n");
  fflush(me->out);
  struct peer peer;
  require(fscanf(me->in, "%x %x %" SCNx64 " ", &peer.qp_num, &peer.rkey, &peer.address) == 3, "what the peer said");
  for (size_t i = 0; i < sizeof peer.gid.raw; ++i)
    require(fscanf(me->in, "%2hhx", &peer.gid.raw[i]) == 1, "what the peer said");
  return peer;
}

static void connect_queue_pair(struct side* me, const struct peer* peer) {
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  int error = ibv_modify_qp(me->qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = IBV_MTU_1024;
  to.dest_qp_num = peer->qp_num;
  to.min_rnr_timer = 12;
  to.ah_attr.is_global = 1;
  to.ah_attr.port_num = 1;
  to.ah_attr.grh.dgid = peer->gid;
  to.ah_attr.grh.sgid_index = (uint8_t)me->gid_index;
  to.ah_attr.grh.hop_limit = 64;
  if (!error)
    error = ibv_modify_qp(me->qp, &to,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  to.qp_state = IBV_QPS_RTS;
  to.timeout = 14;
  to.retry_cnt = to.rnr_retry = 7;
  if (!error)
    error = ibv_modify_qp(
        me->qp, &to,
        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  errno = error;
  require(!error, "ibv_modify_qp");
}

// Both may go on: the peer has connected its queue pair too, and the receiver watches.
static void meet(struct side* me) {
  fprintf(me->out, "ready\n");
  fflush(me->out);
  char word[8];
  require(fscanf(me->in, "%7s", word) == 1, "what the peer said");
}

static void write_one(struct side* me, const struct peer* peer, uint64_t offset, uint32_t bytes) {
  struct ibv_sge sge = {.addr = (uintptr_t)me->memory + offset, .length = bytes, .lkey = me->mr->lkey};
  struct ibv_send_wr request = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = peer->address + offset;
  request.wr.rdma.rkey = peer->rkey;
  struct ibv_send_wr* bad = NULL;
  errno = ibv_post_send(me->qp, &request, &bad);
  require(errno == 0, "ibv_post_send");
  struct ibv_wc done;
  while (ibv_poll_cq(me->cq, 1, &done) == 0) continue;
  if (done.status == IBV_WC_SUCCESS) return;
  fprintf(stderr, "WRITE: %s\n", ibv_wc_status_str(done.status));
  exit(1);
}

static void send_all(struct side* me, const struct peer* peer) {
  for (int i = 0; i < kTexts; ++i) {
    char* text = me->memory + i * kTextBytes;
    const int bytes = snprintf(text, kTextBytes, "text %d", i + 1);
    write_one(me, peer, (uint64_t)(i * kTextBytes), (uint32_t)bytes + 1);
  }
  write_one(me, peer, 0, kMemoryBytes);
}

static void print_event(const struct side* me, const struct brdma_write_event* event) {
  const uint64_t offset = event->address - (uintptr_t)me->memory;
  printf("%" PRIu32 " bytes at offset %" PRIu64 ": \"%s\"\n", event->length, offset, me->memory + offset);
  fflush(stdout);
}

static void receive_all(struct side* me, struct brdma_write_channel* channel) {
  struct pollfd waiting = {.fd = channel->fd, .events = POLLIN};
  for (int seen = 0; seen < kWrites;) {
    require(poll(&waiting, 1, 60 * 1000) == 1, "poll");  // asleep until a WRITE has arrived
    struct brdma_write_event events[16];
    const int got = brdma_get_write_events(channel, events, 16);
    if (got < 0 && errno == EAGAIN) continue;
    require(got > 0, "brdma_get_write_events");
    for (int i = 0; i < got; ++i) print_event(me, &events[i]);
    seen += got;
  }
  printf("lost: %" PRIu64 "\n", brdma_lost_write_events(channel));
}

static void receive(struct side* me) {
  struct brdma_write_channel* channel = brdma_create_write_channel(me->context, 0);
  require(channel != NULL, "brdma_create_write_channel");
  require(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
  errno = brdma_watch_writes(channel, me->mr, 0);
  require(errno == 0, "brdma_watch_writes");
  meet(me);
  receive_all(me, channel);
  brdma_destroy_write_channel(channel);
}

int main(int argc, char** argv) {
  const char* const host = argc > 1 ? argv[1] : NULL;
  const int tcp = connect_tcp(host);
  struct side me = {.in = fdopen(tcp, "r"), .out = fdopen(dup(tcp), "w")};
  require(me.in && me.out, "fdopen");
  open_device(&me);
  create_objects(&me);
  const struct peer peer = exchange(&me);
  connect_queue_pair(&me, &peer);
  if (host) {
    meet(&me);
    send_all(&me, &peer);
  } else {
    receive(&me);
  }
  ibv_destroy_qp(me.qp);
  ibv_dereg_mr(me.mr);
  ibv_destroy_cq(me.cq);
  ibv_dealloc_pd(me.pd);
  ibv_close_device(me.context);
  fclose(me.in);
  fclose(me.out);
  free(me.memory);
  return 0;
}
