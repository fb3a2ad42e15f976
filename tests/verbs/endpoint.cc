#include "endpoint.h"

#include <sys/mman.h>

#include <cstring>
#include <random>
#include <stdexcept>

namespace {

struct Address {
  std::uint32_t qpn, psn, rkey, mtu;
  std::uint64_t arena;
  ibv_gid gid;
};

template <class T>
T* need(T* pointer, const char* what) {
  if (pointer == nullptr) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  return pointer;
}

void need_zero(int error, const char* what) {
  if (error != 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(error < 0 ? errno : error));
}

ibv_context* open_device(const std::string& name) {
  int count = 0;
  ibv_device** list = need(ibv_get_device_list(&count), "ibv_get_device_list");
  ibv_context* context = nullptr;
  for (int i = 0; i < count && context == nullptr; ++i) {
    if (name.empty() || name == ibv_get_device_name(list[i])) context = ibv_open_device(list[i]);
  }
  ibv_free_device_list(list);
  return need(context, "no such RDMA device");
}

// The first GID that is an IPv4 address, else the first.
int choose_gid(ibv_context* context, const ibv_port_attr& port) {
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    ibv_gid gid;
    static const std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    if (ibv_query_gid(context, 1, i, &gid) == 0 && std::memcmp(gid.raw, mapped, sizeof mapped) == 0) return i;
  }
  return 0;
}

}  // namespace

Endpoint::Endpoint(const Options& options, ControlChannel& control) : events_(options.events) {
  context_ = open_device(options.device);
  pd_ = need(ibv_alloc_pd(context_), "ibv_alloc_pd");
  if (events_) channel_ = need(ibv_create_comp_channel(context_), "ibv_create_comp_channel");
  send_cq_ = need(ibv_create_cq(context_, 2 * kDepth, nullptr, channel_, 0), "ibv_create_cq");
  receive_cq_ = need(ibv_create_cq(context_, 2 * kDepth, nullptr, channel_, 0), "ibv_create_cq");
  void* memory = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  arena_ = static_cast<std::uint8_t*>(memory);
  region_ = need(
      ibv_reg_mr(pd_, arena_, kArenaBytes,
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
      "ibv_reg_mr");
  ibv_qp_init_attr init{};
  init.send_cq = send_cq_;
  init.recv_cq = receive_cq_;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = kDepth;
  init.cap.max_recv_wr = kDepth;
  init.cap.max_send_sge = 4;
  init.cap.max_recv_sge = 4;
  init.cap.max_inline_data = 64;
  qp_ = need(ibv_create_qp(pd_, &init), "ibv_create_qp");
  inline_max_ = init.cap.max_inline_data;
  connect(control);
}

Endpoint::~Endpoint() {
  if (qp_ != nullptr) ibv_destroy_qp(qp_);
  if (region_ != nullptr) ibv_dereg_mr(region_);
  if (send_cq_ != nullptr) ibv_destroy_cq(send_cq_);
  if (receive_cq_ != nullptr) ibv_destroy_cq(receive_cq_);
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
  if (pd_ != nullptr) ibv_dealloc_pd(pd_);
  if (context_ != nullptr) ibv_close_device(context_);
  if (arena_ != nullptr) munmap(arena_, kArenaBytes);
}

void Endpoint::connect(ControlChannel& control) {
  ibv_port_attr port{};
  need_zero(ibv_query_port(context_, 1, &port), "ibv_query_port");
  const int gid_index = choose_gid(context_, port);
  Address mine{};
  need_zero(ibv_query_gid(context_, 1, gid_index, &mine.gid), "ibv_query_gid");
  mine.qpn = qp_->qp_num;
  mine.psn = std::random_device{}() & 0xFF'FFFF;
  mine.rkey = region_->rkey;
  mine.arena = reinterpret_cast<std::uintptr_t>(arena_);
  mine.mtu = port.active_mtu;
  const Address theirs = control.exchange(mine);
  remote_address_ = theirs.arena;
  remote_key_ = theirs.rkey;

  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  need_zero(ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "to INIT");
  attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(mine.mtu < theirs.mtu ? mine.mtu : theirs.mtu);
  attr.dest_qp_num = theirs.qpn;
  attr.rq_psn = theirs.psn;
  attr.max_dest_rd_atomic = 8;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = theirs.gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.port_num = 1;
  need_zero(ibv_modify_qp(qp_, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            "to RTR");
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.sq_psn = mine.psn;
  attr.max_rd_atomic = 8;
  need_zero(ibv_modify_qp(qp_, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC),
            "to RTS");
}

void Endpoint::post_send(ibv_send_wr& wr) {
  ibv_send_wr* bad = nullptr;
  need_zero(ibv_post_send(qp_, &wr, &bad), "ibv_post_send");
}

void Endpoint::post_receive(std::uint64_t wr_id, std::vector<ibv_sge>& sges) {
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = sges.data();
  wr.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad = nullptr;
  need_zero(ibv_post_recv(qp_, &wr, &bad), "ibv_post_recv");
}

ibv_wc Endpoint::wait(ibv_cq* cq) {
  ibv_wc wc{};
  for (;;) {
    int n = ibv_poll_cq(cq, 1, &wc);
    if (n == 0 && events_) {
      need_zero(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
      n = ibv_poll_cq(cq, 1, &wc);
      if (n == 0) {
        ibv_cq* which = nullptr;
        void* context = nullptr;
        need_zero(ibv_get_cq_event(channel_, &which, &context), "ibv_get_cq_event");
        ibv_ack_cq_events(which, 1);
        continue;
      }
    }
    if (n < 0) throw std::runtime_error("ibv_poll_cq");
    if (n == 0) continue;
    if (wc.status != IBV_WC_SUCCESS) {
      throw std::runtime_error(std::string("completion of ") + std::to_string(wc.wr_id) + ": " +
                               ibv_wc_status_str(wc.status));
    }
    return wc;
  }
}
