// congestion/delay_window.h - how many bytes may be in flight, from measured round-trip times and delivered bytes.
// Random loss does not shrink it (losses are repaired one by one; on a lossy path they are no sign of congestion),
// queueing delay does, and tail drops. Once a round trip, when the window was in use in full:
//
//   next = delivered rate * (base RTT + target queueing) + additive_bytes     between 3/4 and 2 times the window
//   next = 2 (at the start) or 5/4 times the window, if that is more, while queueing is below half the target
//
// A window that adds only queue leaves the delivered rate as it is, so `next` stops there by itself, even where the
// queue is too short for the target and drops. The additive part makes flows that share a bottleneck settle at equal
// rates (as in FAST TCP). What packets waited in the hosts is no queue (RoundTrip; as Swift keeps the two apart): it is
// taken off where queueing is looked for, and the least of a round is added to what the window has to cover. Credit
// bounds what may lie at the receiver. Noise of the host that nobody can tell from the way: a round counts with the
// smallest RTT in it, and one bad round takes a quarter, which the next good ones give back. Growth is released by
// acknowledgements, not as one burst; at the start only by those that have met less than half the target of queueing,
// for a round hears of its own queue when it is too late. (On paths longer than four times the target a window that
// leaves in bursts makes more than that by itself: there, a quarter of the path.) A window that is spread has found the
// path by the round that ends with such a queue.
//
// A round that did not use the window in full says nothing of more, but a queue that stood in all of it says that the
// path holds less: otherwise an application that posts less than the window and more than path and queue hold would
// have its next burst dropped, again and again. (On paths longer than four times the target: on shorter ones the peer's
// own work, a message long, looks the same, and messages that answer each other would be cut into pieces.)
//
// Target queueing: what scheduling alone makes of an RTT on a busy host; 122 KiB of queue at 10 Gbit/s, 12 at 1. On a
// path of more than 1.6 ms a sixteenth of it: there, such a host makes more of it, and no window would grow.
//
// Hosts that lose their core. A *silence* is a time longer than 5/4 round trips in which no acknowledgement comes
// though the window is full: a process on the way is not scheduled (a tick lasts 4 ms), while nothing is lost and no
// switch is full. Two answers, neither of which needs to know whose process it is:
//   - The target grows to the longest silence of late (halving every 134 ms): a sender that is away leaves a queue
//     behind that keeps the link busy. Never by more than silence_bytes_max, a quarter of the 256 KiB that a switch's
//     port can be expected to have, nor silence_max; rounds in which an eighth is lost halve it, and more than
//     chance_bytes: a window of a few packets loses an eighth by one random loss.
//   - From half a round trip of silence on, new packets go on leaving at the delivered rate (bridge_bytes()), for
//     bridge_max and bridge_bytes_max at the most: where the receiver is away they wait in its socket, which it has
//     given credit for, and being paced they fill no queue that was not full before.
// A round with a silence in it, or one in which a request for answers was lost (they come in order, so all wait for
// it), says little of the rate: it can raise it only.
//
// Queues that are shorter than the target. A switch that tells what it drops says what its full queue takes to drain.
// From then on a room_part-th of that is the target, if it is less, and the additive part additive_bytes_told: several
// flows shall share that queue, not fill it. What was said doubles each room_doubles (the path may be another by now;
// and on hosts that are busy for longer than the queue is a window that small carries little), then is forgotten.
//
// Without such reports queue_loss.h distinguishes tail drops from random loss. The cut is what was lost, at least a
// full_part-th; but the window stays within a carried_part-th of the BDP. It stays there for full_rounds and full_time.
// Then its limit grows by steps that double up to full_step, or to a full_steps-th of it; after full_steps_max of them
// without a loss the queue is forgotten. The same after a report. In a queue shorter than the target the delay shows
// nothing, so flows become equal as under AIMD: steps are the same for all, losses a part of each. If as large a part
// is lost under the reduced window, it is cut once more; unless it meets half the queue, or delivers less for being
// smaller: then the loss is random, and the cut is undone.
//
// Base RTT: base_round_trip.h, which says when a drain is due and what it has shown. A drain is a round to half of what
// the path holds. A window that leaves in bursts waits until no more is under way; one that is spread sends half of
// what is acknowledged for a round, and then all that it may, which its rate keeps from being a burst: half a round's
// worth is lost. Until that is heard of, refills_max rounds at most, rounds say nothing of the path. Where the path has
// become longer, it begins again with the rate that was delivered before, over the new base.
//
// Growth of a window that is spread: to what leaves at its rate where no queue is heard of (spread_more and
// spread_late, of qp/send/spread_window.cc) and the target besides.
//
// Integers only; pure: no clock, told `now`.
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
  std::uint64_t min_bytes = 16 * 1024;
  std::uint64_t max_bytes = std::uint64_t{1} << 32;  // 100 Gbit/s over 300 ms
  Duration target_queueing = 100_us;
  std::int64_t base_per_target = 16;
  std::int64_t spread_more = 16;  // part of what was delivered; see qp/send/spread_window.cc
  Duration spread_late = 1_ms;
  std::int64_t bursts_from = 4, base_per_burst = 4;  // targets; of paths longer than that
  std::uint64_t silence_bytes_max = 64 * 1024;
  Duration silence_max = 2_ms;
  std::uint64_t chance_bytes = 8 * 1024;  // two packets of the largest path MTU
  Duration bridge_max = 4_ms;             // a scheduler's tick at 250 Hz
  std::uint64_t bridge_bytes_max = 512 * 1024;
  Duration bridge_step = 50_us;  // at a time so much of it, within
  std::uint64_t bridge_step_min = 4 * 1024, bridge_step_max = 16 * 1024;
  std::uint64_t additive_bytes = 8 * 1024;
  std::int64_t room_part = 4;
  Duration room_doubles = 8_ms;
  std::uint64_t additive_bytes_told = 1024;
  Duration full_least = 4_us;  // that a full queue takes to drain
  std::uint64_t full_part = 16, full_steps = 32, full_step = 4 * 1024;
  int full_steps_max = 64;
  std::uint64_t carried_part = 8;
  int full_rounds = 4;
  Duration full_time = 32_ms;
  int refills_max = 4;
};

// Of a packet and its acknowledgement: all of it, and what of that they lay in the hosts of receiver and sender, which
// says when those got a core, and nothing of the way. 0 where nobody can tell.
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
  // Another control takes its place (or gives it back): it goes on measuring, and allows everything.
  void set_bounded(bool bounded);
  [[nodiscard]] bool bounded() const { return limit_ != kUnbounded; }
  // What it allows leaves over a round trip, not in bursts. Nothing is kept of it before the first acknowledgement.
  void set_spread(bool spread);
  // An acknowledgement: `acked_bytes` newly done, `trip` of the packet it echoes, `limited`: the window was in use in
  // full.
  void on_acknowledgement(std::uint64_t acked_bytes, const RoundTrip& trip, bool limited, Instant now);
  // The packets to come take other paths, which are longer by so much (shorter: negative), queueing apart.
  void shift_base(Duration by);
  // The retransmission timeout fired: everything in flight is in doubt. Halves.
  void on_timeout();
  // A switch says that it had no room for `bytes` of what was under way: the rest is what the path takes. Down to one
  // packet, but by half in a round at most: what left before it was heard meets the same queue. No growth in that
  // round. `drain`: what its full queue takes to empty.
  struct Drops {
    std::uint64_t bytes = 0;
    Duration drain;
    std::uint32_t packet_bytes = 0;
  };
  void on_drops(const Drops& drops, Instant now);
  // So much, in packets of so many bytes, is judged lost, for a cause that no switch has reported (queue_loss.h
  // judges).
  void on_loss(std::uint64_t bytes, std::uint32_t packet_bytes, Instant now);
  // What would have filled the window could not: a request for answers was lost. This round says little of the rate.
  void on_interruption();

  [[nodiscard]] bool starting() const;            // it still doubles
  [[nodiscard]] std::uint64_t delivered() const;  // the best of the last rounds, bytes a second; 0: nothing is known
  [[nodiscard]] Duration base_rtt() const;        // 0: no sample yet
  // What was acknowledged of late, bytes a second, whatever bounded it: the best of the last rounds, an eighth less
  // with each that brought less.
  [[nodiscard]] std::uint64_t throughput() const;
  // What `bytes` take at the rate that was delivered of late; 0 where nothing is known of it.
  [[nodiscard]] Duration time_for(std::uint64_t bytes) const;
  [[nodiscard]] Duration queueing() const;  // the target now
  [[nodiscard]] Duration queue() const;     // what acknowledgements of late met of it
  [[nodiscard]] std::size_t allocated_bytes() const;
  // So many bytes beyond bytes() may leave now if the window is full and nothing has come.
  [[nodiscard]] std::uint64_t bridge_bytes(Instant now) const;
  // When it will be a step more than `bridged`; nothing at its end.
  [[nodiscard]] std::optional<Instant> next_bridge(std::uint64_t bridged) const;

 private:
  // What acknowledgements have told. Made with the first one: who has sent nothing yet has none.
  class Measured;
  Measured& measured();
  void follow();  // what measured_ says

  static constexpr std::uint64_t kUnbounded = std::uint64_t{1} << 60;

  std::uint64_t limit_;  // measured_'s, where it is: asked for each packet
  std::unique_ptr<Measured> measured_;
};

}  // namespace brdma::congestion
