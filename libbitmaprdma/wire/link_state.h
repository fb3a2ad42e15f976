// wire/link_state.h - how the links of a path are (spec 3: link-state feedback), as control packets; docs/wire.md:
//   inquiry            opcode 0xE4, from a sender along the way of its data
//   passive feedback   opcode 0xE5, from each hop on that way that understands it, back to the sender
// A feedback is as long as the inquiry that it answers: nobody can have more sent to a victim than he sends himself.
// Bytes only. What a feedback says is not to be believed before its nonce was compared with what was asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/units.h"

namespace brdma::wire {

struct LinkStateInquiry {
  std::uint32_t source_qpn = 0;  // who asks: feedback is addressed to it
  std::uint8_t hop = 0;          // hops that have answered so far: the next one answers under this index
  std::uint8_t hop_limit = 0;    // and does so only while the index is below this
  std::uint64_t nonce = 0;
};
// Body 64 bytes, most of them zero; nullopt: too short, or a hop index beyond the limit (kBadControl).
inline constexpr std::size_t kLinkStateInquirySize = 64;
[[nodiscard]] std::optional<LinkStateInquiry> parse_link_state_inquiry(ConstBytes body);
std::size_t emit_link_state_inquiry(const LinkStateInquiry& inquiry, std::byte* out);
// The inquiry as it goes on: the next hop has the next index. The ICRC is the caller's to make anew.
void forward_link_state_inquiry(std::byte* body);

// Of the output port that the inquiry goes on by. Bytes, and bytes a second.
struct LinkStateFeedback {
  bool over_limits = false;           // by the hop's own limits, with hysteresis
  std::uint32_t destination_qpn = 0;  // that the inquiry was for
  std::uint8_t hop = 0;               // echoes the inquiry, as does the nonce
  std::uint64_t nonce = 0;
  std::uint32_t switch_id = 0, port = 0;
  std::uint64_t speed = 0;        // that the port forwards at while packets wait; link_rate where none waited of late
  std::uint64_t link_rate = 0;    // 0: not bounded; else no less than `speed`
  std::uint32_t queue = 0;        // that wait
  std::uint32_t queue_limit = 0;  // that may wait; 0: not bounded; else no less than `queue`
  std::uint64_t drops = 0;        // packets that found no room there, since the switch began
  std::uint64_t timestamp = 0;    // when this was made, the hop's clock in ns
  friend bool operator==(const LinkStateFeedback&, const LinkStateFeedback&) = default;
};
// nullopt: too short, or contents that cannot be (kBadControl): a speed above the link's rate, a rate that no link has,
// a queue above its limit.
inline constexpr std::size_t kLinkStateFeedbackSize = 64;
static_assert(kLinkStateFeedbackSize <= kLinkStateInquirySize);
inline constexpr std::uint64_t kLinkRateMax = std::uint64_t{1} << 44;  // 140 Tbit/s
[[nodiscard]] std::optional<LinkStateFeedback> parse_link_state_feedback(ConstBytes body);
// Speed and queue are cut to rate and limit.
std::size_t emit_link_state_feedback(const LinkStateFeedback& feedback, std::byte* out);

}  // namespace brdma::wire
