// qp/send/pace.h - output at a rate (congestion/rate_control.h): the rate's allowance bounds the packets that `poll`
// adds to the batch, and is charged for them with their Ethernet, IP and UDP headers. New packets and retransmissions
// alike; acknowledgements and other control packets are neither bounded nor charged.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "congestion/pacer.h"
#include "congestion/rate_control.h"
#include "qp/queues/transmit_batch.h"

namespace brdma::qp {

// All rates of a queue pair: the strictest holds.
struct Pace {
  congestion::RateControl* rate = nullptr;
  congestion::Pacer* spread = nullptr;   // its window, over a round trip (sending_rate.h)
  congestion::Pacer* managed = nullptr;  // of all queue pairs to its peer (congestion/managed_list.h)

  [[nodiscard]] bool any() const { return rate != nullptr || spread != nullptr || managed != nullptr; }
  [[nodiscard]] std::uint64_t allowance(Instant now) const {
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    if (rate != nullptr) least = rate->allowance(now);
    if (spread != nullptr) least = std::min(least, spread->allowance(now));
    if (managed != nullptr) least = std::min(least, managed->allowance(now));
    return least;
  }
  // Precondition: any().
  [[nodiscard]] Instant ready_at() const {
    std::optional<Instant> last;
    if (rate != nullptr) last = rate->ready_at();
    for (const congestion::Pacer* const pacer : {spread, managed}) {
      if (pacer != nullptr && (!last || pacer->ready_at() > *last)) last = pacer->ready_at();
    }
    return *last;
  }
  // `packets` of so many bytes, Ethernet headers included. Delivered bytes are counted without headers, and the spread
  // window's rate follows those: charging headers would lower it from round to round with short packets.
  void on_sent(std::uint64_t bytes, std::uint64_t packets, std::uint64_t headers, Instant now) const {
    if (rate != nullptr) rate->on_sent(bytes, now);
    if (spread != nullptr) spread->spend(std::max(bytes - std::min(bytes, packets * headers), packets));
    if (managed != nullptr) managed->spend(bytes);
  }
};

template <class Poll>
bool paced(const Pace& pace, TransmitBatch& batch, Instant now, const Poll& poll) {
  if (!pace.any()) [[likely]]
    return poll();
  const std::uint64_t allowed = pace.allowance(now);
  if (allowed == 0) return false;
  constexpr std::size_t kOwnHeaders = wire::kBthSize + wire::kBxthSize + wire::kRethSize + wire::kIcrcSize;
  const std::size_t before = batch.wire_bytes(), packets_before = batch.packets();
  batch.limit(allowed);
  const bool added = poll();
  batch.lift_limit();
  if (const std::size_t bytes = batch.wire_bytes() - before; bytes > 0)
    pace.on_sent(bytes, batch.packets() - packets_before, batch.frame_overhead() + kOwnHeaders, now);
  return added;
}

}  // namespace brdma::qp
