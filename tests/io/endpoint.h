// tests/io/endpoint.h - one side of a connection on brdma::Context: a region, two completion queues, a queue pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bitmaprdma/context.h"
#include "device/engine.h"
#include "io/shard/open_context.h"
#include "test_lease.h"

namespace brdma::test {

// Facts about one side that the other needs.
struct PeerInfo {
  std::uint32_t qpn = 0;
  std::uint32_t first_psn = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  IpAddress ip;
};

struct EndpointOptions {
  std::size_t memory_bytes = 1 << 20;
  PathMtu mtu = PathMtu::k4096;
  std::uint32_t send_wr_max = 256, receive_wr_max = 512;
  // 8.6 s until a peer counts as dead: a busy machine may keep one side from running for half a second.
  std::uint8_t timeout = 18, retry_count = 7;
  io::ContextImpl::Options context = usual_context_options();
};

class Endpoint {
 public:
  Endpoint(io::Lease lease, IpAddress ip, const EndpointOptions& options, NotificationHandler* handler = nullptr);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] PeerInfo info() const;
  void connect(const PeerInfo& peer);  // RESET -> INIT -> RTR -> RTS

  // Work requests on `bytes` of own memory at `offset`, towards the same place of the peer's memory unless `remote`.
  struct Work {
    std::size_t offset = 0;
    std::uint32_t bytes = 0;
    std::size_t remote = 0;
    std::uint64_t wr_id = 0;
    std::uint32_t immediate = 0, flags = kSendSignaled;
    std::uint64_t compare_or_add = 0, swap = 0;
  };
  Status post(WorkOpcode opcode, const Work& work);
  Status post_list(WorkOpcode opcode, const std::vector<Work>& list);
  Status post_receive(std::size_t offset, std::uint32_t bytes, std::uint64_t wr_id = 0);
  // One call of poll_cq, for at most one completion.
  bool poll(CompletionQueue* cq, Completion& out) { return context->poll_cq(cq, {&out, 1}) == 1; }

  std::vector<std::byte> memory;
  std::unique_ptr<Context> context;
  ProtectionDomain* pd = nullptr;
  MemoryRegion* region = nullptr;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  QueuePair* qp = nullptr;
  MemoryRegionInfo keys;
  Statistics* statistics = nullptr;

 private:
  EndpointOptions options_;
  IpAddress ip_;
  std::uint32_t qpn_ = 0;
  PeerInfo peer_;
};

}  // namespace brdma::test
