// qp/send/admission.h - private: may a new packet leave, how many may, and which of them asks for an acknowledgement?
// The one place where the limits on data in flight to the peer are compared: the own send window, the peer's window and
// credit, the congestion window. Pace (pace.h), fence and the limits on responses come on top.
//
// SendLimits compares; Admission is what it has to remember.
//
// Nothing in flight: one packet may leave whatever its size, for its acknowledgement brings news.
// No credit and nothing in flight: no acknowledgement will come that could bring any, so from a time on one packet may
// leave without (Admission::probe_at).
// A full congestion window in a silence is bridged: new packets leave at the delivered rate for a while. A peer that
// has lost its core finds them in its socket.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/compact_optional.h"
#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/loss/scoreboard.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"

namespace brdma::qp {

// More of what may leave, limit by limit. Zero or negative: nothing.
struct Allowance {
  std::int64_t entries = 0;       // of the send window and the peer's
  std::int64_t packets = 0;       // credit
  std::int64_t credit_bytes = 0;  // credit
  std::int64_t bytes = 0;         // congestion window
};

// A run of packets that may leave one after the other before the next check.
struct RunSize {
  std::uint64_t packets = 0, bytes = 0;
};

// What holds a packet back.
enum class Limit : std::uint8_t {
  kNone,
  kWindow,      // the own send window, the peer's, or the packets that a standard peer is sent at once
  kCredit,      // of a peer in bitmap mode
  kCongestion,  // window
};

class Admission {
 public:
  void reset();          // a queue pair starts again
  void forget_flight();  // nothing is in flight any more

  // SendLimits::limit() found this. True: a stall for want of credit begins.
  bool note(Limit found);
  void on_sent() {  // a new packet has left
    credit_stalled_ = credit_override_ = false;
    probe_at_.reset();
  }
  void on_credit() { probe_at_.reset(); }  // the peer has stated its credit
  void on_round_trip() {                   // the congestion window has taken a sample
    congestion_limited_ = false;
    bridged_ = 0;
  }
  [[nodiscard]] bool congestion_limited() const { return congestion_limited_; }  // since the last sample
  void note_congestion_limited() { congestion_limited_ = true; }
  // None of its times is set, and none will be without a packet or a work request.
  [[nodiscard]] bool is_quiet() const { return !probe_at_ && !congestion_limited_; }

  // --- requests for acknowledgements ---
  void on_added(std::uint32_t packets, bool asked) { since_request_ = asked ? 0 : since_request_ + packets; }
  void on_asked() { since_request_ = 0; }
  [[nodiscard]] std::uint32_t since_request() const { return since_request_; }  // packets

  // --- credit probe ---
  [[nodiscard]] bool wants_probe(const Flight& flight) const {
    return credit_stalled_ && flight.packets == 0 && !probe_at_;
  }
  void set_probe(Instant at) { probe_at_ = at; }
  [[nodiscard]] std::optional<Instant> probe_at() const { return probe_at_; }
  void on_probe_due(Instant next) {
    credit_override_ = true;
    probe_at_ = next;
  }
  [[nodiscard]] bool credit_override() const { return credit_override_; }

  // --- bridge ---
  [[nodiscard]] std::uint64_t bridged() const { return bridged_; }  // bytes beyond the congestion window
  [[nodiscard]] std::optional<Instant> bridge_at(const congestion::DelayWindow& congestion) const;
  void extend_bridge(const congestion::DelayWindow& congestion, Instant now);

 private:
  CompactOptional<Instant> probe_at_;
  std::uint64_t bridged_ = 0;
  Instant bridge_from_;              // no more of that before
  std::uint32_t since_request_ = 0;  // packets since one that asked for an acknowledgement
  bool credit_stalled_ = false;      // since the last new packet
  bool credit_override_ = false;     // a packet probes for credit
  bool congestion_limited_ = false;
};

// The limits as they are now. Made where it is needed.
struct SendLimits {
  static constexpr std::int64_t kUnlimited = std::int64_t{1} << 62;

  const Environment& env;
  const Identity& id;
  const Scoreboard& scoreboard;
  const congestion::DelayWindow& congestion;
  const Admission& admission;

  [[nodiscard]] Allowance allowance() const;
  [[nodiscard, gnu::always_inline]] inline RunSize run_allowance() const {
    const Allowance more = allowance();
    const auto positive = [](std::int64_t a, std::int64_t b) {
      return static_cast<std::uint64_t>(std::max<std::int64_t>(std::min(a, b), 0));
    };
    return {positive(more.entries, more.packets), positive(more.credit_bytes, more.bytes)};
  }
  // Of a packet that occupies `entries` PSNs; `answered`: a request whose bytes come with its responses.
  [[nodiscard]] Limit limit(std::uint32_t entries, std::uint32_t payload, bool answered) const;
  // The congestion window alone: retransmissions are under it as well.
  [[nodiscard]] bool congestion_admits(std::uint32_t payload) const { return fits(payload, congestion_left()); }
  [[nodiscard]] std::uint64_t window_bytes() const { return congestion.bytes() + admission.bridged(); }
  // `more` retransmissions besides those in flight fill the retransmission window (recovery.resend_window; 0: none).
  [[nodiscard]] bool retransmissions_full(std::uint32_t more) const {
    const std::uint32_t most = id.recovery->resend_window;
    return most != 0 && scoreboard.retransmitted() + more >= most;
  }
  // Packets at once to a peer that states no credit.
  [[nodiscard]] std::uint32_t unstated_window() const;

  // An acknowledgement is requested at least every so many packets.
  [[nodiscard]] std::uint32_t request_interval() const;
  [[nodiscard]] static std::uint32_t request_interval_by_reference();
  // Has the next packet to ask, if `used` more are already on their way than in flight?
  [[nodiscard]] bool next_asks(std::uint32_t interval, std::uint64_t used) const {
    return admission.since_request() + 1 >= interval || scoreboard.flight().packets + used + 1 >= credit_packets();
  }
  // The how manyth packet from the next one on has to, likewise.
  // 1: the next. As next_asks() packet by packet.
  [[nodiscard]] std::uint32_t packets_until_request(std::uint32_t interval, std::uint64_t used) const;

 private:
  [[nodiscard]] std::uint32_t credit_packets() const {
    return id.bitmap_agreed ? id.peer_credit.packets : unstated_window();
  }
  // Bytes under the congestion window. Missing packets before a received one are mostly no longer in the network (as
  // FACK counts), although they still wait for a verdict. With much loss and a high tolerance, counting all would keep
  // the window full of lost packets. At most an eighth counts: a verdict finds room at once then.
  [[nodiscard]] std::uint64_t under_way() const {
    const std::uint64_t pipe = scoreboard.flight().pipe;
    if (!scoreboard.has_holes() || id.sending_paths > 1) return pipe;
    return std::min(pipe, scoreboard.packets_behind_arrived() * id.mtu() + congestion.bytes() / 8);
  }
  // One of many flows has a rate (sending_rate.h), which bounds parts of packets; its window admits whole ones.
  [[nodiscard]] std::uint64_t rounded_up() const { return congestion.is_paced() ? id.mtu() - 1 : 0; }
  // A standard peer's window is small enough to need no other.
  [[nodiscard]] std::int64_t congestion_left() const {
    if (!id.bitmap_agreed && !id.goes_back()) return kUnlimited;
    return static_cast<std::int64_t>(window_bytes() + rounded_up() - under_way());
  }
  [[nodiscard]] bool fits(std::uint32_t payload, std::int64_t left) const {
    return scoreboard.flight().pipe == 0 || payload <= left;
  }
};

[[gnu::always_inline]] inline Allowance SendLimits::allowance() const {
  const Flight& flight = scoreboard.flight();
  const std::int64_t room = scoreboard.room();
  if (!id.bitmap_agreed) [[unlikely]]
    return {room, std::int64_t{unstated_window()} - flight.packets, kUnlimited, congestion_left()};
  const auto ahead = static_cast<std::int64_t>(scoreboard.next() - scoreboard.cumulative());
  return {std::min(room, id.peer_window - ahead), std::int64_t{id.peer_credit.packets} - flight.packets,
          id.peer_credit.bytes - static_cast<std::int64_t>(flight.bytes), congestion_left()};
}

inline std::uint32_t SendLimits::packets_until_request(std::uint32_t interval, std::uint64_t used) const {
  const std::uint64_t under_way = scoreboard.flight().packets + used;
  const std::uint64_t credit = credit_packets();
  const std::uint64_t left = interval - std::min(interval, admission.since_request());
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(std::min(left, credit - std::min(credit, under_way)), 1));
}

}  // namespace brdma::qp
