// io/shard/batch_sender.cc
#include "io/shard/batch_sender.h"

#include <poll.h>

#include <algorithm>

#include "memory/guard.h"

namespace brdma::io {

BatchSender::Sent BatchSender::send(const Transmit& transmit) {
  const SendReport report = outlet_.send(transmit);
  if (report.refused > 0) [[unlikely]]
    statistics_.add(Counter::kSendFailed, report.refused);
  if (report.unreachable) [[unlikely]]
    statistics_.add(Counter::kPeerUnreachable);
  if (report.blocked) [[unlikely]] {
    statistics_.add(Counter::kSendBlocked);
    pending_ = transmit;
    return Sent::kBlocked;
  }
  return report.fault ? missing(transmit, report.unsent) : Sent::kYes;
}

BatchSender::Sent BatchSender::send_pending() {
  const Transmit again = *std::exchange(pending_, std::nullopt);
  return send(again);
}

BatchSender::Sent BatchSender::finish_pending() {
  constexpr int kWaitMs = 10;
  pollfd writable{blocked_fd(), POLLOUT, 0};
  poll(&writable, 1, kWaitMs);
  const Sent sent = send_pending();
  if (sent != Sent::kBlocked) return sent;
  statistics_.add(Counter::kSendFailed, outlet_.give_up(*pending_));
  pending_.reset();
  return Sent::kYes;
}

// The system reports the batch's memory as missing. If we can read it, the packets that have not left count
// as lost on the network.
BatchSender::Sent BatchSender::missing(const Transmit& transmit, std::uint32_t unsent) {
  const bool there =
      std::ranges::all_of(transmit.slices, [](const Slice& slice) { return memory::can_read(slice.data, slice.size); });
  if (!there) return Sent::kMemoryMissing;
  statistics_.add(Counter::kSendFailed, unsent);
  return Sent::kYes;
}

}  // namespace brdma::io
