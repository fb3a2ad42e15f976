// qp/respond/responder_resources.h - a responder's resources: the queue of responses that have not left, and the
// results of the last atomics (IBTA 9.7.7.2: a duplicate atomic is answered again, not executed again). Responses leave
// in the order of their requests; a NAK stands behind the responses to earlier requests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/lazy.h"
#include "base/psn.h"
#include "base/ring.h"

namespace brdma::qp {

struct Response {
  enum class Kind : std::uint8_t { kRead, kAtomic, kNak };
  Kind kind = Kind::kNak;
  bool bitmap = false;  // the request was a bitmap packet: so is the response
  bool replay = false;  // response to a duplicate
  bool started = false;
  bool by_reference = false;  // one packet with a reference to the data
  bool unasked = false;       // a replay because a switch dropped it: unreadable memory is not reported
  std::uint8_t syndrome = 0;
  Psn psn;  // of the next packet to send
  std::uint32_t msn = 0;
  // kRead: the rest to be sent.
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  std::uint32_t bytes_left = 0;
  std::uint32_t message = 0;       // BXTH of the response: the request's MSN ...
  std::uint32_t packet_index = 0;  // ... and the packet's place in it
  // kAtomic
  std::uint64_t original = 0;
};

// Response packets of a READ of so many bytes: one even where it is empty.
[[nodiscard]] constexpr std::uint32_t response_packets(std::uint32_t bytes, std::uint32_t mtu) {
  return bytes == 0 ? 1 : (bytes - 1) / mtu + 1;
}

class ResponderResources {
 public:
  // `outstanding_max`: the queue pair's max_dest_rd_atomic.
  void reset(std::uint32_t outstanding_max);

  // A READ with many holes is re-requested hole by hole: duplicates have room for several a READ. New requests always
  // have room for twice the agreed depth beside them.
  [[nodiscard]] bool room_for_request() const { return queue_.size() < responses_max(); }
  [[nodiscard]] bool room_for_replay() const { return queue_.size() < replays_max(); }
  // The response to [psn, psn + packets) of a READ is waiting to be sent anyway.
  [[nodiscard]] bool will_response(Psn psn, std::uint32_t packets, std::uint32_t mtu) const;
  // A NAK for `psn` has not left yet.
  [[nodiscard]] bool has_nak(Psn psn) const;
  [[nodiscard]] bool empty() const { return queue_.empty(); }
  [[nodiscard]] Response& front() { return queue_.front(); }
  [[nodiscard]] const Response& front() const { return queue_.front(); }
  [[nodiscard]] std::size_t size() const { return queue_.size(); }
  void push(const Response& response) { queue_.push_back(response); }
  // Before all waiting ones: their order among each other stays.
  void push_first(const Response& response) { queue_.push_front(response); }
  // `response` is taken by value: it may lie in the queue.
  void replace_all(Response response) {
    queue_.clear();
    queue_.push_back(response);
  }
  void pop() { queue_.pop_front(); }

  void remember_atomic(Psn psn, std::uint64_t original, std::uint32_t msn);
  struct AtomicResult {
    Psn psn;
    std::uint32_t msn = 0;
    std::uint64_t original = 0;
  };
  // Null: too old, or never executed.
  [[nodiscard]] const AtomicResult* find_atomic(Psn psn) const;
  [[nodiscard]] std::size_t allocated_bytes() const { return queue_.allocated_bytes() + atomics_.allocated_bytes(); }

 private:
  static constexpr std::size_t kAtLeast = 16;
  [[nodiscard]] std::size_t replays_max() const {
    return std::max<std::size_t>(4 * kAtLeast, 8 * std::size_t{outstanding_max_});
  }
  [[nodiscard]] std::size_t responses_max() const {
    return replays_max() + 2 * std::size_t{outstanding_max_} + kAtLeast;
  }
  [[nodiscard]] std::size_t atomics_max() const { return std::max<std::size_t>(kAtLeast, 2 * outstanding_max_); }

  Ring<Response> queue_;
  Lazy<Ring<AtomicResult>> atomics_;  // oldest first
  std::uint32_t outstanding_max_ = 0;
};

}  // namespace brdma::qp
