#include "qp/read/response_admission.h"

#include <utility>

#include "qp/state/limits.h"

namespace brdma::qp {
namespace {

// Each request is one more packet whose loss stops all later ones, for a responder answers in order.
constexpr std::uint32_t kReadsInParallel = 3;

}  // namespace

void ResponseAdmission::reset() {
  forget_flight();
  congestion_ = {};
  copies_ = 0;
}

void ResponseAdmission::forget_flight() {
  messages_ = 0;
  limited_ = false;
  packets_ = 0;
  bytes_ = arrived_ = 0;
}

// Plain RoCE knows neither limit, but the share of the socket prevents an overflow of the socket.
PeerCredit ResponseAdmission::limit(const Identity& id, PeerCredit share) const {
  if (!id.goes_back())
    share.bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(share.bytes, congestion_.bytes()));
  return share;
}

bool ResponseAdmission::admits_read(std::uint32_t bytes, const Identity& id, PeerCredit share) {
  if (messages_ == 0) return true;
  const PeerCredit most = limit(id, share);
  const std::uint32_t packets = std::max((bytes + id.mtu() - 1) / id.mtu(), 1u);
  const std::uint64_t wanted = std::uint64_t{bytes_} + bytes;
  if (wanted > most.bytes) limited_ = true;
  return wanted <= most.bytes && packets_ + packets <= most.packets;
}

std::uint32_t ResponseAdmission::request_packets(const Identity& id, PeerCredit share) const {
  const PeerCredit most = limit(id, share);
  const std::uint32_t mtu = id.mtu();
  const std::uint32_t parallel = std::clamp<std::uint32_t>(id.attributes.max_rd_atomic, 1, kReadsInParallel);
  std::uint32_t window = id.recovery->window_packets;
  if (id.bitmap_agreed) window = std::min(window, id.peer_window);
  return std::max(
      std::min({window / 8, most.packets / parallel, most.bytes / parallel / mtu, kReadChunkBytesMax / mtu}), 1u);
}

std::uint64_t ResponseAdmission::on_round_trip(const congestion::RoundTrip& trip, Instant now) {
  congestion_.on_acknowledgement(arrived_, trip, std::exchange(limited_, false), now);
  return std::exchange(arrived_, 0);
}

}  // namespace brdma::qp
