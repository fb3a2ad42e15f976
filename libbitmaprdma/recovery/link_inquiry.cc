#include "recovery/link_inquiry.h"

namespace brdma::recovery {

bool is_congested(const LinkFacts& link, const WanConfig& config) {
  if (link.over_limits) return true;
  const bool full = link.queue_limit != 0 &&
                    std::uint64_t{link.queue} * 100 >= std::uint64_t{link.queue_limit} * config.link_queue_percent;
  const bool slow =
      link.link_rate != 0 && static_cast<unsigned __int128>(link.speed) * 100 <=
                                 static_cast<unsigned __int128>(link.link_rate) * config.link_speed_percent;
  return full || slow;
}

bool LinkInquiry::is_due(const WanConfig& config, Instant now) const {
  if (config.inquiry_timeouts == 0 || timeouts_ <= config.inquiry_timeouts || until_) return false;
  return !asked_at_ || now - *asked_at_ >= config.inquiry_interval;
}

bool LinkInquiry::is_held_back(const WanConfig& config, Instant now) const {
  return config.inquiry_timeouts != 0 && timeouts_ > config.inquiry_timeouts && !is_due(config, now);
}

void LinkInquiry::asked(std::uint64_t nonce, Instant until, Instant now) {
  close();
  nonce_ = nonce;
  until_ = until;
  asked_at_ = now;
  timeouts_ = 0;
}

LinkInquiry::Verdict LinkInquiry::on_reply(std::uint64_t nonce, const LinkFacts& link, const WanConfig& config) {
  if (!until_ || nonce != nonce_) return Verdict::kUnasked;
  if (link.hop >= config.hop_limit || link.hop >= kHopsMax || ((hops_ >> link.hop) & 1) != 0) return Verdict::kRepeated;
  hops_ |= std::uint64_t{1} << link.hop;
  links_.push_back(link);
  if (is_congested(link, config)) ++congested_;
  return Verdict::kTaken;
}

void LinkInquiry::close() {
  until_.reset();
  links_.clear();
  hops_ = 0;
  congested_ = 0;
}

}  // namespace brdma::recovery
