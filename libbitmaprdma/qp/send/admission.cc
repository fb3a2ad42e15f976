#include "qp/send/admission.h"

#include <algorithm>
#include <utility>

#include "qp/state/limits.h"

namespace brdma::qp {
namespace {

// How often an acknowledgement is requested within long messages: a standard peer sends none unasked, and one a batch
// costs a receiver a third of its time.
constexpr std::uint32_t kPacketsPerAckRequest = 16, kPacketsPerAckRequestBitmap = 64;
constexpr std::uint32_t kAckRequestsPerWindow = 4;  // at least: a small window must not wait for its acknowledgement
constexpr std::uint64_t kBridgeBurstMax = 48 * 1024;

}  // namespace

void Admission::reset() {
  forget_flight();
  credit_stalled_ = congestion_limited_ = false;
  bridged_ = 0;
}

void Admission::forget_flight() {
  since_request_ = 0;
  probe_at_.reset();
  credit_override_ = false;
}

Limit SendLimits::limit(std::uint32_t entries, std::uint32_t payload, bool answered) const {
  const Allowance more = allowance();
  if (entries > more.entries) return Limit::kWindow;
  if (!id.bitmap_agreed) {
    if (more.packets <= 0) return Limit::kWindow;
  } else if (!admission.credit_override()) {
    const bool first = scoreboard.flight().packets == 0;
    if (more.packets <= 0 || (!first && payload > more.credit_bytes)) return Limit::kCredit;
  }
  return answered || fits(payload, more.bytes) ? Limit::kNone : Limit::kCongestion;
}

bool Admission::note(Limit found) {
  if (found == Limit::kCongestion) congestion_limited_ = true;
  if (found != Limit::kCredit) return false;
  return !std::exchange(credit_stalled_, true);
}

// Go-back-N between two peers of ours is the baseline of plain RoCE: as many bytes at every path MTU as with the
// largest packets, which fills the path as a NIC would (the congestion window prevents a queue).
std::uint32_t SendLimits::unstated_window() const {
  const std::uint32_t packets = id.recovery->standard_window_packets;
  if (!id.goes_back()) return packets;
  return std::max(packets, std::min(packets * (mtu_bytes(PathMtu::k4096) / id.mtu()), env.credit_share().packets));
}

std::uint32_t SendLimits::request_interval_by_reference() { return kFetchesInFlight / kAckRequestsPerWindow; }

std::uint32_t SendLimits::request_interval() const {
  const std::uint64_t window = congestion.bounded() ? congestion.bytes() : kAckRequestsPerWindow * kBytesPerSample;
  const auto share = [this](std::uint64_t bytes, std::uint32_t packets, std::uint32_t most) {
    const std::uint64_t wanted = std::min<std::uint64_t>(bytes / id.mtu(), packets) / kAckRequestsPerWindow;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted, 1, most));
  };
  if (id.bitmap_agreed) {
    return share(std::min<std::uint64_t>(window, id.peer_credit.bytes), id.peer_credit.packets,
                 kPacketsPerAckRequestBitmap);
  }
  return id.goes_back() ? share(window, unstated_window(), kPacketsPerAckRequest) : kPacketsPerAckRequest;
}

// While the window is full and nothing arrives, new packets leave for a while at the path's rate. Late acknowledgements
// of them are no loss yet.
std::optional<Instant> Admission::bridge_at(const congestion::DelayWindow& congestion) const {
  if (!congestion_limited_) return std::nullopt;
  const auto next = congestion.next_bridge(bridged_);
  return next ? std::optional{std::max(*next, bridge_from_)} : std::nullopt;
}

// One burst, and the next when the path has had the time for it: this process may have been stopped itself.
void Admission::extend_bridge(const congestion::DelayWindow& congestion, Instant now) {
  const std::uint64_t before = bridged_;
  bridged_ = std::max(before, std::min(congestion.bridge_bytes(now), before + kBridgeBurstMax));
  bridge_from_ = now + congestion.time_for(bridged_ - before);
}

}  // namespace brdma::qp
