// qp/respond/response_log.h - what a responder has answered last, and which answers it has sent again: so that a READ
// response (or the answer to an ATOMIC WRITE or FLUSH) that a switch has dropped can be sent again from memory when the
// switch says so (spec 5: sender). Nobody acknowledges answers; but no more requests than max_dest_rd_atomic wait for
// theirs at a time, so of so many the last ones are kept.
//
// A notice is judged by the timestamp that the dropped packet carried:
//   never sent again             it was the first transmission, if that is when it left
//   sent again at t              the newest, if it left at t exactly; an older notice otherwise
//   without a timestamp          as with feedback: not twice within the quiet time
// So who forges notices gains one transmission a packet. Pure; memory is had with the first answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/psn.h"
#include "base/units.h"
#include "base/vector_bytes.h"
#include "recovery/retransmit_request.h"

namespace brdma::qp {

struct SentResponse {
  Psn first;
  std::uint32_t packets = 1;
  std::uint32_t bytes = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  std::uint32_t message = 0, packet_index = 0;  // of the first packet: BXTH
  bool is_read = true;                          // it reads memory, which may be gone since
  Instant since;                                // when the request was executed: answers leave later
};

// What a switch says of one answer.
struct DroppedResponse {
  Psn psn;
  bool first = true;                   // of the range that is named: its timestamp is exact
  std::optional<Instant> transmitted;  // none: not known
  bool full = false;                   // there was no room in a queue
};

class ResponseLog {
 public:
  static constexpr std::size_t kResendsKept = 256;  // runs: at 5 % loss those of 5000 packets

  explicit ResponseLog(std::uint32_t responses_max);

  void answered(const SentResponse& response);
  // The newest answer that has this PSN; null: too long ago, or never.
  [[nodiscard]] const SentResponse* find(Psn psn) const;
  // An answer leaves once more; `unasked`: because a switch said that it was dropped.
  void sent_again(Psn psn, bool unasked, Instant now);
  [[nodiscard]] recovery::RequestVerdict judge(const DroppedResponse& dropped, Instant answered_since, Duration quiet,
                                               Instant now) const;
  // All of [first, first + count) has been sent again, unasked, and not before `since`.
  [[nodiscard]] bool resent_unasked(Psn first, std::uint32_t count, Instant since) const;

  [[nodiscard]] std::size_t allocated_bytes() const {
    return sizeof *this + vector_bytes(responses_) + vector_bytes(resends_);
  }

 private:
  // Neighbours that left again at the same time.
  struct Resend {
    Psn first;
    std::uint32_t packets : 31 = 0;
    std::uint32_t unasked : 1 = 0;
    Instant at;
  };
  [[nodiscard]] const Resend* find_resend(Psn psn) const;

  std::vector<SentResponse> responses_;  // rings once they are full
  std::vector<Resend> resends_;
  std::size_t responses_max_;
  std::size_t newest_response_ = 0, newest_resend_ = 0;
  Instant forgotten_;  // of what was sent again up to then nothing need be known any more
};

}  // namespace brdma::qp
