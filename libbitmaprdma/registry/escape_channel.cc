#include "registry/escape_channel.h"

#include "base/check.h"

namespace brdma::registry {

void EscapeChannel::admit(const EscapedPacket& packet) {
  BRDMA_CHECK(has_room(packet.bytes));
  bytes_ += packet.bytes;
  packets_.push_back(packet);
}

bool EscapeChannel::forget(Psn psn) {
  const auto at = std::find_if(packets_.begin(), packets_.end(), [psn](const auto& p) { return p.psn == psn; });
  if (at == packets_.end()) return false;
  bytes_ -= at->bytes;
  packets_.erase(at);
  return true;
}

std::optional<Instant> EscapeChannel::next_deadline(Duration time_max) const {
  return packets_.empty() ? std::nullopt : std::optional{packets_.front().since + time_max};
}

void EscapeChannel::clear() {
  packets_.clear();
  bytes_ = 0;
}

}  // namespace brdma::registry
