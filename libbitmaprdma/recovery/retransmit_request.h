// recovery/retransmit_request.h - a receiver names packets as lost: which of them does the sender send again? (spec 1:
// sender's reaction)  Pure, but for FeedbackOrder, which remembers the serial numbers that it has seen.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "bitmap/send_window.h"

namespace brdma::recovery {

// What becomes of one packet that was named. Each refusal is one suppression rule of spec 1.
enum class RequestVerdict : std::uint8_t {
  kResend,
  kAcknowledged,  // arrived meanwhile
  kPending,       // waits for its turn already
  kRecent,        // was sent again within the quiet time: one effective retransmission a gap and window
  kOutdated,      // was sent again after the message left that names it
};

struct RequestedEntry {
  bitmap::EntryState state = bitmap::EntryState::kSentUnacked;
  bool sent_again = false;  // more than once
  Duration since_sent;      // since its last transmission
};

// `overtaken`: a newer message came before this one, so what this one says is older than what was done about that.
[[nodiscard]] RequestVerdict judge_request(const RequestedEntry& entry, Duration quiet, bool overtaken);

// Tells new, overtaken, repeated and old feedback messages by their serial numbers (32 bits, serial arithmetic).
class FeedbackOrder {
 public:
  enum class Kind : std::uint8_t {
    kNew,        // newer than all
    kOvertaken,  // of the last 64, comes late, was not seen yet
    kDuplicate,  // of the last 64, was seen
    kStale,      // older
  };
  // What a message with this serial number is; from now on it has been seen.
  [[nodiscard]] Kind take(std::uint32_t serial);

 private:
  static constexpr std::uint32_t kRemembered = 64;
  struct Seen {  // in two words, as it lies in each queue pair: 12 bytes in all
    std::uint32_t low = 0, high = 0;
  };
  Seen seen_;  // bit i: newest_ - i; none set: none yet
  std::uint32_t newest_ = 0;
};

}  // namespace brdma::recovery
