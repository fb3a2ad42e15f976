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

// X(enumerator, name, what it counts)
#define BRDMA_QP_COUNTERS(X)                                                                                  \
  X(kSentPackets, sent_pkts, "packets sent")                                                                  \
  X(kSentBytes, sent_bytes, "bytes of UDP payload sent")                                                      \
  X(kSentData, sent_data_pkts, "requests and responses that carry or request data, sent for the first time")  \
  X(kAccepted, accepted_pkts, "packets received and not dropped")                                             \
  X(kDropped, dropped_pkts, "packets received and dropped, for all reasons together")                         \
  X(kRetransmitted, retransmitted_pkts, "packets retransmitted, for all reasons together")                    \
  X(kTimeouts, local_ack_timeout_err, "retransmission timeouts")                                              \
  X(kReceivedRnr, rcvd_rnr_err, "RNR NAKs received")                                                          \
  X(kDuplicates, duplicate_request, "requests received again")                                                \
  X(kOutOfSequence, out_of_sequence, "requests received after a gap")                                         \
  X(kGapsSeen, gaps_seen, "runs of missing PSNs seen by the receiver")                                        \
  X(kGapsClosed, gaps_closed, "gaps that closed by themselves: reordering, no loss")                          \
  X(kGapsRecovered, gaps_recovered, "gaps closed by a retransmitted packet")                                  \
  X(kGapsPromoted, gaps_promoted, "gaps counted as lost, by all limits together")                             \
  X(kMisjudgementCorrections, misjudgement_corrections, "packets that counted as lost and arrived after all") \
  X(kFfmSent, ffm_sent, "fast feedback messages sent")                                                        \
  X(kFfmReceived, ffm_received, "fast feedback messages received")                                            \
  X(kFfmSuppressed, ffm_suppressed, "gaps in an FFM that needed no retransmission")                           \
  X(kCreditStalls, credit_stalls, "times a queue pair waited for the receiver's credit")

enum class QpCounter : std::uint8_t {
#define BRDMA_X(name, text, help) name,
  BRDMA_QP_COUNTERS(BRDMA_X)
#undef BRDMA_X
      kNone  // not counted for queue pairs
};

inline constexpr std::string_view kQpCounterNames[] = {
#define BRDMA_X(name, text, help) #text,
    BRDMA_QP_COUNTERS(BRDMA_X)
#undef BRDMA_X
};
inline constexpr std::size_t kQpCounterCount = sizeof(kQpCounterNames) / sizeof(kQpCounterNames[0]);
inline constexpr std::string_view kQpCounterHelp[] = {
#define BRDMA_X(name, text, help) help,
    BRDMA_QP_COUNTERS(BRDMA_X)
#undef BRDMA_X
};

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
