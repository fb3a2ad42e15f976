// fabric/link.h - one direction of a link: faults, then a queue in front of a rate, then a delay. No clock, no I/O, no
// bytes: packets are values of a type that the owner chooses (an index into a pool, a vector of bytes).
//
//   handle_packet -> [loss, corruption, duplication, reordering] -> [queue, rate] -> [delay + jitter] -> poll
//
// Queue and rate are fabric/switch/output_queue.h: traffic classes, marking, drops. A link may have several paths: they
// share queue and rate (the host's own), and have their own faults and delay. The caller names a packet's path
// (fabric/routing/path_map.h).
// Order is kept on a path, except where reordering holds a packet back: due times never go back. Equal times keep their
// order; of two paths the lower goes first.
// The owner calls handle_packet and poll with a time that does not go back (by more than its own lateness), drains poll
// until it returns nothing, and wakes at next_timeout. It also lends an `Owner`, which handles bytes:
//   std::optional<Packet> duplicate(const Packet&)          nothing when there is no room for a copy
//   void corrupt(Packet&, std::uint64_t random)             flip one bit, chosen by `random`
//   void discard(Packet)                                    the packet ends here (lost, or the queue is full)
// and may be notified, for explicit drop notification (fabric/switch/drop_notifier.h):
//   void dropped(const Packet&, Duration drain, Instant)    about to be discarded; the full queue takes `drain` to
//                                                           empty. 0: it was a fault, not the queue
//   void enqueued(Packet&, bool marked, Instant)            `marked`: by LinkConfig::marking
// and asked, where there are several classes:
//   std::uint8_t dscp(const Packet&)
// No allocation once the rings have grown to the most packets in flight (packets_max).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ring.h"
#include "base/units.h"
#include "fabric/impairments.h"
#include "fabric/switch/output_queue.h"

namespace brdma::fabric {

inline constexpr std::size_t kLinkPathsMax = 8;
inline constexpr std::size_t kLinkPacketsMax = 1u << 16;  // default

struct LinkConfig {
  ImpairmentConfig impairments{};
  Duration delay{};                            // propagation, one way
  std::optional<Bandwidth> rate{};             // none: packets take no time on the wire and no queue forms
  std::uint64_t queue_bytes = 256 * 1024;      // waiting and in transmission; an idle link takes any packet
  std::optional<MarkingConfig> marking{};      // of packets that find congestion (ECN); needs a rate
  std::optional<MarkingConfig> random_drop{};  // the same curve: these are dropped
  TrafficClasses classes{};                    // queue_bytes for each
  // Of each path, in the queue and on the wire; one more is a queue drop. It bounds a switch's memory, and must exceed
  // the path's capacity: 100 Gbit/s have 152,000 packets of 4096 bytes on a wire of 50 ms.
  std::size_t packets_max = kLinkPacketsMax;
  std::uint32_t paths = 1;  // 1..kLinkPathsMax
  Duration skew{};          // extra delay of the last path over the first; even steps between
  std::array<std::uint32_t, kLinkPathsMax> path_loss_ppm{};  // beyond impairments.loss_ppm; 1'000'000: a silent path
  [[nodiscard]] Duration delay_of(std::size_t path) const {
    return paths < 2 ? delay : delay + skew * static_cast<std::int64_t>(path) / static_cast<std::int64_t>(paths - 1);
  }
  [[nodiscard]] ImpairmentConfig impairments_of(std::size_t path) const {
    ImpairmentConfig own = impairments;
    own.loss_ppm = std::min(own.loss_ppm + path_loss_ppm[path], 1'000'000u);
    return own;
  }
  friend bool operator==(const LinkConfig&, const LinkConfig&) = default;
};

// Of each path.
inline constexpr std::size_t kHeldPacketsMax = 64;  // reordered at the same time; one more is not reordered

// X(member, name in JSON and tables). offered + duplicated = forwarded + lost + burst_lost + *_dropped + pending.
#define BRDMA_LINK_COUNTERS(X)                                      \
  X(offered)        /* packets that came to the link */             \
  X(exempt)         /* of these: not judged, faults pass them by */ \
  X(forwarded)      /* packets that left it */                      \
  X(bytes)          /* of the packets that left */                  \
  X(lost)           /* single losses */                             \
  X(burst_lost)     /* lost in a burst */                           \
  X(reordered)      /* held back until later packets passed */      \
  X(duplicated)     /* extra copies */                              \
  X(corrupted)      /* forwarded with one bit flipped */            \
  X(marked)         /* found the queue long enough for a mark */    \
  X(queue_dropped)  /* no room in the queue before the rate */      \
  X(buffer_dropped) /* no room in the memory that ports share */    \
  X(random_dropped) /* early, by chance, by the queue's length */

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
  // `name` selects the random streams; further paths append their number.
  Link(const LinkConfig& config, std::uint64_t seed, std::string_view name)
      : seed_(seed), name_(name), queue_(seed, name_ + " marking") {
    configure(config);
  }
  // Packet memory in common with other links. Before the first packet.
  void share(SharedBuffer* buffer) { queue_.share(buffer); }

  // Packets already in transmission keep their times.
  void configure(const LinkConfig& config) {
    config_ = config;
    config_.paths = std::clamp<std::uint32_t>(config.paths, 1, kLinkPathsMax);
    while (paths_.size() < config_.paths) add_path();
    for (std::size_t i = 0; i < config_.paths; ++i) paths_[i].impairments.configure(config_.impairments_of(i));
    queue_.configure({.rate = config_.rate,
                      .bytes = config_.queue_bytes,
                      .marking = config_.marking,
                      .random_drop = config_.random_drop,
                      .classes = config_.classes});
  }
  [[nodiscard]] const LinkConfig& config() const { return config_; }
  [[nodiscard]] LinkCounters counters() const {
    LinkCounters all;
    for (const Path& path : paths_) all += path.counters;
    return all;
  }
  [[nodiscard]] const LinkCounters& path_counters(std::size_t path) const { return paths_[path].counters; }
  [[nodiscard]] const OutputQueue<Packet>& queue() const { return queue_; }
  [[nodiscard]] std::size_t pending() const {
    std::size_t all = queue_.size();
    for (const Path& path : paths_) all += path.wire.size() + path.held_count;
    return all;
  }

  // `bytes`: size for rate and queue. `judged` false: no faults, only queue, rate and delay (ARP). `flow`: the path,
  // modulo their number.
  template <class Owner>
  void handle_packet(Packet packet, std::uint32_t bytes, bool judged, Instant now, Owner& owner,
                     std::uint32_t flow = 0) {
    Path& path = paths_[config_.paths == 1 ? 0 : flow % config_.paths];
    ++path.counters.offered;
    if (!judged) {
      ++path.counters.exempt;
      return enqueue(path, std::move(packet), bytes, now, owner);
    }
    const Verdict verdict = path.impairments.judge();
    if (verdict.fate != Fate::kForward) {
      ++(verdict.fate == Fate::kLost ? path.counters.lost : path.counters.burst_lost);
      return drop(std::move(packet), Duration{}, now, owner);
    }
    std::optional<Packet> copy;
    if (verdict.duplicate) copy = owner.duplicate(packet);  // before corruption: the copy is sound
    if (verdict.corruption) {
      ++path.counters.corrupted;
      owner.corrupt(packet, *verdict.corruption);
    }
    if (verdict.hold_for_packets != 0 && path.held_count < kHeldPacketsMax) {
      ++path.counters.reordered;
      path.held[path.held_count++] = Held{std::move(packet), bytes, verdict.hold_for_packets, now + kReorderHoldMax};
    } else {
      enqueue(path, std::move(packet), bytes, now, owner);
      let_pass_held(path, now, owner);
    }
    if (copy) {
      ++path.counters.duplicated;
      enqueue(path, std::move(*copy), bytes, now, owner);
    }
  }

  // Moves packets in transmission from the queue to the wire: their room is free then.
  void advance(Instant now) {
    while (auto sent = queue_.serve(now)) {
      Path& path = paths_[sent->tag];
      path.last_due =
          std::max(path.last_due, sent->at + config_.delay_of(path.number) + path.impairments.extra_delay(sent->at));
      path.wire.push_back(OnWire{std::move(sent->packet), sent->bytes, path.last_due});
    }
  }

  // The next packet that is due.
  template <class Owner>
  [[nodiscard]] std::optional<Packet> poll(Instant now, Owner& owner) {
    Path* next = nullptr;
    for (Path& path : paths_) {
      if (path.held_count != 0 && path.held[0].deadline <= now) {
        release_held(
            path, [now](const Held& held) { return held.deadline <= now; }, now, owner);
      }
    }
    advance(now);
    for (Path& path : paths_) {
      if (!path.wire.empty() && (next == nullptr || path.wire.front().due < next->wire.front().due)) next = &path;
    }
    if (next == nullptr || next->wire.front().due > now) return std::nullopt;
    OnWire& first = next->wire.front();
    std::optional<Packet> packet{std::move(first.packet)};
    ++next->counters.forwarded;
    next->counters.bytes += first.bytes;
    polled_due_ = first.due;
    next->wire.pop_front();
    return packet;
  }

  // Due time of the packet that poll returned last: a late driver passes this time to the next link.
  [[nodiscard]] Instant polled_due() const { return polled_due_; }

  [[nodiscard]] std::optional<Instant> next_timeout() const {
    std::optional<Instant> next;
    const auto sooner = [&next](Instant at) {
      if (!next || at < *next) next = at;
    };
    for (const Path& path : paths_) {
      if (!path.wire.empty()) sooner(path.wire.front().due);
      if (path.held_count != 0) sooner(path.held[0].deadline);
    }
    // On one path a waiting packet arrives after those on the wire; on several it may arrive before.
    if (!queue_.empty() && (config_.paths > 1 || !next)) sooner(queue_.busy_until());
    return next;
  }

  // Returns every packet to the owner (at the end, or when the link's other side disappears).
  template <class Owner>
  void clear(Owner& owner) {
    queue_.clear([&owner](Packet packet) { owner.discard(std::move(packet)); });
    for (Path& path : paths_) {
      for (; !path.wire.empty(); path.wire.pop_front()) owner.discard(std::move(path.wire.front().packet));
      for (; path.held_count != 0; --path.held_count) owner.discard(std::move(path.held[path.held_count - 1].packet));
    }
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
  struct Path {
    Path(std::uint64_t seed, const std::string& name, std::size_t place) : impairments({}, seed, name), number(place) {}
    Impairments impairments;
    std::size_t number;
    Ring<OnWire> wire;
    std::array<Held, kHeldPacketsMax> held;
    std::size_t held_count = 0;
    LinkCounters counters;
    Instant last_due;
  };

  void add_path() {
    const std::size_t number = paths_.size();
    paths_.emplace_back(seed_, number == 0 ? name_ : name_ + " path " + std::to_string(number), number);
  }

  template <class Owner>
  void drop(Packet packet, Duration drain, Instant now, Owner& owner) {
    if constexpr (requires { owner.dropped(packet, drain, now); }) owner.dropped(packet, drain, now);
    owner.discard(std::move(packet));
  }

  template <class Owner>
  void enqueue(Path& path, Packet packet, std::uint32_t bytes, Instant now, Owner& owner) {
    advance(now);
    std::uint8_t traffic_class = 0;
    if constexpr (requires { owner.dscp(packet); }) {
      if (config_.classes.count > 1) traffic_class = config_.classes.class_of(owner.dscp(packet));
    }
    Admission admission = queue_.admit(traffic_class, bytes, now);
    if (path.wire.size() + queue_.size() >= config_.packets_max) admission.refused = Refusal::kQueueFull;
    if (admission.refused) {
      ++dropped_counter(path.counters, *admission.refused);
      return drop(std::move(packet), queue_.drain(now), now, owner);
    }
    path.counters.marked += admission.marked ? 1 : 0;
    if constexpr (requires { owner.enqueued(packet, admission.marked, now); }) {
      owner.enqueued(packet, admission.marked, now);
    }
    queue_.push(std::move(packet), traffic_class, bytes, static_cast<std::uint8_t>(path.number), now);
    advance(now);
  }

  [[nodiscard]] static std::uint64_t& dropped_counter(LinkCounters& counters, Refusal refusal) {
    if (refusal == Refusal::kBufferFull) return counters.buffer_dropped;
    return refusal == Refusal::kRandom ? counters.random_dropped : counters.queue_dropped;
  }

  // A packet has passed: decrements the count of each held one, and releases it at 0.
  template <class Owner>
  void let_pass_held(Path& path, Instant now, Owner& owner) {
    if (path.held_count == 0) return;
    release_held(
        path, [](Held& held) { return --held.later_packets == 0; }, now, owner);
  }

  template <class IsReady, class Owner>
  void release_held(Path& path, IsReady is_ready, Instant now, Owner& owner) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < path.held_count; ++i) {
      if (is_ready(path.held[i])) {
        enqueue(path, std::move(path.held[i].packet), path.held[i].bytes, now, owner);
      } else {
        if (kept != i) path.held[kept] = std::move(path.held[i]);
        ++kept;
      }
    }
    path.held_count = kept;
  }

  std::uint64_t seed_;
  std::string name_;
  OutputQueue<Packet> queue_;
  LinkConfig config_;
  std::vector<Path> paths_;  // at least one; never fewer again
  Instant polled_due_;
};

}  // namespace brdma::fabric
