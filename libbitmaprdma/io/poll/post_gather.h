// io/poll/post_gather.h - gathers posts so that they leave in few and full batches. Pure: sends nothing.
//
// A program with many work requests in flight posts them one by one, between polls. A send for each would cost a system
// call a message, and two where a message is a little longer than a batch. So its posts wait until they fill some
// batches, or until a poll is empty; but only while enough is in flight for that poll to return completions. Packets in
// flight of other queue pairs of the same completion queue count too, but not for long: a server that answers one
// client after the other would delay the first for as long as it serves the others.
//
// Messages of 16 packets and batches of 15 never come out even: four messages fill four batches, and a fifth has four
// packets. That rest stays for the next posts, which begin with it. It waits through polls, too, while much of the same
// queue pair is in flight, so that the peer does not run out of packets; and not for long, since the packets that would
// bring the next completions may be lost.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma {
class QueuePair;
}

namespace brdma::io {

class PostGather {
 public:
  static constexpr unsigned kPostsMax = 32;
  static constexpr std::uint64_t kBytesMax = 256 * 1024;
  static constexpr std::uint32_t kInFlightMin = 2;  // packets, of any queue pair of the completion queue
  static constexpr Duration kOthersMax = 20_us;     // when these are of others
  static constexpr std::uint32_t kRestInFlightMin = 64;
  static constexpr Duration kRestMax = 200_us;

  struct Posts {
    const QueuePair* from = nullptr;
    unsigned count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t packets = 0;  // 0: they fill no batches (small ones, or the last packet of each is shorter)
  };

  [[nodiscard]] bool any() const { return posts_ > 0; }
  [[nodiscard]] bool any_rest() const { return rest_; }
  [[nodiscard]] const QueuePair* from() const { return from_; }  // null: nothing waits, or posts of several
  void clear() { *this = PostGather{}; }

  // Packets in flight: of the same queue pair, and of all of its completion queue. True: these posts wait for more;
  // false: nothing waits any longer.
  [[nodiscard]] bool add(const Posts& posts, std::uint32_t in_flight, std::uint32_t awaited, Instant now) {
    if (awaited < kInFlightMin) return false;
    if (posts_ == 0) {
      since_ = now;
      from_ = posts.from;
    } else if (from_ != posts.from) {
      from_ = nullptr;
    }
    if (in_flight < kInFlightMin && now - since_ > kOthersMax) return false;
    even_ = (posts_ == 0 || even_) && posts.packets > 0;
    rest_ = rest_ && even_;  // other posts do not wait for full batches
    posts_ += posts.count;
    bytes_ += posts.bytes;
    packets_ += posts.packets;
    return posts_ < kPostsMax && bytes_ < kBytesMax;
  }
  // Number of packets that may leave in full batches only, of `a_batch` each; 0: all.
  [[nodiscard]] std::uint64_t full(std::uint32_t a_batch, std::uint32_t in_flight) const {
    if (from_ == nullptr || !even_ || in_flight < kRestInFlightMin || packets_ < a_batch) return 0;
    return packets_ % a_batch == 0 ? 0 : packets_ - packets_ % a_batch;
  }
  // Everything has left but the part that fills no batch, which waits. Precondition: full() is not 0.
  void sent(std::uint64_t full, Instant now) {
    bytes_ = bytes_ / packets_ * (packets_ - full);
    packets_ -= full;
    posts_ = 1;
    rest_ = true;
    since_ = now;
  }
  // True: the rest continues to wait. Precondition: any_rest().
  [[nodiscard]] bool rest_waits(std::uint32_t in_flight, Instant now) const {
    return in_flight >= kRestInFlightMin && now - since_ < kRestMax;
  }

 private:
  const QueuePair* from_ = nullptr;
  unsigned posts_ = 0;
  std::uint64_t bytes_ = 0, packets_ = 0;
  bool even_ = false;  // they can fill batches exactly
  bool rest_ = false;  // of posts that have left already
  Instant since_;
};

}  // namespace brdma::io
