// verbs/endpoint.h - one side of a run: memory, completion queue and the queue pairs of all lanes (values/plan.h).
//
// Order: constructor; make_queue_pair for each lane (RDMA-CM makes them itself: adopt); post_receives; connect.
// A function that fails throws RunError with the verb and its error.
#pragma once

#include <infiniband/verbs.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "run/loop.h"
#include "values/plan.h"
#include "verbs/device.h"

namespace brdma::perf {

constexpr std::uint8_t kRetries = 7, kReadsMax = 16;  // of every queue pair

enum class Side { kServer, kClient };

// The other side's memory, and a queue pair there.
struct RemoteMemory {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};
struct RemoteQueuePair {
  std::uint32_t number = 0, psn = 0;
};

// What a work request's wr_id says.
struct WorkId {
  bool receive;
  std::uint32_t lane, slot;  // slot: of a receive
};
[[nodiscard]] WorkId work_id(std::uint64_t wr_id);

// A message to send.
struct Post {
  ibv_wr_opcode opcode;
  std::uint32_t slot = 0;  // local
  std::uint32_t length = 0;
  std::uint32_t remote_slot = 0;  // of WRITE, READ, atomics
  std::uint32_t immediate = 0;    // host order
  bool signaled = true;
};

class Endpoint {
 public:
  static constexpr std::size_t kBatch = 32;  // completions taken at once

  Endpoint(Loop& loop, const Device& device, const Plan& plan, Side side);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint();

  [[nodiscard]] const std::vector<Lane>& lanes() const { return lanes_; }
  [[nodiscard]] std::span<std::byte> slot(std::uint32_t lane, std::uint32_t slot) const;
  [[nodiscard]] RemoteMemory memory() const;

  // The attributes with which a lane's queue pair is made; inline data as much as the device takes.
  [[nodiscard]] ibv_qp_init_attr queue_pair_attributes(std::uint32_t lane) const;
  RemoteQueuePair make_queue_pair(std::uint32_t lane);                   // in INIT; returns its number and first PSN
  void adopt(std::uint32_t lane, ibv_qp* qp, std::uint32_t inline_max);  // it stays its maker's
  void post_receives(std::uint32_t lane);
  void connect(std::uint32_t lane, const Place& peer, const RemoteQueuePair& remote);
  void set_remote(const RemoteMemory& remote) { remote_ = remote; }
  [[nodiscard]] ibv_pd* domain() const { return domain_; }

  void post(std::uint32_t lane, const Post& post);
  void post_receive(std::uint32_t lane, std::uint32_t slot);

  // Up to completions.size(); throws RunError for one with an error.
  [[nodiscard]] std::size_t poll(std::span<ibv_wc> completions);
  // Asks for an event with the next completion; then poll once more. has_event(): it has come.
  void arm();
  [[nodiscard]] bool has_event() const;

 private:
  struct Events;
  struct QueuePair {
    ibv_qp* qp = nullptr;
    std::uint32_t psn = 0, inline_max = 0;
    bool owned = false;
  };
  void release();
  ibv_qp* create(std::uint32_t lane, ibv_qp_init_attr& attributes);

  const Device& device_;
  Side side_;
  std::vector<Lane> lanes_;
  std::vector<QueuePair> queue_pairs_;
  std::span<std::byte> memory_;
  RemoteMemory remote_;
  ibv_pd* domain_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  std::shared_ptr<Events> events_;
};

}  // namespace brdma::perf
