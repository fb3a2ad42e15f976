// fabric/link.h - one direction of a link: faults, then a queue in front of a rate, then a delay. No clock, no I/O, no
// bytes: packets are values of a type that the owner chooses (an index into a pool, a vector of bytes).
//
//   handle_packet -> [loss, corruption, duplication, reordering] -> [queue: tail drop] -> [rate] -> [delay + jitter] ->
//   poll
//
// Order is kept except where reordering holds a packet back: due times never go back. Equal times keep their order.
// The owner calls handle_packet and poll with a time that does not go back (by more than its own lateness), drains poll
// until it answers nothing, and wakes at next_timeout. It also lends an `Owner`, which does what needs bytes:
//   std::optional<Packet> duplicate(const Packet&)          nothing when there is no room for a copy
//   void corrupt(Packet&, std::uint64_t random)             flip one bit, chosen by `random`
//   void discard(Packet)                                    the packet ends here (lost, or the queue is full)
// No allocation once the rings have grown to the most packets in flight (kLinkPacketsMax).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/ring.h"
#include "base/units.h"
#include "fabric/impairments.h"

namespace brdma::fabric {

struct LinkConfig {
  ImpairmentConfig impairments{};
  Duration delay{};                        // propagation, one way
  std::optional<Bandwidth> rate{};         // none: packets take no time on the wire and no queue forms
  std::uint64_t queue_bytes = 256 * 1024;  // waiting and in transmission; an idle link takes any packet
  friend bool operator==(const LinkConfig&, const LinkConfig&) = default;
};

inline constexpr std::size_t kLinkPacketsMax = 1u << 16;  // in the queue and on the wire; one more is a queue drop
inline constexpr std::size_t kHeldPacketsMax = 64;        // reordered at the same time; one more is not reordered

// X(member, name in JSON and tables). offered + duplicated = forwarded + lost + burst_lost + queue_dropped + pending.
#define BRDMA_LINK_COUNTERS(X)                                     \
  X(offered)       /* packets that came to the link */             \
  X(exempt)        /* of these: not judged, faults pass them by */ \
  X(forwarded)     /* packets that left it */                      \
  X(bytes)         /* of the packets that left */                  \
  X(lost)          /* single losses */                             \
  X(burst_lost)    /* lost in a burst */                           \
  X(reordered)     /* held back until later packets passed */      \
  X(duplicated)    /* extra copies */                              \
  X(corrupted)     /* forwarded with one bit flipped */            \
  X(queue_dropped) /* no room in the queue before the rate */

struct LinkCounters {
#define BRDMA_X(member) std::uint64_t member = 0;
  BRDMA_LINK_COUNTERS(BRDMA_X)
#undef BRDMA_X
  LinkCounters& operator+=(const LinkCounters& other) {
#define BRDMA_X(member) member += other.member;
    BRDMA_LINK_COUNTERS(BRDMA_X)
#undef BRDMA_X
    return *this;
  }
};

template <class Packet>
class Link {
 public:
  Link(const LinkConfig& config, std::uint64_t seed, std::string_view name)
      : config_(config), impairments_(config.impairments, seed, name) {
    configure(config);
  }

  // Packets that are under way keep their times.
  void configure(const LinkConfig& config) {
    config_ = config;
    impairments_.configure(config.impairments);
    if (config_.rate) queue_time_ = config_.rate->time_for(config_.queue_bytes);
    fraction_ = 0;
  }
  [[nodiscard]] const LinkConfig& config() const { return config_; }
  [[nodiscard]] const LinkCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t pending() const { return wire_.size() + held_count_; }

  // `bytes`: what it occupies of the rate and the queue. `judged` false: no faults, only queue, rate and delay (ARP).
  template <class Owner>
  void handle_packet(Packet packet, std::uint32_t bytes, bool judged, Instant now, Owner& owner) {
    ++counters_.offered;
    if (!judged) {
      ++counters_.exempt;
      return enqueue(std::move(packet), bytes, now, owner);
    }
    const Verdict verdict = impairments_.judge();
    if (verdict.fate != Fate::kForward) {
      ++(verdict.fate == Fate::kLost ? counters_.lost : counters_.burst_lost);
      return owner.discard(std::move(packet));
    }
    std::optional<Packet> copy;
    if (verdict.duplicate) copy = owner.duplicate(packet);  // before corruption: the copy is sound
    if (verdict.corruption) {
      ++counters_.corrupted;
      owner.corrupt(packet, *verdict.corruption);
    }
    if (verdict.hold_for_packets != 0 && held_count_ < kHeldPacketsMax) {
      ++counters_.reordered;
      held_[held_count_++] = Held{std::move(packet), bytes, verdict.hold_for_packets, now + kReorderHoldMax};
    } else {
      enqueue(std::move(packet), bytes, now, owner);
      let_pass_held(now, owner);
    }
    if (copy) {
      ++counters_.duplicated;
      enqueue(std::move(*copy), bytes, now, owner);
    }
  }

  // The next packet whose time has come.
  template <class Owner>
  [[nodiscard]] std::optional<Packet> poll(Instant now, Owner& owner) {
    if (held_count_ != 0 && held_[0].deadline <= now) {
      release_held([now](const Held& held) { return held.deadline <= now; }, now, owner);
    }
    if (wire_.empty() || wire_.front().due > now) return std::nullopt;
    std::optional<Packet> packet{std::move(wire_.front().packet)};
    ++counters_.forwarded;
    counters_.bytes += wire_.front().bytes;
    polled_due_ = wire_.front().due;
    wire_.pop_front();
    return packet;
  }

  // When the packet that poll gave last was due: a driver that comes late hands this time to the next link.
  [[nodiscard]] Instant polled_due() const { return polled_due_; }

  [[nodiscard]] std::optional<Instant> next_timeout() const {
    std::optional<Instant> next;
    if (!wire_.empty()) next = wire_.front().due;
    if (held_count_ != 0 && (!next || held_[0].deadline < *next)) next = held_[0].deadline;
    return next;
  }

  // Gives every packet back to the owner (at the end, or when the link's other side goes away).
  template <class Owner>
  void clear(Owner& owner) {
    for (; !wire_.empty(); wire_.pop_front()) owner.discard(std::move(wire_.front().packet));
    for (; held_count_ != 0; --held_count_) owner.discard(std::move(held_[held_count_ - 1].packet));
  }

 private:
  struct OnWire {
    Packet packet{};
    std::uint32_t bytes = 0;
    Instant due;
  };
  struct Held {
    Packet packet{};
    std::uint32_t bytes = 0;
    std::uint32_t later_packets = 0;  // still to pass
    Instant deadline;                 // the same time after each arrival: the list is in the order of deadlines
  };

  template <class Owner>
  void enqueue(Packet packet, std::uint32_t bytes, Instant now, Owner& owner) {
    const std::optional<Instant> sent = transmit(bytes, now);
    if (!sent || wire_.size() >= kLinkPacketsMax) {
      ++counters_.queue_dropped;
      return owner.discard(std::move(packet));
    }
    last_due_ = std::max(last_due_, *sent + config_.delay + impairments_.extra_delay(*sent));
    wire_.push_back(OnWire{std::move(packet), bytes, last_due_});
  }

  // When the packet's last bit has left, or nothing if the queue is full. The queue needs no list of its own: what
  // waits is the time until the transmitter is free. Fractions of a nanosecond are carried over, so that a rate is kept
  // exactly however long the run.
  [[nodiscard]] std::optional<Instant> transmit(std::uint32_t bytes, Instant now) {
    if (!config_.rate) return now;
    const std::uint64_t bps = config_.rate->bps();
    if (free_at_ <= now) {
      free_at_ = now;
      fraction_ = 0;
    }
    const std::uint64_t numerator =
        std::uint64_t{bytes} * 8 * 1'000'000'000 + fraction_;  // bytes below 2^20: no overflow
    const Instant done = free_at_ + Duration::from_ns(static_cast<std::int64_t>(numerator / bps));
    if (free_at_ > now && done - now > queue_time_) return std::nullopt;
    free_at_ = done;
    fraction_ = numerator % bps;
    return free_at_;
  }

  // A packet has passed: each held one comes one nearer, and goes when its count is reached.
  template <class Owner>
  void let_pass_held(Instant now, Owner& owner) {
    if (held_count_ == 0) return;
    release_held([](Held& held) { return --held.later_packets == 0; }, now, owner);
  }

  template <class IsReady, class Owner>
  void release_held(IsReady is_ready, Instant now, Owner& owner) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < held_count_; ++i) {
      if (is_ready(held_[i])) {
        enqueue(std::move(held_[i].packet), held_[i].bytes, now, owner);
      } else {
        if (kept != i) held_[kept] = std::move(held_[i]);
        ++kept;
      }
    }
    held_count_ = kept;
  }

  LinkConfig config_;
  Impairments impairments_;
  Ring<OnWire> wire_;
  std::array<Held, kHeldPacketsMax> held_;
  std::size_t held_count_ = 0;
  LinkCounters counters_;
  Duration queue_time_;         // what a full queue takes to leave
  Instant free_at_;             // when the transmitter is idle
  std::uint64_t fraction_ = 0;  // of a nanosecond after free_at_, in units of 1/bps
  Instant last_due_;
  Instant polled_due_;
};

}  // namespace brdma::fabric
