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

// X(enumerator, counter name, what it counts: in the words of Prometheus' HELP lines, without a backslash)
#define BRDMA_COUNTERS(X)                                                                                             \
  X(kSentPackets, sent_pkts, "packets sent")                                                                          \
  X(kReceivedPackets, rcvd_pkts, "packets received")                                                                  \
  X(kSentBytes, sent_bytes, "bytes of UDP payload sent")                                                              \
  X(kReceivedBytes, rcvd_bytes, "bytes of UDP payload received")                                                      \
  X(kSentDataPackets, sent_data_pkts, "requests and responses that carry or request data, sent for the first time")   \
  X(kAcceptedPackets, accepted_pkts, "packets received and not dropped")                                              \
  X(kDuplicateRequest, duplicate_request, "requests received again")                                                  \
  X(kOutOfSequence, out_of_sequence, "requests received after a gap")                                                 \
  X(kSentRnr, send_rnr_err, "RNR NAKs sent: no receive was posted")                                                   \
  X(kReceivedRnr, rcvd_rnr_err, "RNR NAKs received")                                                                  \
  X(kPacketSeqErr, packet_seq_err, "sequence-error NAKs received")                                                    \
  X(kSentSeqNak, sent_seq_nak, "sequence-error NAKs sent")                                                            \
  X(kLocalAckTimeout, local_ack_timeout_err, "retransmission timeouts")                                               \
  X(kRetryExceeded, retry_exceeded_err, "queue pairs that failed: retries without an acknowledgement")                \
  X(kRnrRetryExceeded, retry_rnr_exceeded_err, "queue pairs that failed: the receiver was never ready")               \
  X(kRemoteAccessErrors, resp_remote_access_errors, "requests refused: key, range or rights of the memory")           \
  X(kRemoteInvalidRequests, resp_remote_invalid_requests,                                                             \
    "requests refused: malformed, or of an operation that is not allowed")                                            \
  X(kFlushedCompletions, req_cqe_flush_error, "work requests completed as flushed")                                   \
  X(kUcMessagesDropped, uc_messages_dropped, "UC messages dropped because a packet was missing")                      \
  X(kCompletionsOverwritten, completions_overwritten, "completions overwritten in queues that ignore overruns")       \
  X(kSends, rdma_sends, "SENDs done: the whole message is acknowledged, or has left (UC, UD)")                        \
  X(kReceives, rdma_recvs, "receives completed")                                                                      \
  X(kWriteRequests, rx_write_requests, "WRITE requests received")                                                     \
  X(kReadRequests, rx_read_requests, "READ requests received")                                                        \
  X(kAtomicRequests, rx_atomic_requests, "atomic requests received")                                                  \
  X(kAtomicWriteRequests, rx_atomic_write_requests, "ATOMIC WRITE requests received")                                 \
  X(kFlushRequests, rx_flush_requests, "FLUSH requests received")                                                     \
  X(kAcksSent, acks_sent, "acknowledgements sent")                                                                    \
  X(kAcksPiggybacked, acks_piggybacked, "acknowledgements sent on a data packet")                                     \
  X(kAcksReceived, acks_received, "acknowledgements received")                                                        \
  X(kStalePiggybacks, stale_piggybacks, "piggybacked acknowledgements that acknowledged nothing new")                 \
  X(kCapsSent, caps_sent, "CAPS sent: offers of bitmap mode")                                                         \
  X(kCapsReceived, caps_received, "CAPS received")                                                                    \
  X(kBitmapQps, bitmap_qps, "queue pairs that have agreed on bitmap mode")                                            \
  X(kGapsSeen, gaps_seen, "runs of missing PSNs seen by the receiver")                                                \
  X(kGapsClosed, gaps_closed, "gaps that closed by themselves: reordering, no loss")                                  \
  X(kGapsRecovered, gaps_recovered, "gaps closed by a retransmitted packet")                                          \
  X(kGapsPromotedDepth, gaps_promoted_depth, "gaps counted as lost: overtaken by too many packets")                   \
  X(kGapsPromotedAge, gaps_promoted_age, "gaps counted as lost: missing for too long")                                \
  X(kGapsPromotedStall, gaps_promoted_stall, "gaps counted as lost: the window's base stood still for too long")      \
  X(kGapsPromotedPath, gaps_promoted_path, "gaps counted as lost: a later packet of their path arrived")              \
  X(kGapsPromotedRequest, gaps_promoted_request, "gaps counted as lost: an operator requested it")                    \
  X(kCrossPathWaits, cross_path_waits, "gaps that closed by themselves and were lost by the limits of a single path") \
  X(kPathSilent, path_silent, "times a path was set aside: nothing on it was acknowledged")                           \
  X(kPathProbed, path_probed, "copies sent on paths that are set aside")                                              \
  X(kPathReturned, path_returned, "times a path that was set aside was used again")                                   \
  X(kMisjudgementCorrections, misjudgement_corrections, "packets that counted as lost and arrived after all")         \
  X(kToleranceRaised, tolerance_raised, "times a late packet raised its queue pair's limits")                         \
  X(kFfmSent, ffm_sent, "fast feedback messages sent")                                                                \
  X(kFfmReceived, ffm_received, "fast feedback messages received")                                                    \
  X(kFfmSuppressed, ffm_suppressed, "gaps in an FFM that needed no retransmission")                                   \
  X(kFfmDuplicates, ffm_duplicates, "fast feedback messages received before")                                         \
  X(kFfmStale, ffm_stale, "fast feedback messages older than the last 64")                                            \
  X(kFfmPacketsAcked, ffm_pkts_acked, "packets named by an FFM, not retransmitted: had arrived")                      \
  X(kFfmPacketsPending, ffm_pkts_pending,                                                                             \
    "packets named by an FFM, not retransmitted: they were about to be sent again")                                   \
  X(kFfmPacketsRecent, ffm_pkts_recent, "packets named by an FFM, not retransmitted: they had just been")             \
  X(kFfmPacketsOutdated, ffm_pkts_outdated,                                                                           \
    "packets named by an FFM, not retransmitted: they had been, after an overtaken FFM left")                         \
  X(kFfmPacketsUnsent, ffm_pkts_unsent, "packets named by an FFM that were never sent")                               \
  X(kFfmPacketsEdn, ffm_pkts_edn,                                                                                     \
    "packets named by an FFM, not retransmitted: they had been, for an EDN that the FFM cannot know")                 \
  X(kEdnReceived, edn_received, "explicit drop notifications received from the network")                              \
  X(kEdnStale, edn_stale, "EDNs that name nothing outstanding")                                                       \
  X(kEdnOff, edn_off, "EDNs ignored: recovery.edn is off")                                                            \
  X(kEdnResponses, edn_responses, "EDNs about responses that are no longer known")                                    \
  X(kEdnAcks, edn_acks, "EDNs about acknowledgements and feedback: another one leaves")                               \
  X(kEdnPacketsAcked, edn_pkts_acked, "packets named by an EDN, not retransmitted: had arrived")                      \
  X(kEdnPacketsPending, edn_pkts_pending,                                                                             \
    "packets named by an EDN, not retransmitted: they were about to be sent again")                                   \
  X(kEdnPacketsRecent, edn_pkts_recent,                                                                               \
    "packets named by an EDN, not retransmitted: they had been since, or just before")                                \
  X(kEdnPacketsUnsent, edn_pkts_unsent, "packets named by an EDN that were never sent")                               \
  X(kEdnPacketsGone, edn_pkts_gone,                                                                                   \
    "packets named by an EDN, not retransmitted: responses whose memory may no longer be read")                       \
  X(kReplaysEdn, replays_edn, "responses requested again that were just retransmitted for an EDN")                    \
  X(kEdnPauses, edn_pauses, "times sending waited for a full queue to drain")                                         \
  X(kEdnReductions, edn_reductions, "times drops reported by a switch lowered window or rate")                        \
  X(kRetransmittedEdn, retransmitted_by_edn, "packets retransmitted for an explicit drop notification")               \
  X(kRetransmittedFfm, retransmitted_by_ffm, "packets retransmitted for a fast feedback message")                     \
  X(kRetransmittedNak, retransmitted_by_nak, "packets retransmitted for a NAK")                                       \
  X(kRetransmittedPath, retransmitted_by_path, "packets retransmitted because their path fell silent")                \
  X(kRetransmittedExpected, retransmitted_expected,                                                                   \
    "packets retransmitted because they are missing at an acknowledgement's base")                                    \
  X(kRetransmittedWait, retransmitted_by_wait, "packets retransmitted after no acknowledgement for T + delta")        \
  X(kRetransmittedTimeout, retransmitted_by_timeout, "packets retransmitted on a timeout")                            \
  X(kRetransmittedProbe, retransmitted_by_probe, "packets retransmitted as a tail loss probe")                        \
  X(kRetransmittedRequest, retransmitted_by_request, "packets retransmitted because an operator requested it")        \
  X(kRetransmittedAck, retransmitted_by_ack, "packets retransmitted because an acknowledgement reported holes")       \
  X(kRetransmitSingle, retransmit_single, "batches with one retransmitted packet")                                    \
  X(kRetransmitInterval, retransmit_interval, "batches with a run of consecutive retransmitted packets")              \
  X(kRetransmitAggregated, retransmit_aggregated, "batches with several runs of retransmitted packets")               \
  X(kRetransmitHeld, retransmit_held, "packets to be retransmitted that waited to leave with others")                 \
  X(kResendWindowFull, resend_window_full, "batches cut short by recovery.resend_window")                             \
  X(kSendStalls, send_window_stalls, "times the send window's base stood still while later packets arrived")          \
  X(kReadsReissued, reads_reissued, "READ requests sent for missing responses only")                                  \
  X(kReadsCopied, reads_copied, "READ requests sent again with the next one, in case the last was lost")              \
  X(kHeldForReceive, held_for_receive, "messages kept until the RNR NAK is due, because no receive is posted")        \
  X(kHeldPackets, held_pkts, "packets received out of order and held until their turn")                               \
  X(kPlacedEarly, placed_early, "packets received out of order and written to memory at once")                        \
  X(kRunsRefused, runs_refused, "early packets dropped, too many runs of G incomplete")                               \
  X(kAckRangesSent, ack_ranges_sent, "SACK ranges beyond an acknowledgement's bits")                                  \
  X(kOperationsSent, operations_sent, "segments of large transfers that began to leave")                              \
  X(kOperationsDone, operations_done, "segments of large transfers that are fully acknowledged")                      \
  X(kOperationsRegistered, operations_registered,                                                                     \
    "segments of large transfers that the receiver knows by their start")                                             \
  X(kOperationsComplete, operations_complete, "segments of large transfers of which all packets have arrived")        \
  X(kOperationDuplicates, operation_duplicates, "packets of segments dropped because the mask did not change")        \
  X(kTransfersComplete, transfers_complete, "large transfers received, with all operations")                          \
  X(kEscapedPackets, escaped_pkts,                                                                                    \
    "packets kept in the escape channel: they came before the start of their operation")                              \
  X(kEscapeReleased, escape_released, "packets of the escape channel placed when the start came")                     \
  X(kEscapeExpired, escape_expired, "packets of the escape channel dropped because the start came too late")          \
  X(kWriteEvents, write_events, "arrival events of WRITEs, delivered to watchers")                                    \
  X(kWriteEventsLost, write_events_lost, "arrival events of WRITEs lost: too many that nobody fetched")               \
  X(kLocalQps, local_qps, "queue pairs with local transfer by reference, both ways")                                  \
  X(kFetches, fetched_pkts, "packets whose data was fetched from the peer's memory")                                  \
  X(kFetchedBytes, fetched_bytes, "bytes fetched from the peer's memory")                                             \
  X(kFetchFaults, fetch_faults, "fetches of memory that the peer itself cannot read: answered by an error")           \
  X(kByReference, described_pkts, "packets sent with a descriptor in place of data")                                  \
  X(kMarkedPackets, np_ecn_marked_roce_packets, "packets received with the congestion mark of ECN")                   \
  X(kCnpSent, np_cnp_sent, "congestion notification packets sent")                                                    \
  X(kCnpHandled, rp_cnp_handled, "congestion notification packets received, and the rate was reduced")                \
  X(kCnpIgnored, rp_cnp_ignored, "congestion notification packets received without DCQCN")                            \
  X(kPaceWaits, pace_waits, "times sending waited for its rate")                                                      \
  X(kCreditStalls, credit_stalls, "times a queue pair waited for the receiver's credit")                              \
  X(kSocketOverflow, socket_overflow, "datagrams dropped because the socket's buffer was full")                       \
  X(kStrayPackets, stray_pkts, "packets of another slot's queue pairs")                                               \
  X(kXdpReceived, xdp_rcvd_pkts, "packets received by AF_XDP")                                                        \
  X(kXdpUnreadable, xdp_unreadable_pkts, "frames received by AF_XDP that are no RoCE packets")                        \
  X(kSleeperTook, sleeper_took, "messages taken by a program that they woke")                                         \
  X(kSleeperHelped, sleeper_helped, "times the progress thread took a message for a sleeping program")                \
  X(kSleeperLooksSaved, sleeper_looks_saved, "looks at an empty socket that a sleeping program left out")             \
  X(kSendBlocked, send_blocked, "batches that the system did not take at once")                                       \
  X(kPeerUnreachable, peer_unreachable, "ICMP errors of earlier packets, reported when sending; no loss")             \
  X(kLinkStateInquiriesSent, link_state_inquiries_sent, "link-state inquiries sent")                                  \
  X(kLinkStateInquiriesLimited, link_state_inquiries_limited,                                                         \
    "link-state inquiries not sent: too soon after the last")                                                         \
  X(kLinkStateInquiriesReceived, link_state_inquiries_received, "link-state inquiries that reached this host")        \
  X(kLinkStateFeedback, link_state_feedback_received, "link-state feedback received")                                 \
  X(kLinkStateUnasked, link_state_feedback_unasked, "link-state feedback that answers no open inquiry")               \
  X(kLinkStateRepeated, link_state_feedback_repeated, "link-state feedback of a hop that had answered")               \
  X(kLinksCongested, links_congested, "links that feedback reported as congested")                                    \
  X(kLinkStateReports, link_state_reports, "link-state answers handed to the controller")                             \
  X(kLinkStateReportsLost, link_state_reports_lost, "link-state answers for the controller that it did not fetch")    \
  X(kControlPackets, controller_requests, "requests of the controller to manage a destination")                       \
  X(kManagedAdded, managed_added, "destinations put on the managed list")                                             \
  X(kManagedRaised, managed_raised, "times a managed destination's rate was raised")                                  \
  X(kManagedReleased, managed_released, "managed destinations that got their full rate and left the list")            \
  X(kManagedFull, managed_full, "destinations not managed: too many")                                                 \
  X(kStoppedQueriesSent, stopped_queries_sent, "queries to silent peers' hosts: is the process stopped?")             \
  X(kStoppedReplies, stopped_replies, "replies that the peer's process is stopped: the retry count waited")           \
  X(kStoppedRepliesIgnored, stopped_replies_ignored,                                                                  \
    "replies about a stopped process without an open query, or too late")                                             \
  X(kQpsCreated, qps_created, "queue pairs created")                                                                  \
  X(kQpsDestroyed, qps_destroyed, "queue pairs destroyed")                                                            \
  X(kQpsRefused, qps_refused, "queue pairs refused: recovery.qps_max or device_state_bytes_max")                      \
  X(kStallsBegun, stalls_begun,                                                                                       \
    "times a queue pair began to stand still: nothing acknowledged for 100 ms and a timeout")                         \
  X(kStallsEnded, stalls_ended, "times a queue pair continued after it had stood still")                              \
  X(kEventsRecorded, events_recorded, "events recorded (brdma event)")                                                \
  X(kEventsSuppressed, events_suppressed, "events not recorded: too many in a short time")                            \
  X(kEventsOverwritten, events_overwritten, "events overwritten before brdmad had read them")                         \
  X(kSendFailed, send_failed_pkts, "packets that the system refused: no route, too long, ...")

enum class Counter : std::uint8_t {
#define BRDMA_X(name, text, help) name,
  BRDMA_COUNTERS(BRDMA_X)
#undef BRDMA_X
};

inline constexpr std::string_view kCounterNames[] = {
#define BRDMA_X(name, text, help) #text,
    BRDMA_COUNTERS(BRDMA_X)
#undef BRDMA_X
};
inline constexpr std::size_t kCounterCount = sizeof(kCounterNames) / sizeof(kCounterNames[0]);
inline constexpr std::string_view kCounterHelp[] = {
#define BRDMA_X(name, text, help) help,
    BRDMA_COUNTERS(BRDMA_X)
#undef BRDMA_X
};

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
