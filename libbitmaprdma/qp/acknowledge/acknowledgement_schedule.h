// qp/acknowledge/acknowledgement_schedule.h - private: when a responder's acknowledgement is due, how often it leaves,
// and the timestamp that it echoes. State and transitions only: acknowledgement_writer.h writes the packets.
//
//   deferred     until `delay` after the first packet that it covers, or until `packets_max` of them
//   requested    the peer asked (AckReq): due, but a driver may let it wait for data to travel with
//   forced       due now, alone if need be
//
// In bitmap mode each packet makes an acknowledgement pending; of a standard peer's packets only those that ask do.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/psn.h"
#include "base/units.h"

namespace brdma::qp {

class AcknowledgementSchedule {
 public:
  // --- packets ---
  [[gnu::always_inline]] void on_packet(bool asked, bool bitmap, Instant now) {
    if (!bitmap && !asked) return;  // a standard requester asks when it needs one
    if (!pending_ || asked) since_ = now;
    pending_ = true;
    requested_ = requested_ || asked;
    if (bitmap) ++packets_;
  }
  void force(Instant now) {
    if (!pending_) since_ = now;
    pending_ = forced_ = true;
  }
  // Another copy of a received packet. If a requested acknowledgement is due already, the copy does not make it more
  // urgent: a driver that holds it back for the application's reply need not send it alone. (A peer that spins on its
  // memory would stop receiving with it, its copies would pile up again, and the two would never get in step.)
  void on_copy(Instant now) {
    if (!pending_ || !requested_) force(now);
  }
  // The queue pair ends: it leaves now, and `copies` times more.
  void force_last(std::uint8_t copies = kLastCopies) {
    pending_ = forced_ = true;
    copies_ = copies;
  }
  // A pending one waits no longer.
  void force_pending() {
    if (pending_) forced_ = true;
  }
  void on_time(Duration delay, Instant now) {
    if (pending_ && now >= deadline(delay)) forced_ = true;
  }

  // --- it has left; `base`: of it ---
  void on_sent(Psn base) {
    pending_ = requested_ = forced_ = false;
    reported_ = base;
    packets_ = 0;
  }
  // Alone: the first data repeats it, and the next, since the first may be lost as well. Mostly that data answers the
  // acknowledged packet. If the acknowledgement was lost, the peer would otherwise complete its receive before its
  // send: ib_send_lat -e takes the first event for its send's, finds no completion, and fails on the data it then
  // reads.
  void on_sent_alone() { repeats_ = kRepeats; }
  void on_sent_with_data() {
    if (repeats_ > 0) --repeats_;
  }
  // If copies are to leave, the next one is due.
  void continue_copies() {
    if (copies_ == 0) [[likely]]
      return;
    --copies_;
    pending_ = forced_ = true;
  }
  // Data that was lost may have carried it.
  void repeat_with_data() { repeats_ = std::max<std::uint8_t>(repeats_, 1); }

  // --- questions. `delay`: longest wait for more packets; `packets_max`: it waits for no more than those ---
  [[nodiscard]] bool pending() const { return pending_; }
  [[nodiscard]] bool forced() const { return forced_; }
  [[nodiscard]] bool repeats() const { return repeats_ > 0; }  // data carries it once more
  [[nodiscard]] bool due(Duration delay, std::uint32_t packets_max, Instant now) const {
    return pending_ && (forced_ || requested_ || packets_ >= packets_max || now >= deadline(delay));
  }
  // It may wait for data up to `longest` after the first packet that it covers.
  [[nodiscard]] bool deferrable(Duration longest, std::uint32_t packets_max, Instant now) const {
    return pending_ && !forced_ && (requested_ || packets_ < packets_max) && now < since_ + longest;
  }
  [[nodiscard]] Instant deadline(Duration delay) const { return since_ + delay; }
  [[nodiscard]] Psn reported() const { return reported_; }  // the base of the last one

 private:
  static constexpr std::uint8_t kRepeats = 2;
  static constexpr std::uint8_t kLastCopies = 3;  // with 5 % loss, one in 160,000 closings loses all final ACKs

  bool pending_ = false;
  bool requested_ = false;
  bool forced_ = false;
  std::uint8_t copies_ = 0;    // to send behind the next one
  std::uint32_t packets_ = 0;  // of bitmap mode, since the last one
  Instant since_;              // of the first of them, or of the one that asked
  Psn reported_;
  std::uint8_t repeats_ = 0;  // data batches that still repeat it
};

// The timestamp of a packet, which the next acknowledgement returns with the packet's path and times here.
class TimestampEcho {
 public:
  // `waited`: of the packet, in this host before it was seen.
  void note(std::uint8_t path, std::uint64_t timestamp, Duration waited, Instant now) {
    valid_ = true;
    path_ = path;
    timestamp_ = timestamp;
    arrival_ = now;
    waited_ = waited;
  }
  // One echo an acknowledgement: later ones would give an old RTT sample.
  void on_sent() { valid_ = false; }
  // With several paths: a packet that asked for the acknowledgement keeps its echo until that has left.
  void keep() { kept_ = valid_; }
  void release() { kept_ = false; }
  [[nodiscard]] bool kept() const { return kept_; }

  [[nodiscard]] bool valid() const { return valid_; }
  [[nodiscard]] std::uint8_t path() const { return path_; }
  [[nodiscard]] std::uint64_t timestamp() const { return timestamp_; }
  [[nodiscard]] Duration waited() const { return waited_; }
  [[nodiscard]] Instant newest_arrival() const { return arrival_ - waited_; }                         // at this host
  [[nodiscard]] std::uint64_t received() const { return static_cast<std::uint64_t>(arrival_.ns()); }  // Tr
  // When the acknowledgement is made, on the clock of Tr. An echo that has waited longer than the sender can represent
  // (half the range of 32 bits) counts as one that has waited that long.
  [[nodiscard]] std::uint32_t made(Instant now) const {
    constexpr Duration kHeldMax = 2_s;  // below 2^31 ns
    const Duration held = std::clamp(now - arrival_, Duration{}, kHeldMax);
    return static_cast<std::uint32_t>((arrival_ + held).ns());
  }

 private:
  bool valid_ = false;
  bool kept_ = false;
  std::uint8_t path_ = 0;
  std::uint64_t timestamp_ = 0;
  Instant arrival_;
  Duration waited_;
};

// Of a responder.
struct Acknowledgements {
  AcknowledgementSchedule schedule;
  TimestampEcho echo;  // of the newest packet of bitmap mode
};

// Signs that our acknowledgements are lost: a duplicate, feedback that has to be repeated. A lost packet explains one
// as well; but a sender without acknowledgements runs out of window. So only signs without a new packet in between
// count.
class AcknowledgementLoss {
 public:
  // `highest`: the newest packet received.
  void on_sign(Psn highest) {
    if (highest_ != highest) signs_ = 0;
    highest_ = highest;
    if (++signs_ < kSigns) return;
    signs_ = 0;
    ++changes_;
  }
  void change_path() { ++changes_; }
  [[nodiscard]] std::uint32_t changes() const { return changes_; }  // of the path that acknowledgements take

 private:
  static constexpr std::uint32_t kSigns = 2;

  Psn highest_;  // at the last sign
  std::uint32_t signs_ = 0;
  std::uint32_t changes_ = 0;
};

}  // namespace brdma::qp
