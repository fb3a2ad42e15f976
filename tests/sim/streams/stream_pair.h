// sim/streams/stream_pair.h - a queue pair on each of two hosts, with memory of its own, and a stream of requests of
// one length from the first to the second.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "sim/world.h"
#include "streams/endpoint_pair.h"
#include "support/arena.h"

namespace brdma::test {

class StreamPair {
 public:
  // Connected. `number`, of the pairs of one world, chooses addresses and first PSNs.
  StreamPair(sim::World& world, sim::Host& from, sim::Host& to, EndpointConfig endpoint, std::uint32_t number,
             std::uint32_t request_bytes)
      : world_(world), from_(from), request_bytes_(request_bytes) {
    endpoint.first_psn = Psn{1000 * (number + 1)};
    for (std::size_t side = 0; side < 2; ++side) {
      const std::string name = "arena " + std::to_string(number * 2 + side);
      arenas_[side] = std::make_unique<Arena>((std::uint64_t{number} * 2 + side + 1) << 40, Random{1, name});
      arenas_[side]->allocate(request_bytes);
      arenas_[side]->freeze();
    }
    ends_ = std::make_unique<EndpointPair>(world, std::array{&from, &to}, endpoint,
                                           std::array{arenas_[0].get(), arenas_[1].get()});
  }

  // Takes completions; every one must be a success.
  void take() {
    std::array<Completion, 64> taken;
    const std::size_t count = from_.engine().poll_cq((*ends_)[0].cq(), taken);
    for (std::size_t i = 0; i < count; ++i) BRDMA_CHECK(taken[i].status == CompletionStatus::kSuccess);
    completed_ += count;
  }
  // Posts until so many are in flight.
  void post(WorkOpcode opcode, std::uint64_t under_way) {
    for (; posted_ - completed_ < under_way; ++posted_) {
      const Sge sge{arenas_[0]->iova() + Arena::kGuard, request_bytes_, (*ends_)[0].key()};
      SendRequest request;
      request.sges = {&sge, 1};
      request.opcode = opcode;
      request.flags = kSendSignaled;
      request.remote_address = arenas_[1]->iova() + Arena::kGuard;
      request.rkey = (*ends_)[1].key();
      BRDMA_CHECK(from_.engine().post_send((*ends_)[0].qp(), request, world_.now()).ok());
      from_.touch();
    }
  }

  [[nodiscard]] std::uint64_t completed() const { return completed_; }
  [[nodiscard]] const sim::Host& host() const { return from_; }  // the first
  [[nodiscard]] QueuePair* qp() { return (*ends_)[0].qp(); }     // the first host's

 private:
  sim::World& world_;
  sim::Host& from_;
  std::uint32_t request_bytes_;
  std::unique_ptr<Arena> arenas_[2];
  std::unique_ptr<EndpointPair> ends_;
  std::uint64_t posted_ = 0, completed_ = 0;
};

}  // namespace brdma::test
