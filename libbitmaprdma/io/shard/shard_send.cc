// Sending: posts, and the engine's output as SendScheduler plans it.
#include <algorithm>

#include "io/shard/clock.h"
#include "io/shard/shard.h"

namespace brdma::io {

// A post into a full send queue does not count as a call: a program that retries until there is room does not receive,
// and the thread must notice.
Status Shard::post_send(QueuePair* qp, std::span<const SendRequest> requests, std::size_t& posted) {
  const Instant now = monotonic_now();
  const Status status = engine_.post_send(qp, requests, now, posted);
  if (posted > 0) {
    const Engine::Load load = engine_.load(qp);
    progress_owner_.called();
    scheduler_.on_post(now);
    policy_.on_post(qp, load, requests[posted - 1].opcode == WorkOpcode::kRdmaWrite);
    if (gathers(qp, requests.first(posted), load, now)) return status;  // nothing has left, come or fallen due
    send(Occasion::kPost, now, &load);
    end_call();
  }
  return status;
}

Status Shard::post_send_all(QueuePair* qp, std::span<const SendRequest> requests) {
  if (requests.size() > 1) {
    if (const Status status = engine_.check_send(qp, requests); !status.ok()) return status;
  }
  std::size_t posted = 0;
  return post_send(qp, requests, posted);
}

// True: these posts wait for more. Those that are whole packets can fill batches exactly.
bool Shard::gathers(const QueuePair* qp, std::span<const SendRequest> requests, const Engine::Load& load, Instant now) {
  if (!scheduler_.may_gather(progress_owner_.driver(), load.sends, sender_.pending())) return false;
  PostGather::Posts posts{.from = qp, .count = static_cast<unsigned>(requests.size())};
  bool even = true;
  for (const SendRequest& request : requests) {
    std::uint64_t bytes = 0;
    for (const Sge& sge : request.sges) bytes += sge.length;
    even = even && bytes >= load.mtu && bytes % load.mtu == 0;
    posts.bytes += bytes;
  }
  if (even) posts.packets = posts.bytes / load.mtu;
  return scheduler_.gathers(posts, load, now);
}

Engine::Load Shard::load_of_rest() const {
  const QueuePair* const qp = scheduler_.rest_of();
  return qp != nullptr ? engine_.load(qp) : Engine::Load{};
}

// Sends what the scheduler lets leave now, behind the pending batch. `posting`: the queue pair's, for kPost. True:
// something left.
bool Shard::send(Occasion occasion, Instant now, const Engine::Load* posting) {
  const bool sent = sender_.pending();
  if (sent && !taken(sender_.send_pending())) return false;
  const Engine::Load load = posting != nullptr ? *posting : load_of_rest();
  Engine::Interest interest;
  if (scheduler_.needs_interest(occasion, load)) interest = engine_.transmit_interest();
  const std::uint64_t packets = scheduler_.plan(occasion, interest, load, progress_owner_.driver(), now);
  return (packets > 0 && send_batches(packets, now)) || sent;
}

// Sends batches until `packets` have left, or all. True: something left.
bool Shard::send_batches(std::uint64_t packets, Instant now) {
  Transmit transmit;
  for (unsigned i = 0; i < kTransmitBurstMax; ++i) {
    if (!engine_.poll_transmit(sender_.buffer(), transmit, now)) {
      scheduler_.on_all_sent();
      return i > 0;
    }
    const BatchSender::Sent sent = sender_.send(transmit);
    if (!taken(sent)) return i > 0;
    if (!transmit.more && sent == BatchSender::Sent::kYes) {  // packets taken back may leave again
      scheduler_.on_all_sent();
      return true;
    }
    if (transmit.segments >= packets) return true;
    packets -= transmit.segments;
    now = monotonic_now();  // a batch takes microseconds, and carries timestamps
  }
  scheduler_.on_cut_short();
  progress_owner_.request_charge();  // there is more, and the application may not call again
  return true;
}

// False: the system cannot take it now; it is pending.
bool Shard::taken(BatchSender::Sent sent) {
  if (sent == BatchSender::Sent::kYes) [[likely]]
    return true;
  if (sent == BatchSender::Sent::kBlocked) {
    scheduler_.on_blocked();
    return false;
  }
  engine_.withdraw(monotonic_now());
  scheduler_.on_event();
  return true;
}

}  // namespace brdma::io
