// congestion/delay_window.h - how many bytes may be in flight, from measured round-trip times and delivered bytes.
// Queueing delay and tail drops shrink it. Random loss does not: losses are retransmitted one by one, and on a lossy
// path they are no sign of congestion. Once a round trip, if the window was fully used:
//
//   next = delivered rate * (base RTT + target queueing) + additive part      between 3/4 and 2 times the window
//   next = 2 (at the start) or 5/4 times the window, if that is more, while queueing is below half the target
//
// A window that adds only queue does not change the delivered rate. So `next` stops there by itself, even where the
// queue is too short for the target and drops. The additive part (additive.h) makes flows that share a bottleneck
// settle at equal rates (as in FAST TCP). A loss while the queue stood above 3/4 of the target leaves it out for a
// while, and on paths up to four times the target such a round takes a sixteenth of the window. Time in the hosts is no
// queue (RoundTrip; as Swift keeps the two apart): it is subtracted to find queueing, and a round's least is added to
// the time that the window has to cover. Credit bounds the data waiting at the receiver. Host noise that looks like the
// path: a round counts with its smallest RTT, and one bad round takes a quarter, which the next good ones give back.
// Acknowledgements release growth; it is not one burst. At the start only those do that saw less than half the target
// of queueing, for a round sees its own queue too late. (On paths longer than four times the target a window that
// leaves in bursts makes more than that by itself: there, a quarter of the path.) A spread window has found the path by
// the round that ends with such a queue.
//
// A round that did not use the whole window is no evidence for a larger one. A queue that stood throughout it shows
// that the path holds less. Otherwise an application that posts less than the window, and more than path and queue
// hold, would have its next burst dropped, again and again. (Only on paths longer than four times the target: on
// shorter ones the peer's own work, a message long, looks the same, and ping-pong messages would be cut into pieces.)
// On any path a round that delivered 3/4 of what was allowed may shrink the window and drain: the peer's credit may be
// the limit, and the flow has to answer to the queue all the same.
//
// Many flows behind a short queue: crowding.h. The window of a flow that meets a full queue may become as small as a
// part of a packet; it leaves packet by packet.
//
// Target queueing: the RTT increase that scheduling alone causes on a busy host; 122 KiB of queue at 10 Gbit/s, 12 at
// 1. On a path of more than 1.6 ms a sixteenth of it: there, such a host adds more, and no window would grow.
//
// Hosts that lose their core. A *silence* is a time longer than 5/4 round trips without an acknowledgement although the
// window is full: a process at either end is not scheduled (a tick lasts 4 ms), no packet is lost and no switch is
// full. So it counts at the end of a round that delivered all but an eighth of its flight, and not in a crowded flow
// (crowding.h): a loss is silent, too. Two measures, neither of which needs to know whose process it is:
//   - The target grows to the longest recent silence (halving every 134 ms): a stopped sender leaves a queue behind
//     that keeps the link busy. Bounded by silence_bytes_max, a quarter of the 256 KiB that a switch's port can be
//     expected to have, and by silence_max. Rounds that lose an eighth, and more than chance_bytes, halve it: a window
//     of a few packets loses an eighth by one random loss.
//   - From half a round trip of silence on, new packets leave at the delivered rate (bridge_bytes()), for bridge_max
//     and bridge_bytes_max at the most, in such a flow only some rounds after a loss. If the receiver is stopped they
//     wait in its socket, within its credit; being paced they fill no queue that was not full before.
// A round with a silence in it says little about the rate: it can raise it only. So can one in which a READ request was
// lost (READ responses come in order, so all wait for it).
//
// Queues shorter than the target. A switch that reports drops also reports the drain time of its full queue. From then
// on a room_part-th of that is the target, if it is less, and the additive part is bytes_reported: several flows shall
// share that queue, not fill it. The reported time doubles each room_doubles, then is forgotten: the path may be
// another by now, and on hosts that are busy for longer than the queue a window that small carries little.
//
// Without such reports queue_loss.h distinguishes tail drops from random loss. The cut is the lost bytes, at least a
// full_part-th; but the window stays within a carried_part-th of the BDP. It stays there for full_rounds and full_time.
// Then its limit grows by steps that double up to full_step, or to a full_steps-th of it; after full_steps_max of them
// without a loss the queue is forgotten. The same after a report, but without full_time: a drop that is reported costs
// little, and in an incast the other flows have soon gone. In a queue shorter than the target the delay shows
// nothing, so flows become equal as under AIMD: steps are the same for all, losses a part of each. If as large a part
// is lost under the reduced window, it is cut once more; unless it meets half the queue, or delivers less for being
// smaller: then the loss is random, and the cut is undone.
//
// Base RTT: base_round_trip.h decides when a drain is due, how long it may last, and what it has shown. A drain goes
// down to half of the path's content; in a crowded flow to a quarter of the window if that is less, since its base may
// be other flows' queue. It lasts a round, or until drain_end() as long as the rounds meet more than an eighth of the
// target or find a shorter base: flows of one clock drain together, but do not all begin at once. A window that leaves
// in bursts waits until no more is in flight. A spread window sends half of the acknowledged bytes for a round, and
// then its full allowance, which its rate keeps from being a burst: half a round's worth is lost. Until that is
// acknowledged, refills_max rounds at most, rounds say nothing of the path. If the path has become longer, the window
// restarts with the rate delivered before, over the new base.
//
// Growth of a spread window: up to the bytes that leave at its rate while no queue is seen (spread_more and
// spread_late, of qp/send/sending_rate.h), and the target besides.
//
// Integers only; pure: no clock, `now` is an argument.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/units.h"

namespace brdma::congestion {

struct DelayWindowConfig {
  std::uint64_t initial_bytes = 64 * 1024;
  std::uint64_t min_bytes = 16 * 1024;               // less after a report, or in a crowded flow
  std::uint64_t max_bytes = std::uint64_t{1} << 32;  // 100 Gbit/s over 300 ms
  Duration target_queueing = 100_us;
  std::int64_t base_per_target = 16;
  std::int64_t spread_more = 16;  // one part in so many of the delivered rate; see qp/send/sending_rate.h
  Duration spread_late = 1_ms;
  std::int64_t bursts_from = 4, base_per_burst = 4;  // targets; on paths longer than that
  std::uint64_t silence_bytes_max = 64 * 1024;
  Duration silence_max = 2_ms;
  std::uint64_t chance_bytes = 8 * 1024;  // two packets of the largest path MTU
  Duration bridge_max = 4_ms;             // a scheduler's tick at 250 Hz
  std::uint64_t bridge_bytes_max = 512 * 1024;
  Duration bridge_step = 50_us;  // per step, within
  std::uint64_t bridge_step_min = 4 * 1024, bridge_step_max = 16 * 1024;
  Duration absent_time = Duration::from_ns(1 << 27);  // a host that was absent may be so again; or base RTTs:
  std::int64_t absent_rounds = 8;
  std::int64_t room_part = 4;
  Duration room_doubles = 8_ms;
  Duration learned_doubles = 32_ms;  // and base RTTs:
  std::int64_t learned_rounds = 16;
  std::int64_t least_target = 4;  // part of the target that remains
  Duration full_least = 4_us;     // that a full queue takes to drain
  std::uint64_t full_part = 16, full_steps = 32, full_step = 4 * 1024;
  int full_steps_max = 64;
  std::uint64_t carried_part = 8;
  int full_rounds = 4;
  Duration full_time = 32_ms;
  int refills_max = 4;
};

// RTT of a packet and its acknowledgement: the whole, and the part spent in the hosts of receiver and sender. The host
// part depends on when those got a core, not on the path. 0: not known.
struct RoundTrip {
  RoundTrip(Duration of_all, Duration in_hosts = {}) : whole(of_all), waited(in_hosts) {}
  Duration whole, waited;
  [[nodiscard]] Duration on_the_way() const { return std::max(whole - waited, kTick); }
};

class DelayWindow {
 public:
  DelayWindow();
  ~DelayWindow();
  DelayWindow(DelayWindow&&) noexcept;
  DelayWindow& operator=(DelayWindow&&) noexcept;
  [[nodiscard]] std::uint64_t bytes() const { return limit_; }
  // Another control takes over (or gives control back): this one goes on measuring, and allows everything.
  void set_bounded(bool bounded);
  [[nodiscard]] bool bounded() const { return limit_ != kUnbounded; }
  // The window leaves over a round trip, not in bursts. Nothing is kept of it before the first acknowledgement.
  void set_spread(bool spread);
  // An acknowledgement: `acked_bytes` newly acknowledged, `trip` of the packet it echoes, `limited`: the window was
  // fully used.
  void on_acknowledgement(std::uint64_t acked_bytes, const RoundTrip& trip, bool limited, Instant now);
  // Packets from now on take other paths, which are longer by so much (shorter: negative), queueing apart.
  void shift_base(Duration by);
  // The retransmission timeout fired: everything in flight is in doubt. Halves.
  void on_timeout();
  // A switch had no room for `bytes` of the data in flight: the rest is what the path takes. Down to one packet, but by
  // half in a round at most: packets sent before the report meet the same queue. No growth in that round. `drain`: time
  // its full queue takes to empty.
  struct Drops {
    std::uint64_t bytes = 0;
    Duration drain;
    std::uint32_t packet_bytes = 0;
  };
  void on_drops(const Drops& drops, Instant now);
  // So many bytes, in packets of `packet_bytes`, are judged lost for a cause that no switch reported (queue_loss.h
  // judges).
  void on_loss(std::uint64_t bytes, std::uint32_t packet_bytes, Instant now);
  // The window could not be filled because a READ request was lost. This round says little about the rate.
  void on_interruption();

  // It leaves packet by packet, at bytes() / latest_rtt() (crowding.h).
  [[nodiscard]] bool is_paced() const { return paced_ != 0; }
  [[nodiscard]] bool starting() const;            // it still doubles
  [[nodiscard]] std::uint64_t delivered() const;  // the best of the last rounds, bytes a second; 0: nothing is known
  [[nodiscard]] Duration base_rtt() const;        // 0: no sample yet
  [[nodiscard]] Duration latest_rtt() const;      // likewise; hosts included
  // Rate acknowledged recently, bytes a second, whatever bounded it: the best of the last rounds, an eighth less with
  // each that brought less.
  [[nodiscard]] std::uint64_t throughput() const;
  // Time for `bytes` at the recent delivered rate; 0: rate not known.
  [[nodiscard]] Duration time_for(std::uint64_t bytes) const;
  [[nodiscard]] Duration queueing() const;  // the target now
  [[nodiscard]] Duration queue() const;     // that recent acknowledgements saw of it
  [[nodiscard]] std::size_t allocated_bytes() const;
  // Bytes beyond bytes() that may leave now if the window is full and no acknowledgement has come.
  [[nodiscard]] std::uint64_t bridge_bytes(Instant now) const;
  // When it will be a step more than `bridged`; nothing at its end.
  [[nodiscard]] std::optional<Instant> next_bridge(std::uint64_t bridged) const;

 private:
  // State measured by acknowledgements. Made with the first one: a sender that has sent nothing has none.
  class Measured;
  Measured& measured();
  void follow();  // copies the limit of measured_

  static constexpr std::uint64_t kUnbounded = std::uint64_t{1} << 60;
  static constexpr std::uint64_t kLimitMask = (std::uint64_t{1} << 63) - 1;

  // measured_'s, where it exists: read for each packet.
  std::uint64_t limit_ : 63;
  std::uint64_t paced_ : 1;
  std::unique_ptr<Measured> measured_;
};

}  // namespace brdma::congestion
