// fabric/switch/output_queue.h - the queue before a rate: admission, traffic classes, marking, and each packet's
// departure (its last bit). No clock and no events of its own: packets leave at exact times whenever the owner calls.
//
//   admit (room? random drop? mark?) -> push -> [a queue for each class] -> serve: next by class -> its time on
//   the wire
//
// Room: each class has `bytes`, and the switch's shared buffer must have some left, if it has one. An idle port accepts
// any packet, and so does an empty class of several. Without a rate nothing waits.
// The owner calls serve(now) until it returns nothing before each admit, and before reading anything: so every packet
// that has begun to leave by then is known. Times do not go back (by more than the owner's lateness).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/random.h"
#include "base/ring.h"
#include "base/units.h"
#include "fabric/switch/departure_time.h"
#include "fabric/switch/red_marker.h"
#include "fabric/switch/shared_buffer.h"
#include "fabric/switch/traffic_classes.h"

namespace brdma::fabric {

struct QueueConfig {
  std::optional<Bandwidth> rate{};
  std::uint64_t bytes = 256 * 1024;            // of each class: waiting and in transmission
  std::optional<MarkingConfig> marking{};      // ECN
  std::optional<MarkingConfig> random_drop{};  // by the same curve: packets that are dropped early
  TrafficClasses classes{};
};

enum class Refusal : std::uint8_t { kQueueFull, kBufferFull, kRandom };

struct Admission {
  std::optional<Refusal> refused{};
  bool marked = false;
};

// X(member). Packets unless it says bytes.
#define BRDMA_CLASS_COUNTERS(X)                       \
  X(packets) /* that were taken */                    \
  X(bytes)   /* of these */                           \
  X(dropped) /* that were not, for whatever reason */ \
  X(marked)                                           \
  X(waiting) /* bytes, now */                         \
  X(longest) /* bytes that waited at the same time, ever */

struct ClassCounters {
#define BRDMA_X(member) std::uint64_t member = 0;
  BRDMA_CLASS_COUNTERS(BRDMA_X)
#undef BRDMA_X
};

template <class Packet>
class OutputQueue {
 public:
  struct Sent {
    Packet packet{};
    std::uint32_t bytes = 0;
    std::uint8_t tag = 0;  // as pushed
    Instant at;            // its last bit leaves
  };

  OutputQueue(std::uint64_t seed, std::string_view name) : random_(seed, name) {}

  // Waiting packets continue at the new rate.
  void configure(const QueueConfig& config) {
    if (config.classes != config_.classes) scheduler_.configure(config.classes);
    config_ = config;
    transmission_.end.forget_fraction();
    drained_ = transmission_.end;
    if (!config_.rate) return;
    queue_time_ = config_.rate->time_for(config_.bytes);
    drained_ = transmission_.end.later_by(config_.rate->time_for(waiting_));
  }
  void share(SharedBuffer* buffer) { buffer_ = buffer; }  // while empty

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  // Time at which the transmitter takes the next packet, if one waits.
  [[nodiscard]] Instant busy_until() const { return transmission_.end.at(); }
  // Time until everything here has left.
  [[nodiscard]] Duration drain(Instant now) const { return std::max(drained_.at() - now, Duration{}); }
  // Bytes here: waiting and in transmission.
  [[nodiscard]] std::uint64_t occupied() const { return waiting_ + transmission_.bytes; }
  [[nodiscard]] std::uint64_t longest() const { return longest_; }  // maximum so far
  // Total number of packets that found the queue empty. Without one between two non-empty moments the transmitter was
  // never idle.
  [[nodiscard]] std::uint64_t idle_times() const { return idle_times_; }
  [[nodiscard]] const ClassCounters& counters(std::size_t traffic_class) const { return counters_[traffic_class]; }

  [[nodiscard]] Admission admit(std::uint8_t traffic_class, std::uint32_t bytes, Instant now) {
    Admission admission;
    if (!config_.rate) return admission;
    const std::size_t place = place_of(traffic_class);
    admission.marked = on_curve(config_.marking, place, now);
    if (on_curve(config_.random_drop, place, now)) admission.refused = Refusal::kRandom;
    if (!has_room(place, bytes, now)) admission.refused = Refusal::kQueueFull;
    if (!admission.refused && buffer_ != nullptr && !buffer_->admits(occupied(), bytes)) {
      admission.refused = Refusal::kBufferFull;
    }
    counters_[place].dropped += admission.refused ? 1 : 0;
    counters_[place].marked += admission.marked && !admission.refused ? 1 : 0;
    return admission;
  }

  // A packet admitted at this time.
  void push(Packet packet, std::uint8_t traffic_class, std::uint32_t bytes, std::uint8_t tag, Instant now) {
    const std::size_t place = place_of(traffic_class);
    ClassCounters& counters = counters_[place];
    ++counters.packets;
    counters.bytes += bytes;
    counters.waiting += bytes;
    counters.longest = std::max(counters.longest, counters.waiting);
    waiting_ += bytes;
    ++size_;
    longest_ = std::max(longest_, occupied());
    if (drained_.at() <= now) ++idle_times_;
    if (buffer_ != nullptr) buffer_->take(bytes);
    extend(drained_, bytes, now);
    queues_[place].push_back(Waiting{std::move(packet), bytes, tag, now});
  }

  // The next packet that has begun to leave by `now`.
  [[nodiscard]] std::optional<Sent> serve(Instant now) {
    if (config_.rate && busy_until() > now) return std::nullopt;
    release_sent();
    if (size_ == 0) return std::nullopt;
    const std::size_t place = next_class();
    Waiting& first = queues_[place].front();
    Sent sent{std::move(first.packet), first.bytes, first.tag, first.arrived};
    extend(transmission_.end, sent.bytes, first.arrived);
    if (config_.rate) sent.at = busy_until();
    queues_[place].pop_front();
    counters_[place].waiting -= sent.bytes;
    waiting_ -= sent.bytes;
    transmission_.bytes = sent.bytes;
    transmission_.traffic_class = place;
    --size_;
    if (!config_.rate) release_sent();
    return sent;
  }

  // Passes every waiting packet to `discard(Packet)`.
  template <class Discard>
  void clear(const Discard& discard) {
    for (std::size_t place = 0; place < kClassesMax; ++place) {
      for (; !queues_[place].empty(); queues_[place].pop_front()) {
        discard(std::move(queues_[place].front().packet));
        if (buffer_ != nullptr) buffer_->give_back(queues_[place].front().bytes);
      }
      counters_[place].waiting = 0;
    }
    release_sent();
    waiting_ = 0;
    size_ = 0;
    drained_ = transmission_.end;
  }

 private:
  struct Waiting {
    Packet packet{};
    std::uint32_t bytes = 0;
    std::uint8_t tag = 0;
    Instant arrived;
  };
  // The packet that is leaving, or left last.
  struct Transmission {
    DepartureTime end;
    std::uint32_t bytes = 0;  // of the shared buffer, that it still occupies
    std::size_t traffic_class = 0;
  };

  // The number of classes may have shrunk.
  [[nodiscard]] std::size_t place_of(std::uint8_t traffic_class) const {
    return std::min<std::size_t>(traffic_class, config_.classes.count - 1);
  }

  // By `bytes` more; without a rate they take no time.
  void extend(DepartureTime& departure, std::uint32_t bytes, Instant from) const {
    if (config_.rate) {
      departure.extend(bytes, *config_.rate, from);
    } else {
      departure.start_at(from);
    }
  }

  [[nodiscard]] bool has_room(std::size_t place, std::uint32_t bytes, Instant now) const {
    if (config_.classes.count > 1) {
      return counters_[place].waiting == 0 || queued(place, now) + bytes <= config_.bytes;
    }
    if (drained_.at() <= now) return true;
    DepartureTime done = drained_;
    extend(done, bytes, now);
    return done.at() - now <= queue_time_;
  }

  [[nodiscard]] std::uint64_t bytes_in(Duration time) const {
    if (time <= Duration{}) return 0;
    const auto bits = static_cast<unsigned __int128>(time.ns()) * config_.rate->bps();
    return static_cast<std::uint64_t>(bits / 8 / 1'000'000'000);
  }
  // Of a class: bytes that have not left yet.
  [[nodiscard]] std::uint64_t queued(std::size_t place, Instant now) const {
    if (config_.classes.count == 1) return bytes_in(drained_.at() - now);
    return counters_[place].waiting + (transmission_.traffic_class == place ? bytes_in(busy_until() - now) : 0);
  }

  [[nodiscard]] bool on_curve(const std::optional<MarkingConfig>& curve, std::size_t place, Instant now) {
    return curve && marks(*curve, measured(curve->by, place, now), random_);
  }
  // What a packet of that class finds.
  [[nodiscard]] std::uint64_t measured(MarkedBy by, std::size_t place, Instant now) const {
    if (by == MarkedBy::kLength) return queued(place, now);
    if (by == MarkedBy::kOccupancy) return buffer_ != nullptr ? buffer_->used_ppm() : 0;
    return static_cast<std::uint64_t>(std::max(queueing_delay(place, now), Duration{}).ns());
  }
  // Until its first bit leaves. Exact with one class, and for packets of strict classes if no later ones overtake them.
  // Classes with weights: as if those that wait now did so until then.
  [[nodiscard]] Duration queueing_delay(std::size_t place, Instant now) const {
    if (config_.classes.count == 1) return drained_.at() - now;
    const auto& weights = config_.classes.weights;
    std::uint64_t ahead = 0, weights_waiting = 0;
    for (std::size_t other = 0; other < config_.classes.count; ++other) {
      const std::uint64_t waiting = counters_[other].waiting;
      if (weights[other] == 0 && (other <= place || weights[place] != 0)) ahead += waiting;
      if (waiting != 0 || other == place) weights_waiting += weights[other];
    }
    if (weights[place] != 0) ahead += counters_[place].waiting * weights_waiting / weights[place];
    return std::max(busy_until() - now, Duration{}) + config_.rate->time_for(ahead);
  }

  [[nodiscard]] std::size_t next_class() {
    // Packets of removed classes first.
    for (std::size_t place = kClassesMax; place > config_.classes.count; --place) {
      if (!queues_[place - 1].empty()) return place - 1;
    }
    if (config_.classes.count == 1) return 0;
    std::array<std::uint32_t, kClassesMax> heads{};
    for (std::size_t place = 0; place < config_.classes.count; ++place) {
      if (!queues_[place].empty()) heads[place] = queues_[place].front().bytes;
    }
    return scheduler_.next(heads);
  }

  void release_sent() {
    if (buffer_ != nullptr) buffer_->give_back(transmission_.bytes);
    transmission_.bytes = 0;
  }

  QueueConfig config_;
  Random random_;
  ClassScheduler scheduler_;
  SharedBuffer* buffer_ = nullptr;
  std::array<Ring<Waiting>, kClassesMax> queues_;
  std::array<ClassCounters, kClassesMax> counters_;
  std::size_t size_ = 0;
  std::uint64_t waiting_ = 0;  // bytes, of all classes
  std::uint64_t longest_ = 0;
  std::uint64_t idle_times_ = 0;
  Transmission transmission_;
  Duration queue_time_;    // time for a full queue to leave
  DepartureTime drained_;  // of everything here
};

}  // namespace brdma::fabric
