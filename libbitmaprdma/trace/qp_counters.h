// trace/qp_counters.h - the small set of counters of each queue pair, beside those of its context. Several counters of
// the context may add up to one of a queue pair. A new one needs only a line here: code that counts a context's counter
// inside a queue pair's function (qp/state/environment.h) counts this one too. Counters of packets whose queue pair is
// not yet known (rcvd_pkts) do not belong here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trace/counters.h"

namespace brdma {

// X(enumerator, name)
#define BRDMA_QP_COUNTERS(X)                                \
  X(kSentPackets, sent_pkts)                                \
  X(kSentBytes, sent_bytes)                                 \
  X(kSentData, sent_data_pkts)                              \
  X(kAccepted, accepted_pkts)                               \
  X(kDropped, dropped_pkts) /* all drop reasons together */ \
  X(kRetransmitted, retransmitted_pkts)                     \
  X(kTimeouts, local_ack_timeout_err)                       \
  X(kReceivedRnr, rcvd_rnr_err)                             \
  X(kDuplicates, duplicate_request)                         \
  X(kOutOfSequence, out_of_sequence)                        \
  X(kGapsSeen, gaps_seen)                                   \
  X(kGapsClosed, gaps_closed)                               \
  X(kGapsRecovered, gaps_recovered)                         \
  X(kGapsPromoted, gaps_promoted)                           \
  X(kMisjudgementCorrections, misjudgement_corrections)     \
  X(kFfmSent, ffm_sent)                                     \
  X(kFfmReceived, ffm_received)                             \
  X(kFfmSuppressed, ffm_suppressed)                         \
  X(kCreditStalls, credit_stalls)

enum class QpCounter : std::uint8_t {
#define BRDMA_X(name, text) name,
  BRDMA_QP_COUNTERS(BRDMA_X)
#undef BRDMA_X
      kNone  // not counted for queue pairs
};

inline constexpr std::string_view kQpCounterNames[] = {
#define BRDMA_X(name, text) #text,
    BRDMA_QP_COUNTERS(BRDMA_X)
#undef BRDMA_X
};
inline constexpr std::size_t kQpCounterCount = sizeof(kQpCounterNames) / sizeof(kQpCounterNames[0]);

// The queue pair's counter that the context's counter adds to. Folds away where the counter is a constant.
[[nodiscard]] constexpr QpCounter qp_counter(Counter counter) {
  switch (counter) {
    case Counter::kSentPackets:
      return QpCounter::kSentPackets;
    case Counter::kSentBytes:
      return QpCounter::kSentBytes;
    case Counter::kSentDataPackets:
      return QpCounter::kSentData;
    case Counter::kAcceptedPackets:
      return QpCounter::kAccepted;
    case Counter::kRetransmittedFfm:
    case Counter::kRetransmittedNak:
    case Counter::kRetransmittedTimeout:
    case Counter::kRetransmittedProbe:
    case Counter::kRetransmittedAck:
    case Counter::kRetransmittedPath:
    case Counter::kRetransmittedEdn:
    case Counter::kRetransmittedExpected:
    case Counter::kRetransmittedWait:
    case Counter::kRetransmittedRequest:
      return QpCounter::kRetransmitted;
    case Counter::kLocalAckTimeout:
      return QpCounter::kTimeouts;
    case Counter::kReceivedRnr:
      return QpCounter::kReceivedRnr;
    case Counter::kDuplicateRequest:
      return QpCounter::kDuplicates;
    case Counter::kOutOfSequence:
      return QpCounter::kOutOfSequence;
    case Counter::kGapsSeen:
      return QpCounter::kGapsSeen;
    case Counter::kGapsClosed:
      return QpCounter::kGapsClosed;
    case Counter::kGapsRecovered:
      return QpCounter::kGapsRecovered;
    case Counter::kGapsPromotedDepth:
    case Counter::kGapsPromotedAge:
    case Counter::kGapsPromotedStall:
    case Counter::kGapsPromotedPath:
    case Counter::kGapsPromotedRequest:
      return QpCounter::kGapsPromoted;
    case Counter::kMisjudgementCorrections:
      return QpCounter::kMisjudgementCorrections;
    case Counter::kFfmSent:
      return QpCounter::kFfmSent;
    case Counter::kFfmReceived:
      return QpCounter::kFfmReceived;
    case Counter::kFfmSuppressed:
      return QpCounter::kFfmSuppressed;
    case Counter::kCreditStalls:
      return QpCounter::kCreditStalls;
    default:
      return QpCounter::kNone;
  }
}

// Written and read under the engine's lock only.
struct QpStatistics {
  std::array<std::uint64_t, kQpCounterCount> counters{};
  void add(QpCounter counter, std::uint64_t n = 1) { counters[static_cast<std::size_t>(counter)] += n; }
  [[nodiscard]] std::uint64_t get(QpCounter counter) const { return counters[static_cast<std::size_t>(counter)]; }
};

}  // namespace brdma
