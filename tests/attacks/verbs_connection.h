// tests/attacks/verbs_connection.h - one RDMA-CM connection of a verbs program that polls: its queue pair, its
// completion queue and the receives that it has posted.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <span>
#include <vector>

#include "offer.h"

namespace brdma::attacks {

class VerbsConnection {
 public:
  static constexpr std::uint32_t kSends = 64, kReceives = 8;

  // Takes over the identifier. Throws std::runtime_error, and the identifier is gone anyway.
  VerbsConnection(rdma_cm_id* id, ibv_pd* pd);
  ~VerbsConnection();
  VerbsConnection(const VerbsConnection&) = delete;
  VerbsConnection& operator=(const VerbsConnection&) = delete;

  [[nodiscard]] rdma_cm_id* id() const { return id_; }
  [[nodiscard]] bool receive(std::uint64_t wr_id, const ibv_sge& sge);
  struct Work {
    ibv_wr_opcode opcode = IBV_WR_SEND;
    ibv_sge sge{};
    std::uint64_t remote = 0, add = 0;
    std::uint32_t key = 0;
  };
  [[nodiscard]] bool send(std::uint64_t wr_id, const Work& work);
  // False: an error completion was among them, and the connection is unusable.
  [[nodiscard]] bool poll(std::vector<ibv_wc>& done);

 private:
  rdma_cm_id* id_;
  ibv_cq* queue_ = nullptr;
};

[[nodiscard]] rdma_conn_param connection_parameters(std::span<const std::uint8_t> private_data);
[[nodiscard]] ibv_sge sge_of(const std::uint8_t* bytes, std::size_t size, const ibv_mr* region);
[[nodiscard]] ibv_mr* registered(ibv_pd* pd, std::uint8_t* bytes, std::size_t size, int access);

}  // namespace brdma::attacks
