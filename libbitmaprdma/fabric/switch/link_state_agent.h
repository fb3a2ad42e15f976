// fabric/switch/link_state_agent.h - link-state feedback of one switch (WT-7): answers passing inquiries (passive
// feedback), and reports congested ports (active feedback). Sans-I/O; no allocation after construction.
//
// Passive. An inquiry (wire/link_state.h) that is about to leave by a port gets one feedback, as long as itself, and is
// forwarded with the next hop index. No feedback is sent, and the inquiry is forwarded unchanged, where
// - its hop limit is reached,
// - no RoCE data of its flow (five-tuple) has passed here within `flow_age_max`: so a forged source must send its
// flow's data too, on this path, which prevents amplification,
// - its source was answered less than `source_interval` ago, or all sources together used up `answers_per_second`.
// Active. A port's state is sampled while packets pass. It is over its limits when its queue (over `queue_time`) fills
// to queue_high, its capacity falls to speed_low of its rate, or it is down. It is within again when both are well
// within (queue_low, speed_high). Each change is reported, and a port that stays over again every `report_repeat`.
// Reports of a port are at least `report_interval` apart; changes reverted by then are not reported. The owner calls
// routed() for each packet, answer() for those that routed() recognises as inquiries, sample() for each port at
// next_timeout(), and drains poll_feedback() and poll_report().
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/ring.h"
#include "base/units.h"
#include "fabric/routing/five_tuple.h"
#include "fabric/switch/drop_notifier.h"
#include "fabric/switch/link_state_limits.h"
#include "fabric/token_bucket.h"

namespace brdma::fabric {

// An output port, from its owner.
struct PortFacts {
  bool up = true;
  std::uint64_t rate = 0;                    // original rate of the link, bytes a second; 0: not bounded
  std::uint64_t can_do = 0;                  // present capacity; 0: not bounded
  std::uint32_t queue = 0, queue_limit = 0;  // bytes
  std::uint64_t idle_times = 0;              // packets that found the queue empty, total
  std::uint64_t taken_bytes = 0;             // into the queue, total
  std::uint64_t drops = 0;                   // packets that found no room, total
  std::uint64_t switch_speed = 0;            // packets a second, of the whole switch; 0: not bounded
};

// State of a port. Bytes, and bytes a second.
struct PortState {
  bool up = true;
  bool over_limits = false;
  std::uint64_t rate = 0;   // 0: not bounded
  std::uint64_t speed = 0;  // while packets waited; capacity where none waited recently; 0: not bounded
  std::uint64_t load = 0;   // measured
  std::uint32_t queue = 0, queue_limit = 0;
  std::uint32_t queue_mean = 0;  // over the agent's queue_time
  std::uint64_t drops = 0;
  std::uint64_t switch_speed = 0;  // packets a second that the whole switch can process; 0: not bounded
  Instant at;
};

struct FlowEnds {
  IpAddress source, destination;
  friend bool operator==(const FlowEnds&, const FlowEnds&) = default;
};

struct ActiveFeedback {
  static constexpr std::size_t kFlowsMax = 8;
  std::uint32_t port = 0;
  PortState state;
  std::uint8_t flow_count = 0;
  std::array<FlowEnds, kFlowsMax> flows{};  // that passed the port recently
};

// X(member)
#define BRDMA_LINK_STATE_COUNTERS(X)                                                \
  X(inquiries)                                                                      \
  X(answered)                                                                       \
  X(malformed)       /* inquiries of a wrong size or with a hop beyond its limit */ \
  X(at_limit)        /* as many hops have answered as were asked for */             \
  X(unknown_flow)    /* nobody sends data that way */                               \
  X(limited_source)  /* the same source was answered just now */                    \
  X(limited)         /* too many in all */                                          \
  X(reports)         /* active feedback */                                          \
  X(reports_dropped) /* nobody took them in time */                                 \
  X(changes_passed)  /* were over before they could be reported */

class LinkStateAgent {
 public:
  struct Config {
    std::uint32_t switch_id = 0;
    LinkStateLimits limits{};
    std::uint32_t answers_per_second = 10'000, answers_burst = 64;
    Duration source_interval = 1_ms;
    Duration flow_age_max = 10_s;
    Duration sample_interval = 1_ms;
    Duration queue_time{};  // queues are judged by their mean over about this time; 0: by their present length
    Duration report_interval = 10_ms;
    Duration report_repeat = 1_s;
  };
  struct Counters {
#define BRDMA_X(member) std::uint64_t member = 0;
    BRDMA_LINK_STATE_COUNTERS(BRDMA_X)
#undef BRDMA_X
  };

  LinkStateAgent(const Config& config, std::size_t ports);

  // A RoCE packet is about to leave by `port`. `payload`: of UDP. True: it is an inquiry.
  [[nodiscard]] bool routed(const FiveTuple& flow, ConstBytes payload, std::uint32_t port, Instant now);
  // Makes the answer, if any, and updates the inquiry for the next hop, with its ICRC. True: updated.
  bool answer(const FiveTuple& flow, MutableBytes payload, std::uint32_t port, const PortFacts& facts, Instant now);
  // A packet to send, of the switch's own.
  [[nodiscard]] std::optional<DropNotice> poll_feedback();

  // Nothing: no packet has passed since the last samples, and nothing is to be reported.
  [[nodiscard]] std::optional<Instant> next_timeout() const { return next_sample_; }
  void sample(std::uint32_t port, const PortFacts& facts, Instant now);  // every port, then
  void sampled(Instant now);                                             // this
  [[nodiscard]] std::optional<ActiveFeedback> poll_report();
  // A port changed (it went down, or has another rate): sample now.
  void disturb(Instant now) { next_sample_ = now; }

  [[nodiscard]] const PortState& state(std::uint32_t port) const { return ports_[port].state; }
  [[nodiscard]] const LinkStateLimits& limits() const { return config_.limits; }
  [[nodiscard]] std::size_t port_count() const { return ports_.size(); }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static constexpr std::size_t kFlowSlots = 4096, kSourceSlots = 1024, kQueueMax = 64;

  struct Port {
    PortState state;
    // Speed and load are those of the last whole window.
    std::optional<Instant> window_from;
    std::uint64_t window_left = 0;  // bytes that had left the queue at its start
    std::uint64_t window_idle = 0;  // its idle_times at its start
    bool always_waited = false;     // some packet, throughout the window
    std::optional<Instant> reported_at;
    bool reported_over = false;
    bool changed = false;  // over_limits changed since the last report
    std::uint32_t passed = 0;
    std::uint32_t next_flow = 0;
    std::array<FlowEnds, ActiveFeedback::kFlowsMax> flows{};
    std::array<Instant, ActiveFeedback::kFlowsMax> flows_seen{};
  };
  struct Slot {
    std::uint64_t key = 0;
    Instant at;
  };

  void note_flow(Port& port, const FiveTuple& flow, Instant now);
  [[nodiscard]] bool may_answer(const FiveTuple& flow, Instant now);
  void measure(Port& port, const PortFacts& facts, Instant now);
  void average(PortState& state, std::uint32_t queue, Instant now) const;
  void judge(Port& port);
  void report_if_due(std::uint32_t number, Instant now);

  Config config_;
  std::vector<Port> ports_;
  std::vector<Slot> flows_, sources_;
  Ring<DropNotice> feedback_;
  Ring<ActiveFeedback> reports_;
  std::optional<Instant> next_sample_;
  TokenBucket tokens_;  // of answers
  Counters counters_;
};

}  // namespace brdma::fabric
