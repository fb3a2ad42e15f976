// trace/counters.h - the statistics of one context: a flat array of 64-bit counters that only grow.
// The array may lie in memory shared with the daemon (plain words, no pointers): it outlives a killed process.
// One writer at a time (the shard's lock holder); readers take each word as it is. Names follow rxe and mlx5, with ours
// beside them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trace/drop_reason.h"

namespace brdma {

// X(enumerator, counter name)
#define BRDMA_COUNTERS(X)                                                                                              \
  X(kSentPackets, sent_pkts)                                                                                           \
  X(kReceivedPackets, rcvd_pkts)                                                                                       \
  X(kSentBytes, sent_bytes) /* UDP payload */                                                                          \
  X(kReceivedBytes, rcvd_bytes)                                                                                        \
  X(kSentDataPackets, sent_data_pkts) /* requests and responses that carry or request data, first time */              \
  X(kAcceptedPackets, accepted_pkts)                                                                                   \
  X(kDuplicateRequest, duplicate_request)                                                                              \
  X(kOutOfSequence, out_of_sequence) /* requests received after a gap */                                               \
  X(kSentRnr, send_rnr_err)                                                                                            \
  X(kReceivedRnr, rcvd_rnr_err)                                                                                        \
  X(kPacketSeqErr, packet_seq_err) /* sequence-error NAKs received */                                                  \
  X(kSentSeqNak, sent_seq_nak)                                                                                         \
  X(kLocalAckTimeout, local_ack_timeout_err)                                                                           \
  X(kRetryExceeded, retry_exceeded_err)                                                                                \
  X(kRnrRetryExceeded, retry_rnr_exceeded_err)                                                                         \
  X(kRemoteAccessErrors, resp_remote_access_errors)                                                                    \
  X(kRemoteInvalidRequests, resp_remote_invalid_requests)                                                              \
  X(kFlushedCompletions, req_cqe_flush_error)                                                                          \
  X(kUcMessagesDropped, uc_messages_dropped)                                                                           \
  X(kCompletionsOverwritten, completions_overwritten) /* in queues that ignore overruns */                             \
  X(kSends, rdma_sends) /* SENDs done: the whole message is acknowledged, or has left (UC, UD) */                      \
  X(kReceives, rdma_recvs)                                                                                             \
  X(kWriteRequests, rx_write_requests)                                                                                 \
  X(kReadRequests, rx_read_requests)                                                                                   \
  X(kAtomicRequests, rx_atomic_requests)                                                                               \
  X(kAtomicWriteRequests, rx_atomic_write_requests)                                                                    \
  X(kFlushRequests, rx_flush_requests)                                                                                 \
  X(kAcksSent, acks_sent)                                                                                              \
  X(kAcksPiggybacked, acks_piggybacked) /* of acks_sent: piggybacked on a data packet */                               \
  X(kAcksReceived, acks_received)                                                                                      \
  X(kStalePiggybacks, stale_piggybacks) /* piggybacked ACKs that acknowledged nothing new */                           \
  X(kCapsSent, caps_sent)                                                                                              \
  X(kCapsReceived, caps_received)                                                                                      \
  X(kBitmapQps, bitmap_qps) /* queue pairs that have agreed on bitmap mode */                                          \
  X(kGapsSeen, gaps_seen)                                                                                              \
  X(kGapsClosed, gaps_closed)       /* by themselves: reordering, no loss */                                           \
  X(kGapsRecovered, gaps_recovered) /* by a retransmitted packet */                                                    \
  X(kGapsPromotedDepth, gaps_promoted_depth)                                                                           \
  X(kGapsPromotedAge, gaps_promoted_age)                                                                               \
  X(kGapsPromotedStall, gaps_promoted_stall)                                                                           \
  X(kGapsPromotedPath, gaps_promoted_path)                                                                             \
  X(kGapsPromotedRequest, gaps_promoted_request) /* an operator marked them as lost */                                 \
  X(kCrossPathWaits, cross_path_waits)           /* closed by themselves, lost by a single path's limits */            \
  X(kPathSilent, path_silent)                    /* times a path was set aside: nothing on it was acknowledged */      \
  X(kPathProbed, path_probed)                    /* copies sent on paths that are set aside */                         \
  X(kPathReturned, path_returned)                /* times such a path was used again */                                \
  X(kMisjudgementCorrections, misjudgement_corrections)                                                                \
  X(kToleranceRaised, tolerance_raised) /* times a late packet raised its queue pair's limits */                       \
  X(kFfmSent, ffm_sent)                                                                                                \
  X(kFfmReceived, ffm_received)                                                                                        \
  X(kFfmSuppressed, ffm_suppressed)         /* gaps in an FFM that needed no retransmission */                         \
  X(kFfmDuplicates, ffm_duplicates)         /* FFMs seen before */                                                     \
  X(kFfmStale, ffm_stale)                   /* FFMs older than the last 64 */                                          \
  X(kFfmPacketsAcked, ffm_pkts_acked)       /* packets named by an FFM, not retransmitted: had arrived */              \
  X(kFfmPacketsPending, ffm_pkts_pending)   /* likewise: they were about to be sent again */                           \
  X(kFfmPacketsRecent, ffm_pkts_recent)     /* likewise: retransmitted just before */                                  \
  X(kFfmPacketsOutdated, ffm_pkts_outdated) /* likewise: retransmitted after an overtaken FFM left */                  \
  X(kFfmPacketsUnsent, ffm_pkts_unsent)     /* likewise: they were never sent */                                       \
  X(kFfmPacketsEdn, ffm_pkts_edn)           /* likewise: retransmitted for an EDN that the FFM cannot know */          \
  X(kEdnReceived, edn_received)             /* explicit drop notifications from the network */                         \
  X(kEdnStale, edn_stale)                   /* of these: name nothing outstanding */                                   \
  X(kEdnOff, edn_off)                       /* of these: ignored, recovery.edn is off */                               \
  X(kEdnResponses, edn_responses)           /* of these: about responses that are no longer known */                   \
  X(kEdnAcks, edn_acks)                     /* of these: about acknowledgements and feedback; another leaves */        \
  X(kEdnPacketsAcked, edn_pkts_acked)       /* packets named by an EDN, not retransmitted: had arrived */              \
  X(kEdnPacketsPending, edn_pkts_pending)   /* likewise: they were about to be sent again */                           \
  X(kEdnPacketsRecent, edn_pkts_recent)     /* likewise: retransmitted since, or just before */                        \
  X(kEdnPacketsUnsent, edn_pkts_unsent)     /* likewise: they were never sent */                                       \
  X(kEdnPacketsGone, edn_pkts_gone)         /* likewise: responses whose memory may no longer be read */               \
  X(kReplaysEdn, replays_edn)               /* responses requested again, just retransmitted for an EDN */             \
  X(kEdnPauses, edn_pauses)                 /* times sending waited for a full queue to drain */                       \
  X(kEdnReductions, edn_reductions)         /* times drops reported by a switch lowered window or rate */              \
  X(kRetransmittedEdn, retransmitted_by_edn)                                                                           \
  X(kRetransmittedFfm, retransmitted_by_ffm)                                                                           \
  X(kRetransmittedNak, retransmitted_by_nak)                                                                           \
  X(kRetransmittedPath, retransmitted_by_path)      /* sent on a path that fell silent */                              \
  X(kRetransmittedExpected, retransmitted_expected) /* missing at an acknowledgement's base */                         \
  X(kRetransmittedWait, retransmitted_by_wait)      /* no acknowledgement after T + delta */                           \
  X(kRetransmittedTimeout, retransmitted_by_timeout)                                                                   \
  X(kRetransmittedProbe, retransmitted_by_probe)                                                                       \
  X(kRetransmittedRequest, retransmitted_by_request) /* an operator requested it */                                    \
  X(kRetransmittedAck, retransmitted_by_ack)         /* holes that an acknowledgement reported */                      \
  X(kRetransmitSingle, retransmit_single)            /* batches with one retransmitted packet */                       \
  X(kRetransmitInterval, retransmit_interval)        /* batches with a run of consecutive ones */                      \
  X(kRetransmitAggregated, retransmit_aggregated)    /* batches with several runs */                                   \
  X(kRetransmitHeld, retransmit_held)                /* waited to leave with others */                                 \
  X(kResendWindowFull, resend_window_full)           /* batches cut short by recovery.resend_window */                 \
  X(kSendStalls, send_window_stalls)                 /* base stood still, later packets arrived */                     \
  X(kReadsReissued, reads_reissued)                  /* READ requests for missing responses only */                    \
  X(kReadsCopied, reads_copied)        /* READ requests sent again with the next one, in case the last was lost */     \
  X(kHeldForReceive, held_for_receive) /* no receive posted; kept until the RNR NAK is due */                          \
  X(kHeldPackets, held_pkts)           /* out of order, held until their turn */                                       \
  X(kPlacedEarly, placed_early)        /* out of order, written to memory at once */                                   \
  X(kRunsRefused, runs_refused)        /* early packets dropped, too many runs of G incomplete */                      \
  X(kAckRangesSent, ack_ranges_sent)   /* SACK ranges beyond an acknowledgement's bits */                              \
  X(kOperationsSent, operations_sent)  /* segments of large transfers that began to leave */                           \
  X(kOperationsDone, operations_done)  /* of those, fully acknowledged */                                              \
  X(kOperationsRegistered, operations_registered) /* as receiver: by their start */                                    \
  X(kOperationsComplete, operations_complete)     /* all packets here */                                               \
  X(kOperationDuplicates, operation_duplicates)   /* dropped because the mask did not change */                        \
  X(kTransfersComplete, transfers_complete)       /* large transfers received, with all operations */                  \
  X(kEscapedPackets, escaped_pkts)       /* before the start of their operation, kept in the escape channel */         \
  X(kEscapeReleased, escape_released)    /* of those, placed when the start came */                                    \
  X(kEscapeExpired, escape_expired)      /* of those, dropped because the start came too late: sent again */           \
  X(kWriteEvents, write_events)          /* arrival events of WRITEs, delivered to watchers */                         \
  X(kWriteEventsLost, write_events_lost) /* lost: too many that nobody fetched */                                      \
  X(kLocalQps, local_qps)                /* queue pairs with local transfer by reference, both ways */                 \
  X(kFetches, fetched_pkts)              /* packets whose data was fetched from the peer's memory */                   \
  X(kFetchedBytes, fetched_bytes)                                                                                      \
  X(kFetchFaults, fetch_faults)                 /* of memory that the peer itself cannot read: answered by an error */ \
  X(kByReference, described_pkts)               /* packets sent with a descriptor in place of data */                  \
  X(kMarkedPackets, np_ecn_marked_roce_packets) /* received with the congestion mark of ECN */                         \
  X(kCnpSent, np_cnp_sent)                      /* congestion notification packets */                                  \
  X(kCnpHandled, rp_cnp_handled)                /* received, and the rate was reduced */                               \
  X(kCnpIgnored, rp_cnp_ignored)                /* received without DCQCN */                                           \
  X(kPaceWaits, pace_waits)                     /* times sending waited for its rate */                                \
  X(kCreditStalls, credit_stalls)               /* times a queue pair waited for the receiver's credit */              \
  X(kSocketOverflow, socket_overflow)           /* datagrams that found the socket's buffer full */                    \
  X(kStrayPackets, stray_pkts)                  /* packets of another slot's queue pairs */                            \
  X(kXdpReceived, xdp_rcvd_pkts)                /* packets received by AF_XDP; the others by UDP */                    \
  X(kXdpUnreadable, xdp_unreadable_pkts)        /* frames received by it that are no RoCE packets */                   \
  X(kSleeperTook, sleeper_took)                 /* messages taken by a program they woke (io/shard/shard.h) */         \
  X(kSleeperHelped, sleeper_helped)             /* times the thread took them instead */                               \
  X(kSendBlocked, send_blocked)                 /* batches that the system did not take at once */                     \
  X(kPeerUnreachable, peer_unreachable)         /* ICMP errors of earlier packets, reported when sending; no loss */   \
  X(kLinkStateInquiriesSent, link_state_inquiries_sent)                                                                \
  X(kLinkStateInquiriesLimited, link_state_inquiries_limited)   /* too soon after the last */                          \
  X(kLinkStateInquiriesReceived, link_state_inquiries_received) /* inquiries that reached this host */                 \
  X(kLinkStateFeedback, link_state_feedback_received)                                                                  \
  X(kLinkStateUnasked, link_state_feedback_unasked)   /* of these: answers no open inquiry */                          \
  X(kLinkStateRepeated, link_state_feedback_repeated) /* of these: the hop had answered */                             \
  X(kLinksCongested, links_congested)                 /* links congested by feedback */                                \
  X(kLinkStateReports, link_state_reports)            /* answers handed to the controller */                           \
  X(kLinkStateReportsLost, link_state_reports_lost)   /* likewise, but not fetched */                                  \
  X(kControlPackets, controller_requests)             /* of the controller: to manage a destination */                 \
  X(kManagedAdded, managed_added)                     /* destinations put on the managed list */                       \
  X(kManagedRaised, managed_raised)                   /* times such a destination's rate was raised */                 \
  X(kManagedReleased, managed_released)               /* times one got its full rate and left the list */              \
  X(kManagedFull, managed_full)                       /* not put there: too many */                                    \
  X(kStoppedQueriesSent, stopped_queries_sent)        /* queries to silent peers' hosts: is the process stopped? */    \
  X(kStoppedReplies, stopped_replies)                 /* it is: the retry count waited */                              \
  X(kStoppedRepliesIgnored, stopped_replies_ignored)  /* no query open, or too late */                                 \
  X(kQpsCreated, qps_created)                                                                                          \
  X(kQpsDestroyed, qps_destroyed)                                                                                      \
  X(kQpsRefused, qps_refused)               /* queue pairs beyond recovery.qps_max or device_state_bytes_max */        \
  X(kStallsBegun, stalls_begun)             /* nothing acknowledged for 100 ms and a timeout */                        \
  X(kStallsEnded, stalls_ended)             /* as many as begun: no queue pair stands still */                         \
  X(kEventsRecorded, events_recorded)       /* trace/journal.h */                                                      \
  X(kEventsSuppressed, events_suppressed)   /* too many in a short time */                                             \
  X(kEventsOverwritten, events_overwritten) /* before brdmad had read them */                                          \
  X(kSendFailed, send_failed_pkts)          /* packets that the system refused: no route, too long, ... */

enum class Counter : std::uint8_t {
#define BRDMA_X(name, text) name,
  BRDMA_COUNTERS(BRDMA_X)
#undef BRDMA_X
};

inline constexpr std::string_view kCounterNames[] = {
#define BRDMA_X(name, text) #text,
    BRDMA_COUNTERS(BRDMA_X)
#undef BRDMA_X
};
inline constexpr std::size_t kCounterCount = sizeof(kCounterNames) / sizeof(kCounterNames[0]);

// Shape in shared memory: all counters, then all drop reasons. Version it with its size.
struct Statistics {
  std::array<std::uint64_t, kCounterCount> counters{};
  std::array<std::uint64_t, kDropReasonCount> drops{};

  void add(Counter counter, std::uint64_t n = 1) { bump(counters[static_cast<std::size_t>(counter)], n); }
  void add(DropReason reason, std::uint64_t n = 1) { bump(drops[static_cast<std::size_t>(reason)], n); }
  [[nodiscard]] std::uint64_t get(Counter counter) const { return read(counters[static_cast<std::size_t>(counter)]); }
  [[nodiscard]] std::uint64_t get(DropReason reason) const { return read(drops[static_cast<std::size_t>(reason)]); }

 private:
  // Plain moves on the machine; for the compiler and ThreadSanitizer, accesses that others may read concurrently.
  static void bump(std::uint64_t& word, std::uint64_t n) {
    __atomic_store_n(&word, __atomic_load_n(&word, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
  }
  static std::uint64_t read(const std::uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_RELAXED); }
};

}  // namespace brdma
