// trace/drop_reason.h - reasons for dropping a packet. Each has a counter; accepted plus all drops equals received. One
// list: the enum, the counters' names and the tests that reach each reason are made from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace brdma {

// X(enumerator, counter name, what it counts)
#define BRDMA_DROP_REASONS(X)                                                                              \
  X(kTruncated, drop_truncated, "dropped: shorter than the headers its opcode needs")                      \
  X(kBadVersion, drop_bad_version, "dropped: BTH transport version or BXTH version not ours")              \
  X(kBadIcrc, drop_bad_icrc, "dropped: ICRC does not match")                                               \
  X(kBadPkey, drop_bad_pkey, "dropped: P_Key is not the default partition's")                              \
  X(kUnknownOpcode, drop_unknown_opcode, "dropped: no such opcode, or not this transport's")               \
  X(kUnknownQp, drop_unknown_qp, "dropped: no queue pair of that number")                                  \
  X(kWrongPeer, drop_wrong_peer, "dropped: source address is not the queue pair's peer")                   \
  X(kBadToken, drop_bad_token, "dropped: bitmap mode: not the token that we stated in CAPS")               \
  X(kStandardRefused, drop_standard_refused, "dropped: a standard packet, where bitmap mode is agreed")    \
  X(kQpState, drop_qp_state, "dropped: queue pair not in a state that receives")                           \
  X(kBadLength, drop_bad_length, "dropped: payload does not fit opcode, pad or path MTU")                  \
  X(kOutOfWindow, drop_out_of_window, "dropped: PSN neither in the window nor a recent duplicate")         \
  X(kDuplicate, drop_duplicate, "dropped: PSN received already")                                           \
  X(kOutOfOrder, drop_out_of_order, "dropped: go-back-N responder: PSN ahead of the expected")             \
  X(kHoldFull, drop_hold_full, "dropped: early packet, and no room to hold it")                            \
  X(kEscapeFull, drop_escape_full, "dropped: before its operation's start, escape channel full")           \
  X(kStateFull, drop_state_full, "dropped: early packet, and no room for records of it")                   \
  X(kEarlyNoReceive, drop_early_no_receive, "dropped: early SEND, and its receive is not posted yet")      \
  X(kEarlyInvalid, drop_early_invalid, "dropped: early packet with a fault: judged when in order")         \
  X(kReceiverNotReady, drop_receiver_not_ready, "dropped: no receive posted: answered with RNR NAK")       \
  X(kAfterError, drop_after_error, "dropped: follows a packet that was answered by a NAK")                 \
  X(kStaleResponse, drop_stale_response, "dropped: matches nothing outstanding")                           \
  X(kBadQkey, drop_bad_qkey, "dropped: UD: Q_Key is not the queue pair's")                                 \
  X(kNoReceive, drop_no_receive, "dropped: UD, UC: no receive posted")                                     \
  X(kBrokenMessage, drop_broken_message, "dropped: UC: part of a message that lacks a packet")             \
  X(kBadControl, drop_bad_control, "dropped: control packet with impossible contents")                     \
  X(kBadDescription, drop_bad_description, "dropped: descriptor of local data: impossible, or not agreed") \
  X(kFetchFailed, drop_fetch_failed, "dropped: the referenced memory no longer exists")                    \
  X(kFault, drop_fault, "dropped: our memory could not be read or written")

enum class DropReason : std::uint8_t {
#define BRDMA_X(name, text, help) name,
  BRDMA_DROP_REASONS(BRDMA_X)
#undef BRDMA_X
};

inline constexpr std::string_view kDropReasonNames[] = {
#define BRDMA_X(name, text, help) #text,
    BRDMA_DROP_REASONS(BRDMA_X)
#undef BRDMA_X
};
inline constexpr std::size_t kDropReasonCount = sizeof(kDropReasonNames) / sizeof(kDropReasonNames[0]);
inline constexpr std::string_view kDropReasonHelp[] = {
#define BRDMA_X(name, text, help) help,
    BRDMA_DROP_REASONS(BRDMA_X)
#undef BRDMA_X
};

}  // namespace brdma
