// attack_short - a short verbs program that knows its expected counters: two queue pairs of its own, WRITEs from the
// one to the other whose every byte is checked, then brdmad's account of its lease and its counters. Exit code 0:
// success.
//   attack_short WRITES           attack_short hold WRITES: then "held", and it waits for the end of standard input
#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/daemon/daemon_client.h"

namespace {

constexpr std::size_t kBytes = 1024, kSlots = 16;

void must(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

class Program {
 public:
  Program() : memory_(2 * kSlots * kBytes) {
    ibv_device** const devices = ibv_get_device_list(nullptr);
    must(devices != nullptr && devices[0] != nullptr, "no device");
    context_ = ibv_open_device(devices[0]);
    ibv_free_device_list(devices);
    must(context_ != nullptr, "ibv_open_device");
    pd_ = ibv_alloc_pd(context_);
    region_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    cq_ = ibv_create_cq(context_, 64, nullptr, nullptr, 0);
    must(region_ != nullptr && cq_ != nullptr, "objects");
    for (ibv_qp*& qp : qps_) {
      ibv_qp_init_attr attributes{};
      attributes.send_cq = attributes.recv_cq = cq_;
      attributes.qp_type = IBV_QPT_RC;
      attributes.cap = {32, 1, 1, 1, 0};
      must((qp = ibv_create_qp(pd_, &attributes)) != nullptr, "ibv_create_qp");
    }
    for (int i = 0; i < 2; ++i) connect(qps_[i], qps_[1 - i]->qp_num);
  }
  ~Program() {
    for (ibv_qp* const qp : qps_) ibv_destroy_qp(qp);
    ibv_destroy_cq(cq_);
    ibv_dereg_mr(region_);
    ibv_dealloc_pd(pd_);
    ibv_close_device(context_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void write(unsigned count) {
    std::mt19937_64 random{static_cast<std::uint64_t>(::getpid())};
    std::uint8_t *const from = memory_.data(), *const to = from + kSlots * kBytes;
    for (unsigned i = 0; i < count; ++i) {
      const std::size_t at = i % kSlots * kBytes;
      for (std::size_t b = 0; b < kBytes; ++b) from[at + b] = static_cast<std::uint8_t>(random());
      ibv_sge sge{reinterpret_cast<std::uintptr_t>(from + at), kBytes, region_->lkey};
      ibv_send_wr request{}, *bad = nullptr;
      request.sg_list = &sge;
      request.num_sge = 1;
      request.opcode = IBV_WR_RDMA_WRITE;
      request.send_flags = IBV_SEND_SIGNALED;
      request.wr.rdma = {reinterpret_cast<std::uintptr_t>(to + at), region_->rkey};
      must(ibv_post_send(qps_[0], &request, &bad) == 0, "ibv_post_send");
      ibv_wc done{};
      while (ibv_poll_cq(cq_, 1, &done) == 0) {
      }
      if (done.status != IBV_WC_SUCCESS) throw std::runtime_error(ibv_wc_status_str(done.status));
      if (std::memcmp(from + at, to + at, kBytes) != 0) throw std::runtime_error("other bytes than were written");
    }
  }

 private:
  void connect(ibv_qp* qp, std::uint32_t peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    must(ibv_modify_qp(qp, &attr, kInit) == 0, "INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    must(ibv_query_gid(context_, 1, 0, &attr.ah_attr.grh.dgid) == 0, "ibv_query_gid");
    constexpr int kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    must(ibv_modify_qp(qp, &attr, kRtr) == 0, "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 17;
    attr.retry_cnt = attr.rnr_retry = 7;
    constexpr int kRts =
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
    must(ibv_modify_qp(qp, &attr, kRts) == 0, "RTS");
  }

  std::vector<std::uint8_t> memory_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::array<ibv_qp*, 2> qps_{};
};

// brdmad has one lease of this process, of this user, with the right counters.
void check_account(unsigned writes) {
  const auto answer = brdma::io::query_daemon(nlohmann::json{{"query", "statistics"}});
  if (!answer) throw std::runtime_error("brdmad: " + answer.reason().message);
  unsigned found = 0;
  for (const auto& row : answer.value()["processes"]) {
    if (row["pid"] != ::getpid()) continue;
    ++found;
    const auto& counters = row["counters"];
    if (row["uid"] != ::getuid()) throw std::runtime_error("the lease is another user's");
    if (counters["rx_write_requests"] != writes) throw std::runtime_error("wrong counters: " + counters.dump());
  }
  if (found != 1) throw std::runtime_error(std::to_string(found) + " leases");
}

}  // namespace

int main(int count, char** words) {
  const bool hold = count == 3 && std::strcmp(words[1], "hold") == 0;
  if (count != 2 && !hold) return 2;
  const auto writes = static_cast<unsigned>(std::atoi(words[count - 1]));
  try {
    Program program;
    program.write(writes);
    check_account(writes);
    if (!hold) return 0;
    std::puts("held");
    std::fflush(stdout);
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    program.write(writes);
    check_account(2 * writes);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attack_short: %s\n", error.what());
    return 1;
  }
}
