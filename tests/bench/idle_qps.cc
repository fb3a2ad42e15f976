// idle_qps - memory of an idle RC queue pair: creates COUNT of them, connects them in pairs, and prints the growth of
// resident memory per queue pair, before (created) and after connecting.   idle_qps [COUNT]
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace {

long resident_bytes() {
  long size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

bool connect(ibv_qp* qp, std::uint32_t peer, const ibv_gid& gid, int gid_index, ibv_mtu mtu) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) return false;
  attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = mtu;
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.port_num = 1;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    return false;
  }
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  int devices = 0;
  ibv_device** list = ibv_get_device_list(&devices);
  ibv_context* context = list != nullptr && devices > 0 ? ibv_open_device(list[0]) : nullptr;
  if (context == nullptr) {
    std::fputs("idle_qps: no RDMA device\n", stderr);
    return 1;
  }
  ibv_port_attr port{};
  ibv_gid gid{};
  const int gid_index = 1;
  if (ibv_query_port(context, 1, &port) != 0 || ibv_query_gid(context, 1, gid_index, &gid) != 0) return 1;
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 1024, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {16, 16, 1, 1, 0};
  std::vector<ibv_qp*> qps;
  const long before = resident_bytes();
  for (std::size_t i = 0; i < count; ++i) {
    ibv_qp_init_attr request = init;
    ibv_qp* qp = ibv_create_qp(pd, &request);
    if (qp == nullptr) {
      std::fprintf(stderr, "idle_qps: queue pair %zu: ", i);
      std::perror("ibv_create_qp");
      return 1;
    }
    qps.push_back(qp);
  }
  const long created = resident_bytes();
  for (std::size_t i = 0; i < count; ++i) {
    if (!connect(qps[i], qps[(i ^ 1) < count ? i ^ 1 : i]->qp_num, gid, gid_index, port.active_mtu)) {
      std::fprintf(stderr, "idle_qps: queue pair %zu does not connect\n", i);
      return 1;
    }
  }
  const long connected = resident_bytes();
  const auto n = static_cast<long>(count);
  std::printf("queue_pairs %ld created_bytes %ld connected_bytes %ld\n", n, (created - before) / n,
              (connected - before) / n);
  for (ibv_qp* qp : qps) ibv_destroy_qp(qp);
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  return 0;
}
