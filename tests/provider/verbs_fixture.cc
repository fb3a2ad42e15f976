#include "provider/verbs_fixture.h"

#include <poll.h>

#include <cstring>

#include "io/test_network.h"

namespace brdma::test {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

}  // namespace

std::uint8_t usual_gid_index() { return over_xdp() ? 1 : 0; }

Owned<ibv_context> open_first_device() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  EXPECT_EQ(count, 1);
  Owned<ibv_context> context;
  if (count > 0) context.reset(ibv_open_device(list[0]));
  EXPECT_NE(context, nullptr);
  ibv_free_device_list(list);
  return context;
}

Side Side::make(std::size_t memory_bytes) {
  Side side;
  side.context = open_first_device();
  side.pd.reset(ibv_alloc_pd(side.context.get()));
  side.channel.reset(ibv_create_comp_channel(side.context.get()));
  side.cq.reset(ibv_create_cq(side.context.get(), 256, nullptr, side.channel.get(), 0));
  side.memory.resize(memory_bytes);
  constexpr int kAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  side.mr.reset(ibv_reg_mr(side.pd.get(), side.memory.data(), side.memory.size(), kAccess));
  ibv_qp_init_attr attributes = usual_queue_pair(side.cq.get());
  side.qp.reset(ibv_create_qp(side.pd.get(), &attributes));
  EXPECT_NE(side.qp, nullptr);
  return side;
}

ibv_sge Side::sge(std::size_t offset, std::uint32_t bytes) const {
  return {.addr = reinterpret_cast<std::uintptr_t>(memory.data()) + offset, .length = bytes, .lkey = mr->lkey};
}

ibv_qp_init_attr usual_queue_pair(ibv_cq* cq) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = cq;
  attributes.recv_cq = cq;
  attributes.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 64};
  attributes.qp_type = IBV_QPT_RC;
  return attributes;
}

int to_init(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  return ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int to_rtr(ibv_qp* qp, ibv_qp* peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer->qp_num;
  attributes.rq_psn = peer->qp_num & 0xFFFFFF;
  attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = 1;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.sgid_index = usual_gid_index();
  attributes.ah_attr.grh.hop_limit = 1;
  EXPECT_EQ(ibv_query_gid(peer->context, 1, usual_gid_index(), &attributes.ah_attr.grh.dgid), 0);
  return ibv_modify_qp(qp, &attributes,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int to_rts(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = qp->qp_num & 0xFFFFFF;
  attributes.timeout = 14;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic = 4;
  return ibv_modify_qp(
      qp, &attributes,
      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

void connect(Side& a, Side& b) {
  for (ibv_qp* qp : {a.qp.get(), b.qp.get()}) ASSERT_EQ(to_init(qp), 0);
  ASSERT_EQ(to_rtr(a.qp.get(), b.qp.get()), 0);
  ASSERT_EQ(to_rtr(b.qp.get(), a.qp.get()), 0);
  for (ibv_qp* qp : {a.qp.get(), b.qp.get()}) ASSERT_EQ(to_rts(qp), 0);
}

int post_send(Side& side, ibv_send_wr request) {
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(side.qp.get(), &request, &bad);
}

int post_receive(Side& side, std::uint64_t wr_id, std::size_t offset, std::uint32_t bytes) {
  ibv_sge sge = side.sge(offset, bytes);
  ibv_recv_wr request{.wr_id = wr_id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(side.qp.get(), &request, &bad);
}

ibv_wc wait_completion(ibv_cq* cq) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  ibv_wc completion{};
  while (std::chrono::steady_clock::now() < end) {
    const int got = ibv_poll_cq(cq, 1, &completion);
    if (got == 1) return completion;
    EXPECT_EQ(got, 0);
  }
  ADD_FAILURE() << "no completion";
  completion.wr_id = ~std::uint64_t{0};
  completion.status = IBV_WC_GENERAL_ERR;
  return completion;
}

void expect_event(Side& side, ibv_event_type type, const void* element) {
  pollfd waiting{side.context->async_fd, POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 10'000), 1);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(side.context.get(), &event), 0);
  EXPECT_EQ(event.event_type, type);
  EXPECT_EQ(static_cast<const void*>(event.element.srq), element);
  ibv_ack_async_event(&event);
}

ibv_send_wr send_request(ibv_sge& sge) {
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  return request;
}

ibv_send_wr write_request(ibv_sge& sge, const Side& peer) {
  ibv_send_wr request = send_request(sge);
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(peer.memory.data()), .rkey = peer.mr->rkey};
  return request;
}

}  // namespace brdma::test
