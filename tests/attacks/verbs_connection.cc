#include "verbs_connection.h"

#include <array>
#include <stdexcept>

namespace brdma::attacks {

VerbsConnection::VerbsConnection(rdma_cm_id* id, ibv_pd* pd) : id_(id) {
  queue_ = ibv_create_cq(id->verbs, static_cast<int>(kSends + kReceives), nullptr, nullptr, 0);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = queue_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {kSends, kReceives, 1, 1, 0};
  if (queue_ != nullptr && rdma_create_qp(id, pd, &attributes) == 0) return;
  if (queue_ != nullptr) ibv_destroy_cq(queue_);
  rdma_destroy_id(id);
  throw std::runtime_error("no queue pair");
}

VerbsConnection::~VerbsConnection() {
  rdma_destroy_qp(id_);
  ibv_destroy_cq(queue_);
  rdma_destroy_id(id_);
}

bool VerbsConnection::receive(std::uint64_t wr_id, const ibv_sge& sge) {
  ibv_sge mine = sge;
  ibv_recv_wr request{}, *bad = nullptr;
  request.wr_id = wr_id;
  request.sg_list = &mine;
  request.num_sge = 1;
  return ibv_post_recv(id_->qp, &request, &bad) == 0;
}

bool VerbsConnection::send(std::uint64_t wr_id, const Work& work) {
  ibv_sge mine = work.sge;
  ibv_send_wr request{}, *bad = nullptr;
  request.wr_id = wr_id;
  request.sg_list = &mine;
  request.num_sge = 1;
  request.opcode = work.opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  if (work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic.remote_addr = work.remote;
    request.wr.atomic.rkey = work.key;
    request.wr.atomic.compare_add = work.add;
  } else {
    request.wr.rdma.remote_addr = work.remote;
    request.wr.rdma.rkey = work.key;
  }
  return ibv_post_send(id_->qp, &request, &bad) == 0;
}

bool VerbsConnection::poll(std::vector<ibv_wc>& done) {
  std::array<ibv_wc, 16> some{};
  bool good = true;
  for (int got = 0; (got = ibv_poll_cq(queue_, static_cast<int>(some.size()), some.data())) != 0;) {
    if (got < 0) return false;
    for (int i = 0; i < got; ++i) {
      good = good && some[static_cast<std::size_t>(i)].status == IBV_WC_SUCCESS;
      done.push_back(some[static_cast<std::size_t>(i)]);
    }
  }
  return good;
}

rdma_conn_param connection_parameters(std::span<const std::uint8_t> private_data) {
  rdma_conn_param parameters{};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(private_data.size());
  parameters.responder_resources = parameters.initiator_depth = 4;
  parameters.retry_count = parameters.rnr_retry_count = 7;
  return parameters;
}

ibv_sge sge_of(const std::uint8_t* bytes, std::size_t size, const ibv_mr* region) {
  return {reinterpret_cast<std::uintptr_t>(bytes), static_cast<std::uint32_t>(size), region->lkey};
}

ibv_mr* registered(ibv_pd* pd, std::uint8_t* bytes, std::size_t size, int access) {
  ibv_mr* const region = ibv_reg_mr(pd, bytes, size, access);
  if (region == nullptr) throw std::runtime_error("ibv_reg_mr");
  return region;
}

}  // namespace brdma::attacks
