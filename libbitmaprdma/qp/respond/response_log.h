// qp/respond/response_log.h - the last responses of a responder, and its retransmissions. So a READ response (or the
// response to an ATOMIC WRITE or FLUSH) can be resent from memory when a switch reports its drop (design DN-10).
// Responses are not acknowledged; but at most max_dest_rd_atomic requests wait for theirs at a time, so the last of so
// many are kept.
//
// A report is judged by the timestamp of the dropped packet:
//   never sent again             it was the first transmission, if that is when it left
//   sent again at t              the newest, if it left at t exactly; an older notice otherwise
//   without a timestamp          as with feedback: not twice within the quiet time
// So an attacker who forges reports gains one transmission a packet. Pure; memory is allocated with the first response.
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
  Instant since;                                // execution of the request: responses leave later
};

// A switch's report about one response.
struct DroppedResponse {
  Psn psn;
  bool first = true;                   // of the reported range: its timestamp is exact
  std::optional<Instant> transmitted;  // none: not known
  bool full = false;                   // there was no room in a queue
};

class ResponseLog {
 public:
  static constexpr std::size_t kResendsKept = 256;  // runs: at 5 % loss those of 5000 packets

  explicit ResponseLog(std::uint32_t responses_max);

  void answered(const SentResponse& response);
  // The newest response with this PSN; null: too old, or never sent.
  [[nodiscard]] const SentResponse* find(Psn psn) const;
  // A response leaves again; `unasked`: because a switch reported its drop.
  void sent_again(Psn psn, bool unasked, Instant now);
  [[nodiscard]] recovery::RequestVerdict judge(const DroppedResponse& dropped, Instant answered_since, Duration quiet,
                                               Instant now) const;
  // All of [first, first + count) has been resent, unasked, and not before `since`.
  [[nodiscard]] bool resent_unasked(Psn first, std::uint32_t count, Instant since) const;

  [[nodiscard]] std::size_t allocated_bytes() const {
    return sizeof *this + vector_bytes(responses_) + vector_bytes(resends_);
  }

 private:
  // Neighbours that were resent at the same time.
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
  Instant forgotten_;  // retransmissions up to then may be forgotten
};

}  // namespace brdma::qp
