// recovery/link_inquiry.h - when a sender queries the links of its path, and how it evaluates the replies (design WT-6:
// link-state feedback, flow control). Pure: sends nothing, `now` is an argument.
//
// An attacker who can forge a packet of the peer can forge a reply, except for the nonce. A reply without an open
// inquiry, for a repeated hop or for one beyond the limit changes nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/config.h"
#include "base/ip_address.h"
#include "base/units.h"

namespace brdma::recovery {

// A hop's report of its output port (wire/link_state.h).
struct LinkFacts {
  std::uint8_t hop = 0;
  bool over_limits = false;  // by its own limits
  std::uint32_t switch_id = 0, port = 0;
  std::uint64_t speed = 0, link_rate = 0;    // bytes a second; a rate of 0: not bounded
  std::uint32_t queue = 0, queue_limit = 0;  // bytes; a limit of 0: not bounded
  std::uint64_t drops = 0, timestamp = 0;
  std::uint64_t switch_speed = 0;  // packets a second that the hop can process; 0: not bounded or not stated
};
[[nodiscard]] bool is_congested(const LinkFacts& link, const WanConfig& config);

// State of the links towards a peer, for the controller.
struct LinkReport {
  static constexpr std::size_t kWaitingMax = 64;  // unread reports
  IpAddress local, peer;
  std::uint32_t qpn = 0, congested = 0;
  std::vector<LinkFacts> links;
};

class LinkInquiry {
 public:
  static constexpr std::uint32_t kHopsMax = 64;

  void timed_out(std::uint32_t packets = 1) { timeouts_ += std::min(packets, ~timeouts_); }
  // More than x packets have timed out since the last inquiry, and that one is over.
  [[nodiscard]] bool is_due(const WanConfig& config, Instant now) const;
  // The same, but it is too early for another.
  [[nodiscard]] bool is_held_back(const WanConfig& config, Instant now) const;
  // Neither due nor open, and will not be before the next timed_out(), however much time passes.
  [[nodiscard]] bool is_idle(const WanConfig& config) const {
    return !until_ && (config.inquiry_timeouts == 0 || timeouts_ <= config.inquiry_timeouts);
  }
  // The inquiry has left; replies are accepted until `until`.
  void asked(std::uint64_t nonce, Instant until, Instant now);

  enum class Verdict : std::uint8_t { kTaken, kUnasked, kRepeated };
  Verdict on_reply(std::uint64_t nonce, const LinkFacts& link, const WanConfig& config);
  [[nodiscard]] std::span<const LinkFacts> links() const { return links_; }
  [[nodiscard]] std::uint32_t congested() const { return congested_; }
  // End of the time for replies; nothing: none is open.
  [[nodiscard]] std::optional<Instant> open_until() const { return until_; }
  void close();
  [[nodiscard]] std::size_t allocated_bytes() const { return links_.capacity() * sizeof(LinkFacts); }

 private:
  std::uint32_t timeouts_ = 0, congested_ = 0;
  std::uint64_t nonce_ = 0, hops_ = 0;  // bit i: hop i has replied
  std::optional<Instant> until_, asked_at_;
  std::vector<LinkFacts> links_;
};

}  // namespace brdma::recovery
