// io/poll/post_gather.h - posts that wait for each other, so that they leave in few and full batches. Pure: told what
// is posted and what is on its way, sends nothing.
//
// A program that keeps many work requests under way posts them one by one, between polls. A send for each would cost a
// system call a message, and two where a message is a little longer than a batch. So its posts wait until they fill
// some batches, or until it polls and finds nothing; but only while enough is on its way for that poll to come to
// something. What is on its way by other queue pairs of the same completion queue will do, but not for long: a server
// that answers one client after the other would keep the first waiting for all the time that it takes over the others.
//
// Messages of 16 packets and batches of 15 never come out even: of four messages four batches are full, and a fifth has
// four packets. That rest stays for the next posts, which begin with it. It waits through polls, too, while much of the
// same queue pair is on its way before it, so that the peer does not run out of packets; and not for long, since what
// is to bring the next completions may be lost.
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
  static constexpr Duration kOthersMax = 20_us;     // where these are of others
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

  // So many packets are in flight of the same queue pair, and of all of its completion queue. True: these posts wait
  // for more, false: nothing does any longer.
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
    rest_ = rest_ && even_;  // what else is posted does not wait for full batches
    posts_ += posts.count;
    bytes_ += posts.bytes;
    packets_ += posts.packets;
    return posts_ < kPostsMax && bytes_ < kBytesMax;
  }
  // How many packets may leave so that all that do are in full batches, of `a_batch` each; 0: all that there are.
  [[nodiscard]] std::uint64_t full(std::uint32_t a_batch, std::uint32_t in_flight) const {
    if (from_ == nullptr || !even_ || in_flight < kRestInFlightMin || packets_ < a_batch) return 0;
    return packets_ % a_batch == 0 ? 0 : packets_ - packets_ % a_batch;
  }
  // All of it has left but what is not in full batches, which waits. Precondition: full() is not 0.
  void sent(std::uint64_t full, Instant now) {
    bytes_ = bytes_ / packets_ * (packets_ - full);
    packets_ -= full;
    posts_ = 1;
    rest_ = true;
    since_ = now;
  }
  // It goes on waiting. Precondition: any_rest().
  [[nodiscard]] bool rest_waits(std::uint32_t in_flight, Instant now) const {
    return in_flight >= kRestInFlightMin && now - since_ < kRestMax;
  }

 private:
  const QueuePair* from_ = nullptr;
  unsigned posts_ = 0;
  std::uint64_t bytes_ = 0, packets_ = 0;
  bool even_ = false;  // full batches can be made of them
  bool rest_ = false;  // of what has left already
  Instant since_;
};

}  // namespace brdma::io
