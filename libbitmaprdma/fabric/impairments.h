// fabric/impairments.h - faults of packets on a link: loss, bursts of loss, reordering, duplication, corruption,
// jitter. Decisions only: nothing is queued, copied or changed here (fabric/link.h does that). Integers only. Each
// fault draws from its own stream, made from the run's seed and the link's name, once a packet whatever the other
// faults decide. So enabling one fault does not change the others, and one seed replays all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/random.h"
#include "base/units.h"

namespace brdma::fabric {

// Chances are parts per million (10'000 = 1 %), 0 = off.
struct ImpairmentConfig {
  std::uint32_t loss_ppm = 0;
  std::uint32_t burst_loss_ppm = 0;     // chance that a burst starts at a packet ...
  std::uint32_t burst_length_mean = 1;  // ... and takes this many packets with it on average (geometric, at least 1)
  std::uint32_t reorder_ppm = 0;        // chance that a packet is held back ...
  std::uint32_t reorder_depth = 3;      // ... until this number of later packets has passed it
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t corrupt_ppm = 0;  // one bit flipped
  Duration jitter{};              // extra delay, 0 .. jitter
  friend bool operator==(const ImpairmentConfig&, const ImpairmentConfig&) = default;
};

// A held packet without followers is released after this time: below the shortest tail loss probe (250 us), so that
// reordering alone never looks like silence.
inline constexpr Duration kReorderHoldMax = 200_us;

enum class Fate : std::uint8_t { kForward, kLost, kBurstLost };

struct Verdict {
  Fate fate = Fate::kForward;
  bool duplicate = false;
  std::uint32_t hold_for_packets = 0;       // 0 = not held
  std::optional<std::uint64_t> corruption;  // random bits to choose the flipped bit from
};

// Delay variation that never reorders. The extra delay follows straight lines between random heights 0 .. jitter, one
// knot every two `jitter`s: it falls by at most half a nanosecond a nanosecond, so no packet overtakes another. Packets
// closer than a knot see nearly the same delay, as behind a real queue.
class Jitter {
 public:
  Jitter(std::uint64_t seed, std::string_view link);
  [[nodiscard]] Duration extra_delay(Duration jitter, Instant now);

 private:
  Random random_;
  Duration height_;  // the jitter that the knots below were drawn for
  Instant from_, to_;
  std::int64_t from_ns_ = 0, to_ns_ = 0;
};

class Impairments {
 public:
  Impairments(const ImpairmentConfig& config, std::uint64_t seed, std::string_view link);

  // Takes effect with the next packet; the streams and a burst in progress continue.
  void configure(const ImpairmentConfig& config) { config_ = config; }
  [[nodiscard]] const ImpairmentConfig& config() const { return config_; }

  [[nodiscard]] Verdict judge();
  [[nodiscard]] Duration extra_delay(Instant now) { return jitter_.extra_delay(config_.jitter, now); }

 private:
  [[nodiscard]] bool judge_burst();

  ImpairmentConfig config_;
  Random loss_, burst_, reorder_, duplicate_, corrupt_;
  Jitter jitter_;
  bool in_burst_ = false;
};

}  // namespace brdma::fabric
