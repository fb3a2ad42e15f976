// io/poll/send_scheduler.h - decides whether output leaves now, is gathered with further posts, or is held. Pure: it
// sends nothing and reads no clock. The driver (io/shard/shard.h) reports what happens, asks, and carries out.
//
//   a post         on_post(); where may_gather(), gathers(): true: nothing leaves. Else plan(kPost).
//   other events   on_event(), then plan() with the occasion.
//   plan()         number of packets that leave now; 0: all of it waits. Then on_all_sent(), on_blocked() or
//                  on_cut_short() says how the sending ended.
//
// What may wait, by interest (base/transmit_interest.h):
//   kDeferrable  an acknowledgement, for the program's reply (io/poll/ack_deferral.h)
//   kNewData     posts, for more of them (io/poll/post_gather.h)
// Above these nothing waits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/transmit_interest.h"
#include "base/units.h"
#include "device/engine.h"
#include "io/poll/ack_deferral.h"
#include "io/poll/driver.h"
#include "io/poll/post_gather.h"

namespace brdma::io {

class SendScheduler {
 public:
  static constexpr std::uint64_t kAllPackets = ~std::uint64_t{0};
  // A program that sleeps takes longer to reply: its work on a message, and its own wake-up.
  static constexpr Duration kSleeperHoldMax = 100_us;

  // What asks for output.
  enum class Occasion : std::uint8_t {
    kPost,   // a post that is not gathered
    kPoll,   // a poll that has received, or found something due: a rest of posts may continue to wait
    kRound,  // another call, the progress thread: gathered posts leave
    kLeave,  // queue pairs may be destroyed, or the program goes to sleep without a reply: nothing waits
  };

  // `ack_hold_max`: longest wait of an acknowledgement for the reply of a program that polls; 0: none.
  explicit SendScheduler(Duration ack_hold_max) : ack_hold_max_(ack_hold_max) {}

  // --- events ---
  // Packets came, a timer fired, a call changed something: poll_transmit() may have output.
  void on_event() { possible_ = true; }
  void on_post(Instant now) {
    possible_ = true;
    acks_.posted(now);
  }
  // poll_transmit() has nothing left.
  void on_all_sent() {
    possible_ = false;
    posts_.clear();
  }
  // The system takes no more: what it does take again goes first, and all else follows.
  void on_blocked() { posts_.clear(); }
  // There is more than one call may send.
  void on_cut_short() {
    cut_short_ = true;
    posts_.clear();
  }
  // Queue pairs may be destroyed.
  void forget() { posts_.clear(); }

  // --- decisions ---
  // `sends`, `blocked`: the queue pair sends requests; a batch waits for the system.
  [[nodiscard]] bool may_gather(const Driver& driver, bool sends, bool blocked) const {
    return driver.polls_in_loop() && sends && !blocked;
  }
  // True: these posts wait for more. `load`: of their queue pair. Precondition: may_gather().
  [[nodiscard]] bool gathers(const PostGather::Posts& posts, const Engine::Load& load, Instant now) {
    return posts_.add(posts, load.in_flight, load.awaited, now);
  }
  // The queue pair with posts that have left but for a rest, which fills no batch; null: none.
  [[nodiscard]] const QueuePair* rest_of() const { return posts_.any_rest() ? posts_.from() : nullptr; }
  // Nothing waits for a poll to send it. `load`: of rest_of(); without one, any.
  [[nodiscard]] bool idle(const Engine::Load& load, Instant now) const {
    return !cut_short_ && (!posts_.any() || rest_waits(load, now));
  }
  // plan() depends on the interest. To ask for it costs more than the decision.
  [[nodiscard]] bool needs_interest(Occasion occasion, const Engine::Load& load) const {
    return possible_ && (acks_.holding() || may_hold(occasion, load));
  }
  // Number of packets that leave now. `load`: of the posting queue pair (kPost), or of rest_of().
  [[nodiscard]] std::uint64_t plan(Occasion occasion, const Engine::Interest& interest, const Engine::Load& load,
                                   const Driver& driver, Instant now);
  // A poll has its completion. True: the call may end with that, if holds_for_reply(). The program plays ping-pong, and
  // the other work at a call's end (deadlines above all) takes as long as making its reply, which the peer waits for;
  // so its next call does it.
  [[nodiscard]] bool expects_reply(const Driver& driver, bool blocked) const {
    return acks_.expects_reply() && driver.polls_in_loop() && !blocked && !cut_short_ && !posts_.any();
  }
  // True: an acknowledgement is all there is, and waits for the reply. Precondition: expects_reply().
  [[nodiscard]] bool holds_for_reply(TransmitInterest level, Instant now) {
    return level == TransmitInterest::kDeferrable && acks_.hold_back(now, ack_hold_max_);
  }

  // --- state ---
  [[nodiscard]] bool cut_short() const { return cut_short_; }
  [[nodiscard]] bool holding() const { return acks_.holding(); }  // an acknowledgement, for the reply
  // Time at which it must leave.
  [[nodiscard]] std::optional<Instant> deadline() const { return acks_.deadline(); }

 private:
  // A post with nothing in flight leaves at once, with held acknowledgements.
  static bool may_hold(Occasion occasion, const Engine::Load& load) {
    return occasion != Occasion::kLeave && (occasion != Occasion::kPost || load.in_flight > 0);
  }
  [[nodiscard]] bool rest_waits(const Engine::Load& load, Instant now) const {
    return rest_of() != nullptr && posts_.rest_waits(load.in_flight, now);
  }
  [[nodiscard]] bool only_gathered(const Engine::Interest& interest) const;
  [[nodiscard]] static bool keeps_hold(const Driver& driver);
  [[nodiscard]] Duration hold_max(const Driver& driver) const {
    return driver.sleeps && ack_hold_max_ > Duration{} ? std::max(kSleeperHoldMax, ack_hold_max_) : ack_hold_max_;
  }

  Duration ack_hold_max_;
  AckDeferral acks_;
  PostGather posts_;
  bool possible_ = false;   // something happened since poll_transmit() had nothing
  bool cut_short_ = false;  // there was more than one call may send
};

}  // namespace brdma::io
