// post_cost - for callgrind: posts COUNT WRITEs of 8 bytes, inline, in batches of BATCH, by ibv_post_send ("post") or
// by ibv_wr_* functions ("wr"), to a queue pair of the same program, and waits for each batch.   post_cost post|wr
// [COUNT [BATCH]]
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

constexpr std::size_t kBatchMax = 64;

struct End {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
  alignas(8) std::array<std::uint8_t, 4096> memory{};

  bool open(ibv_device* device) {
    context = ibv_open_device(device);
    if (context == nullptr) return false;
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 256, nullptr, nullptr, 0);
    mr = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = wanted.recv_cq = cq;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {kBatchMax, 1, 1, 1, 64};
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.pd = pd;
    wanted.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    qp = ibv_create_qp_ex(context, &wanted);
    return qp != nullptr && mr != nullptr;
  }
  bool connect(const End& peer) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
      return false;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = 1;
    attr.ah_attr.grh.hop_limit = 64;
    if (ibv_query_gid(context, 1, 1, &attr.ah_attr.grh.dgid) != 0) return false;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0;
  }
  bool ready() const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 20;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC) == 0;
  }
};

}  // namespace

// Functions of their own, so that callgrind attributes their cost with their callees.
[[gnu::noinline]] int batch_by_post(ibv_qp* qp, ibv_send_wr* requests) {
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, requests, &bad);
}

[[gnu::noinline]] int batch_by_functions(ibv_qp_ex* qp, std::size_t batch, std::uint32_t rkey, std::uint64_t to,
                                         void* from) {
  ibv_wr_start(qp);
  for (std::size_t i = 0; i < batch; ++i) {
    qp->wr_flags = i + 1 == batch ? IBV_SEND_SIGNALED : 0;
    ibv_wr_rdma_write(qp, rkey, to);
    ibv_wr_set_inline_data(qp, from, 8);
  }
  return ibv_wr_complete(qp);
}

int main(int argc, char** argv) {
  const bool functions = argc > 1 && std::string_view(argv[1]) == "wr";
  const std::size_t count = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 3200;
  const std::size_t batch = std::clamp<std::size_t>(argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 32, 1, kBatchMax);
  int devices = 0;
  ibv_device** list = ibv_get_device_list(&devices);
  static End a, b;
  if (devices == 0 || !a.open(list[0]) || !b.open(list[0]) || !a.connect(b) || !b.connect(a) || !a.ready() ||
      !b.ready()) {
    std::fputs("post_cost: no device, or no connection\n", stderr);
    return 1;
  }
  ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(a.memory.data()), .length = 8, .lkey = a.mr->lkey};
  std::array<ibv_send_wr, kBatchMax> requests{};
  const auto to = reinterpret_cast<std::uintptr_t>(b.memory.data());
  for (std::size_t i = 0; i < batch; ++i) {
    requests[i].next = i + 1 == batch ? nullptr : &requests[i + 1];
    requests[i].sg_list = &sge;
    requests[i].num_sge = 1;
    requests[i].opcode = IBV_WR_RDMA_WRITE;
    requests[i].send_flags = IBV_SEND_INLINE | (i + 1 == batch ? IBV_SEND_SIGNALED : 0);
    requests[i].wr.rdma = {.remote_addr = to, .rkey = b.mr->rkey};
  }
  for (std::size_t done = 0; done < count; done += batch) {
    const int error = functions ? batch_by_functions(ibv_qp_to_qp_ex(a.qp), batch, b.mr->rkey, to, a.memory.data())
                                : batch_by_post(a.qp, requests.data());
    ibv_wc completion{};
    while (error == 0 && ibv_poll_cq(a.cq, 1, &completion) == 0) continue;
    if (error != 0 || completion.status != IBV_WC_SUCCESS) {
      std::fprintf(stderr, "post_cost: error %d, status %d\n", error, completion.status);
      return 1;
    }
  }
  std::printf("%zu work requests in batches of %zu\n", count, batch);
  return 0;
}
