#include "run/standalone.h"

#include <algorithm>
#include <cmath>

#include "fabric/switch/departure_time.h"
#include "sim/packet_owner.h"
#include "wire/control.h"
#include "wire/headers.h"

namespace brdma::simulator {
namespace {

constexpr auto kBth = static_cast<std::uint32_t>(wire::kBthSize + wire::kIcrcSize) + sim::kFrameOverhead;
constexpr auto kReth = static_cast<std::uint32_t>(wire::kRethSize);

// When the packet that is at the path's start at `now` has left each link; `sent` has each transmitter's state.
Instant carry(const std::vector<Hop>& path, std::uint32_t bytes, Instant now,
              std::vector<fabric::DepartureTime>& sent) {
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i].rate.bps() != 0) {
      sent[i].extend(bytes, path[i].rate, now);
      now = sent[i].at();
    }
    now = now + path[i].delay;
  }
  return now;
}

}  // namespace

PacketSizes packet_sizes(RecoveryMode mode) {
  if (!negotiates(mode)) {
    return {kBth + kReth, kBth, kBth + static_cast<std::uint32_t>(wire::kAethSize), 4};
  }
  const auto bxth = static_cast<std::uint32_t>(wire::kBxthSize);
  return {kBth + bxth + kReth, kBth + bxth + kReth, kBth + static_cast<std::uint32_t>(wire::kBitmapAckSize), 4};
}

double wire_share(double bytes, std::uint32_t mtu) {
  const double packets = std::max(1.0, std::ceil(bytes / mtu));
  return (bytes + packets * kBth + kReth) / bytes;
}

Duration standalone_time(std::uint64_t bytes, std::uint32_t mtu, const PacketSizes& sizes, const std::vector<Hop>& path,
                         const std::vector<Hop>& back) {
  std::vector<fabric::DepartureTime> sent(path.size()), answered(back.size());
  Instant arrived;
  bool first = true;
  for (std::uint64_t left = bytes; left > 0; first = false) {
    const auto payload = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, mtu));
    left -= payload;
    const std::uint32_t padded = (payload + sizes.align - 1) / sizes.align * sizes.align;
    arrived = carry(path, padded + (first ? sizes.first : sizes.other), Instant{}, sent);
  }
  return carry(back, sizes.answer, arrived, answered) - Instant{};
}

}  // namespace brdma::simulator
