// tests spec 1: worked example. PSN 1000-1015 are sent, 1003 is lost once. 1012 makes the depth 9: more than 8.
#include <gtest/gtest.h>

#include "support/engine_pair.h"

namespace brdma::test {
namespace {

TEST(BitmapRecoveryReplay, LostPsnIsNamedResentAndAcknowledged) {
  EnginePair pair{{.seed = 1, .start_psn = Psn{1000}, .one_way_delay = 5_us}};
  pair.agree();
  pair.drop_copy(Psn{1003}, /*copy=*/1);
  pair.post_packets(16);
  ASSERT_TRUE(pair.run_until_idle(/*at_most=*/1000_us)) << pair.full_trace();
  EXPECT_EQ(pair.story({"gap", "ffm", "entry:1003"}), R"(
rx gap_seen start=1003 length=1
rx gap_promoted start=1003 length=1 cause=depth
rx ffm_sent start=1003 length=1 highest=1012 gaps=1
tx ffm_received start=1003 length=1 gaps=1
tx entry psn=1003 sent-unacked -> retransmit-pending
tx entry psn=1003 retransmit-pending -> retransmitted-unacked
rx gap_closed start=1003 base=1016
tx entry psn=1003 retransmitted-unacked -> acked
)") << pair.full_trace();
  EXPECT_TRUE(pair.same_bytes(16 * 1024));
  EXPECT_EQ(pair.completions(pair.tx()).size(), 1u);
  EXPECT_EQ(pair.count(pair.tx(), Counter::kRetransmittedFfm), 1u) << "that packet and no other";
  EXPECT_EQ(pair.count(pair.tx(), Counter::kRetransmittedTimeout), 0u);
  EXPECT_EQ(pair.count(pair.tx(), Counter::kRetransmittedProbe), 0u);
  EXPECT_EQ(pair.count(pair.rx(), Counter::kDuplicateRequest), 0u);
}

}  // namespace
}  // namespace brdma::test
