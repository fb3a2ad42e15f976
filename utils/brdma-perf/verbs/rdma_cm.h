// verbs/rdma_cm.h - queue pairs connected by RDMA-CM, one connection a lane. Plan and memory travel by TCP all the
// same.
//
// Private data of a connection request: the server's token (8 bytes), the lane (4 bytes), both big endian. A request
// with another token, an unknown lane or one that is connected is rejected. Errors are RunError.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "verbs/endpoint.h"

namespace brdma::perf {

struct CloseChannel {
  void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
};
struct CloseId {
  void operator()(rdma_cm_id* id) const {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    rdma_destroy_id(id);
  }
};
using CmId = std::unique_ptr<rdma_cm_id, CloseId>;

// Before the Endpoint is destroyed, whose completion queue they use, close() destroys the queue pairs. The device stays
// open as long as these objects are there.
void destroy_queue_pairs(const std::vector<CmId>& ids);

class CmServer {
 public:
  explicit CmServer(const std::string& address);
  [[nodiscard]] ibv_context* context() const { return listener_->verbs; }
  [[nodiscard]] int port_of_device() const { return listener_->port_num; }
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::uint64_t token() const { return token_; }
  // Until every lane is connected, or `deadline` (of clock_ns).
  void accept(Endpoint& endpoint, std::int64_t deadline);
  void close() { destroy_queue_pairs(lanes_); }

 private:
  void take_request(Endpoint& endpoint, CmId id, const rdma_conn_param& request);
  std::unique_ptr<rdma_event_channel, CloseChannel> channel_;
  CmId listener_;
  std::vector<CmId> lanes_;
  std::uint64_t token_;
};

class CmClient {
 public:
  CmClient(const std::string& address, std::uint16_t port, std::int64_t deadline);
  [[nodiscard]] ibv_context* context() const { return first_->verbs; }
  [[nodiscard]] int port_of_device() const { return first_->port_num; }
  void connect(Endpoint& endpoint, std::uint64_t token, std::int64_t deadline);
  void close() { destroy_queue_pairs(lanes_); }

 private:
  [[nodiscard]] CmId resolve(std::int64_t deadline);
  std::string address_;
  std::uint16_t port_;
  std::unique_ptr<rdma_event_channel, CloseChannel> channel_;
  CmId first_;
  std::vector<CmId> lanes_;
};

}  // namespace brdma::perf
