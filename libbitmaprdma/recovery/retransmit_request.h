// recovery/retransmit_request.h - a receiver reports packets as lost: which of them does the sender retransmit?
// (design BR-23, BR-27)  Pure, except for FeedbackOrder, which remembers the serial numbers that it has seen.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "bitmap/send_window.h"

namespace brdma::recovery {

// Verdict on one reported packet. Each refusal is one suppression rule of design BR-27.
enum class RequestVerdict : std::uint8_t {
  kResend,
  kAcknowledged,  // arrived meanwhile
  kPending,       // already waits to be sent
  kRecent,        // retransmitted within the quiet time: one effective retransmission a gap and window
  kOutdated,      // retransmitted after the message that names it was sent
};

struct RequestedEntry {
  bitmap::EntryState state = bitmap::EntryState::kSentUnacked;
  bool sent_again = false;  // transmitted more than once
  Duration since_sent;      // since its last transmission
};

// `overtaken`: a newer message came first, so this one is older than the reaction to that.
[[nodiscard]] RequestVerdict judge_request(const RequestedEntry& entry, Duration quiet, bool overtaken);

// When a packet that was requested `times` times, the last one at `last`, is requested again. From the fifth on a peer
// that is silent is asked only as often as its silence doubles. It may be gone; and if it is not, its own timeout makes
// it send. `last_arrival`: its last packet.
[[nodiscard]] constexpr Instant next_request(Instant last, unsigned times, Duration interval, Instant last_arrival) {
  constexpr unsigned kTimesSoon = 4;
  return last + (times > kTimesSoon && last - last_arrival > interval ? last - last_arrival : interval);
}

// Distinguishes new, overtaken, repeated and old feedback messages by their serial numbers (32 bits, serial
// arithmetic).
class FeedbackOrder {
 public:
  enum class Kind : std::uint8_t {
    kNew,        // newer than all
    kOvertaken,  // one of the last 64, late, not seen before
    kDuplicate,  // one of the last 64, seen before
    kStale,      // older
  };
  // Classifies a message by its serial number and marks that as seen.
  [[nodiscard]] Kind take(std::uint32_t serial);

 private:
  static constexpr std::uint32_t kRemembered = 64;
  struct Seen {  // in two words, as stored in each queue pair: 12 bytes in all
    std::uint32_t low = 0, high = 0;
  };
  Seen seen_;  // bit i: newest_ - i; none set: none yet
  std::uint32_t newest_ = 0;
};

}  // namespace brdma::recovery
