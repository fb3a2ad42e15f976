#include "wire/link_state.h"

#include <algorithm>
#include <cstring>

#include "wire/headers.h"

namespace brdma::wire {
namespace {

constexpr std::uint32_t kMask24 = 0xFF'FFFF;
constexpr std::uint32_t kVersionBits = std::uint32_t{kControlVersion} << 28;
constexpr std::uint32_t kFlagOverLimits = 1u << 24;
constexpr std::size_t kHopAt = 4, kSwitchSpeedAt = 5;

std::uint64_t at_most(std::uint64_t value, std::uint64_t limit) { return limit == 0 ? value : std::min(value, limit); }

std::uint32_t thousands(std::uint64_t speed) {
  if (speed == 0) return 0;
  return static_cast<std::uint32_t>(std::clamp(speed, kSwitchSpeedUnit, kSwitchSpeedMax) / kSwitchSpeedUnit);
}

}  // namespace

std::optional<LinkStateInquiry> parse_link_state_inquiry(ConstBytes body) {
  if (body.size() < kLinkStateInquirySize) return std::nullopt;
  const std::byte* p = body.data();
  LinkStateInquiry inquiry;
  inquiry.source_qpn = load_be32(p) & kMask24;
  inquiry.hop = load_u8(p + kHopAt);
  inquiry.hop_limit = load_u8(p + 5);
  inquiry.nonce = load_be64(p + 8);
  if (inquiry.hop > inquiry.hop_limit) return std::nullopt;
  return inquiry;
}

std::size_t emit_link_state_inquiry(const LinkStateInquiry& inquiry, std::byte* out) {
  std::memset(out, 0, kLinkStateInquirySize);
  store_be32(out, kVersionBits | (inquiry.source_qpn & kMask24));
  store_u8(out + kHopAt, inquiry.hop);
  store_u8(out + 5, inquiry.hop_limit);
  store_be64(out + 8, inquiry.nonce);
  return kLinkStateInquirySize;
}

void forward_link_state_inquiry(std::byte* body) {
  store_u8(body + kHopAt, static_cast<std::uint8_t>(load_u8(body + kHopAt) + 1));
}

std::optional<LinkStateFeedback> parse_link_state_feedback(ConstBytes body) {
  if (body.size() < kLinkStateFeedbackSize) return std::nullopt;
  const std::byte* p = body.data();
  const std::uint32_t word = load_be32(p);
  LinkStateFeedback feedback;
  feedback.over_limits = (word & kFlagOverLimits) != 0;
  feedback.destination_qpn = word & kMask24;
  feedback.hop = load_u8(p + kHopAt);
  feedback.switch_speed = load_be24(p + kSwitchSpeedAt) * kSwitchSpeedUnit;
  feedback.nonce = load_be64(p + 8);
  feedback.switch_id = load_be32(p + 16);
  feedback.port = load_be32(p + 20);
  feedback.speed = load_be64(p + 24);
  feedback.link_rate = load_be64(p + 32);
  feedback.queue = load_be32(p + 40);
  feedback.queue_limit = load_be32(p + 44);
  feedback.drops = load_be64(p + 48);
  feedback.timestamp = load_be64(p + 56);
  if (feedback.link_rate > kLinkRateMax || feedback.speed > kLinkRateMax) return std::nullopt;
  if (feedback.speed != at_most(feedback.speed, feedback.link_rate)) return std::nullopt;
  if (feedback.queue != at_most(feedback.queue, feedback.queue_limit)) return std::nullopt;
  return feedback;
}

std::size_t emit_link_state_feedback(const LinkStateFeedback& feedback, std::byte* out) {
  std::memset(out, 0, kLinkStateFeedbackSize);
  store_be32(out, kVersionBits | (feedback.over_limits ? kFlagOverLimits : 0) | (feedback.destination_qpn & kMask24));
  const std::uint64_t rate = std::min(feedback.link_rate, kLinkRateMax);
  store_u8(out + kHopAt, feedback.hop);
  store_be24(out + kSwitchSpeedAt, thousands(feedback.switch_speed));
  store_be64(out + 8, feedback.nonce);
  store_be32(out + 16, feedback.switch_id);
  store_be32(out + 20, feedback.port);
  store_be64(out + 24, at_most(std::min(feedback.speed, kLinkRateMax), rate));
  store_be64(out + 32, rate);
  store_be32(out + 40, static_cast<std::uint32_t>(at_most(feedback.queue, feedback.queue_limit)));
  store_be32(out + 44, feedback.queue_limit);
  store_be64(out + 48, feedback.drops);
  store_be64(out + 56, feedback.timestamp);
  return kLinkStateFeedbackSize;
}

}  // namespace brdma::wire
