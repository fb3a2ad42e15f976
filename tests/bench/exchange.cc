#include "exchange.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>

namespace bench {
namespace {

std::uint64_t clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void at_once(int fd) {
  const int on = 1;
  need(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
}

}  // namespace

void need(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

std::uint64_t cpu_ns() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
std::uint64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

long resident_bytes() {
  long size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

Peer Peer::serve(std::uint16_t port) {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  need(bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  need(listen(listening, 1) == 0, "listen");
  const int fd = accept(listening, nullptr, nullptr);
  need(fd >= 0, "accept");
  close(listening);
  at_once(fd);
  return Peer{fd};
}

Peer Peer::call(const std::string& text, std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  need(inet_pton(AF_INET, text.c_str(), &address.sin_addr) == 1, "the server's address");
  need(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "connect");
  at_once(fd);
  return Peer{fd};
}

Peer::~Peer() {
  if (fd_ >= 0) close(fd_);
}

void Peer::send(const void* data, std::size_t size) const {
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::send(fd_, bytes + done, size - done, MSG_NOSIGNAL);
    need(n > 0, "send to the other end");
    done += static_cast<std::size_t>(n);
  }
}

void Peer::receive(void* data, std::size_t size) const {
  need(size == 0 || recv(fd_, data, size, MSG_WAITALL) == static_cast<ssize_t>(size), "the other end has gone");
}

std::string Peer::own_address() const {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  need(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
  std::array<char, INET_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
}

void Peer::meet() const {
  char word = 1;
  send(&word, sizeof word);
  receive(&word, sizeof word);
}

bool Peer::said_something() const {
  pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
  return poll(&waiting, 1, 0) == 1;
}

Device open_device() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  need(list != nullptr && count > 0, "no RDMA device");
  Device device;
  device.context = ibv_open_device(list[0]);
  need(device.context != nullptr, "ibv_open_device");
  device.pd = ibv_alloc_pd(device.context);
  ibv_port_attr port{};
  need(device.pd != nullptr && ibv_query_port(device.context, 1, &port) == 0, "ibv_query_port");
  device.mtu = port.active_mtu;
  for (device.gid_index = 0; device.gid_index < port.gid_tbl_len; ++device.gid_index) {
    need(ibv_query_gid(device.context, 1, device.gid_index, &device.gid) == 0, "ibv_query_gid");
    if (IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(device.gid.raw))) break;
  }
  need(device.gid_index < port.gid_tbl_len, "no IPv4 GID");
  ibv_free_device_list(list);
  return device;
}

ibv_qp* create_queue_pair(const Device& device, ibv_cq* cq, std::uint32_t depth, std::uint32_t receives) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {depth, receives, 1, 1, 64};
  ibv_qp* qp = ibv_create_qp(device.pd, &init);
  need(qp != nullptr, "ibv_create_qp");
  return qp;
}

void connect_queue_pair(const Device& device, ibv_qp* qp, const Address& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "to INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = device.mtu;
  attr.dest_qp_num = peer.qp_number;
  attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(device.gid_index);
  attr.ah_attr.grh.hop_limit = 64;
  need(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "to RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 18;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 16;
  need(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "to RTS");
}

void connect_all(const Device& device, const Peer& peer, const std::vector<ibv_qp*>& queue_pairs) {
  std::vector<Address> ours, theirs(queue_pairs.size());
  for (const ibv_qp* qp : queue_pairs) ours.push_back({qp->qp_num, device.gid});
  // In pieces that the kernel holds: both ends send before they receive.
  std::size_t done = 0;
  while (done < ours.size()) {
    const std::size_t some = std::min<std::size_t>(ours.size() - done, 512);
    peer.send(&ours[done], some * sizeof(Address));
    peer.receive(&theirs[done], some * sizeof(Address));
    done += some;
  }
  for (std::size_t i = 0; i < queue_pairs.size(); ++i) connect_queue_pair(device, queue_pairs[i], theirs[i]);
  peer.meet();
}

ibv_mr* register_memory(const Device& device, std::vector<std::uint8_t>& memory) {
  ibv_mr* mr = ibv_reg_mr(device.pd, memory.data(), memory.size(),
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  need(mr != nullptr, "ibv_reg_mr");
  return mr;
}

Window exchange_windows(const Peer& peer, const ibv_mr* mr) {
  const Window ours{reinterpret_cast<std::uintptr_t>(mr->addr), mr->rkey};
  Window theirs;
  peer.send(&ours, sizeof ours);
  peer.receive(&theirs, sizeof theirs);
  return theirs;
}

void post(ibv_qp* qp, const Request& request) {
  ibv_sge sge{.addr = request.local, .length = request.bytes, .lkey = request.lkey};
  ibv_send_wr work{}, *bad = nullptr;
  work.sg_list = &sge;
  work.num_sge = 1;
  work.opcode = request.opcode;
  work.send_flags = request.signaled ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0;
  work.wr.rdma = {.remote_addr = request.to.address, .rkey = request.to.rkey};
  need(ibv_post_send(qp, &work, &bad) == 0, "ibv_post_send");
}

std::size_t poll(ibv_cq* cq) {
  std::array<ibv_wc, 32> completions{};
  const int n = ibv_poll_cq(cq, static_cast<int>(completions.size()), completions.data());
  need(n >= 0, "ibv_poll_cq");
  for (int i = 0; i < n; ++i) {
    need(completions[static_cast<std::size_t>(i)].status == IBV_WC_SUCCESS, "a request failed");
  }
  return static_cast<std::size_t>(n);
}

}  // namespace bench
