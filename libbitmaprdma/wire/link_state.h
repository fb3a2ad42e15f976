// wire/link_state.h - state of a path's links (design WT-6, WT-7), as control packets; docs/reference/wire.md:
//   inquiry            opcode 0xE4, from a sender along the path of its data
//   passive feedback   opcode 0xE5, from each hop on that path that supports it, back to the sender
// A feedback is as long as its inquiry, so it cannot amplify traffic to a victim.
// Bytes only. Do not trust a feedback before comparing its nonce with the inquiry's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/units.h"

namespace brdma::wire {

struct LinkStateInquiry {
  std::uint32_t source_qpn = 0;  // the inquirer: feedback is addressed to it
  std::uint8_t hop = 0;          // hops that have answered so far: the next one answers with this index
  std::uint8_t hop_limit = 0;    // a hop answers only while the index is below this
  std::uint64_t nonce = 0;
};
// Body 64 bytes, most of them zero; nullopt: too short, or a hop index beyond the limit (kBadControl).
inline constexpr std::size_t kLinkStateInquirySize = 64;
[[nodiscard]] std::optional<LinkStateInquiry> parse_link_state_inquiry(ConstBytes body);
std::size_t emit_link_state_inquiry(const LinkStateInquiry& inquiry, std::byte* out);
// Advances the inquiry: the next hop has the next index. The caller recomputes the ICRC.
void forward_link_state_inquiry(std::byte* body);

// State of the output port that forwards the inquiry. Bytes, and bytes a second.
struct LinkStateFeedback {
  bool over_limits = false;           // by the hop's own limits, with hysteresis
  std::uint32_t destination_qpn = 0;  // of the inquiry
  std::uint8_t hop = 0;               // echoes the inquiry, as does the nonce
  std::uint64_t nonce = 0;
  std::uint32_t switch_id = 0, port = 0;
  std::uint64_t speed = 0;      // rate at which the port forwards waiting packets; link_rate where none waited recently
  std::uint64_t link_rate = 0;  // 0: not bounded; else no less than `speed`
  std::uint32_t queue = 0;      // waiting
  std::uint32_t queue_limit = 0;  // maximum that may wait; 0: not bounded; else no less than `queue`
  std::uint64_t drops = 0;        // packets dropped there because the queue was full, since the switch began
  // Packets a second that the whole switch can process (design WT-8), in whole thousands; 0: not bounded or not stated.
  std::uint64_t switch_speed = 0;
  std::uint64_t timestamp = 0;  // time of making this, the hop's clock in ns
  friend bool operator==(const LinkStateFeedback&, const LinkStateFeedback&) = default;
};
// nullopt: too short, or impossible contents (kBadControl): a speed above the link's rate, a rate that no link has, a
// queue above its limit.
inline constexpr std::size_t kLinkStateFeedbackSize = 64;
static_assert(kLinkStateFeedbackSize <= kLinkStateInquirySize);
inline constexpr std::uint64_t kSwitchSpeedUnit = 1'000, kSwitchSpeedMax = 0xFF'FFFF * kSwitchSpeedUnit;
inline constexpr std::uint64_t kLinkRateMax = std::uint64_t{1} << 44;  // 140 Tbit/s
[[nodiscard]] std::optional<LinkStateFeedback> parse_link_state_feedback(ConstBytes body);
// Speed and queue are cut to rate and limit, the switch's speed to whole thousands: 1,000 at least, if it has one.
std::size_t emit_link_state_feedback(const LinkStateFeedback& feedback, std::byte* out);

}  // namespace brdma::wire
