#include <gtest/gtest.h>

#include "trace/text.h"

namespace brdma::trace {
namespace {

TEST(TraceText, OneFormForEachEvent) {
  const std::pair<Event, const char*> cases[] = {
      {PacketSent{0xC7, Psn{1003}, 1096, true},
       "packet_sent opcode=bitmap_write_middle psn=1003 bytes=1096 retransmission"},
      {PacketSent{0x04, Psn{1}, 16, false}, "packet_sent opcode=send_only psn=1 bytes=16"},
      {PacketReceived{0xE1, Psn{7}, 60}, "packet_received opcode=bitmap_ack psn=7 bytes=60"},
      {PacketReceived{0xFF, Psn{7}, 60}, "packet_received opcode=0xff psn=7 bytes=60"},
      {PacketDropped{DropReason::kBadIcrc, 0x15, Psn{9}}, "packet_dropped reason=drop_bad_icrc opcode=0x15 psn=9"},
      {GapSeen{Psn{1003}, 1}, "gap_seen start=1003 length=1"},
      {GapPromoted{Psn{1003}, 1, 1}, "gap_promoted start=1003 length=1 cause=depth"},
      {GapPromoted{Psn{1003}, 1, 200}, "gap_promoted start=1003 length=1 cause=unknown"},
      {GapClosed{Psn{1003}, Psn{1016}}, "gap_closed start=1003 base=1016"},
      {FfmSent{Psn{1003}, 1, Psn{1012}, 1}, "ffm_sent start=1003 length=1 highest=1012 gaps=1"},
      {FfmReceived{Psn{1003}, 1, 2}, "ffm_received start=1003 length=1 gaps=2"},
      {EntryMoved{Psn{1003}, Entry::kSentUnacked, Entry::kRetransmitPending},
       "entry psn=1003 sent-unacked -> retransmit-pending"},
      {EntryMoved{Psn{1003}, Entry::kRetransmittedUnacked, Entry::kAcked},
       "entry psn=1003 retransmitted-unacked -> acked"},
      {AckSent{Psn{5}, Psn{9}, 0x1F}, "ack_sent base=5 highest=9 syndrome=0x1f"},
      {AckReceived{Psn{5}, Psn{9}, 0x60}, "ack_received base=5 highest=9 syndrome=0x60"},
      {BitmapModeAgreed{4096}, "bitmap_mode_agreed peer_window=4096"},
      {TimeoutFired{true, Psn{3}}, "timeout_fired kind=probe base=3"},
      {TimeoutFired{false, Psn{3}}, "timeout_fired kind=retransmit base=3"},
      {SendStalled{Psn{3}, Psn{9}}, "send_stalled base=3 arrived_end=9"},
      {CompletionMade{42, 12, false}, "completion queue=send wr_id=42 status=12"},
      {CompletionMade{42, 0, true}, "completion queue=receive wr_id=42 status=0"},
      {QpStateChanged{2, 3}, "qp_state rtr -> rts"},
      {OperationRegistered{7, 8}, "operation_registered operation=7 packets=8"},
      {OperationCompleted{7, true}, "operation_completed operation=7 last"},
      {PathDown{2}, "path_down path=2"},
      {PathUp{2}, "path_up path=2"},
  };
  std::size_t kinds = 0;
  std::size_t last = std::variant_npos;
  for (const auto& [event, expected] : cases) {
    EXPECT_EQ(text(event), expected);
    kinds += event.index() != last ? 1 : 0;
    last = event.index();
  }
  EXPECT_EQ(kinds, std::variant_size_v<Event>) << "an event without a case here";
}

TEST(TraceText, ALineHasTimeAndQueuePair) {
  EXPECT_EQ(line(Instant::from_ns(12'001), 7, GapSeen{Psn{1003}, 1}), "12.001us qp=7 gap_seen start=1003 length=1");
  EXPECT_EQ(line(Instant::from_ns(-20), 7, GapSeen{Psn{1}, 2}), "-0.020us qp=7 gap_seen start=1 length=2");
}

}  // namespace
}  // namespace brdma::trace
