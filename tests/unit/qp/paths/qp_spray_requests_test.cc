// qp/paths/spray_requests.h: the path of a batch of requests, and the packet whose copy probes a path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "qp/paths/spray_requests.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

using testing::IsEmpty;

struct Spraying2 : test::SendingParts {
  Spraying2() { identity.sending_paths = 2; }
  std::vector<wire::Packet> probe(std::uint8_t path) {
    return batch_of([&](TransmitBatch& batch) { return sprayed().poll_probe(batch, now); }, path);
  }
};

TEST(SprayedRequests, PacketsThatLeftBeforeTheAgreementCount) {
  Spraying2 parts;
  parts.send(3);
  parts.lose(2);
  parts.acknowledge(0);
  SendPaths& paths = parts.sprayed().begun();
  EXPECT_EQ(paths.count(), 2U);
  EXPECT_EQ(paths.status(0).in_flight, 1U);
  EXPECT_EQ(&paths, &parts.sprayed().begun());
}

TEST(SprayedRequests, NewPacketsTakeThePathsInTurnReadRequestsOne) {
  Spraying2 parts;
  const std::uint8_t first = parts.sprayed().next_path(false, parts.now);
  parts.paths->batch_left(first);
  EXPECT_NE(parts.sprayed().next_path(false, parts.now), first);
  const std::uint8_t ordered = parts.sprayed().next_path(true, parts.now);
  parts.paths->batch_left(ordered);
  EXPECT_EQ(parts.sprayed().next_path(true, parts.now), ordered);
}

TEST(SprayedRequests, ARetransmissionAvoidsThePathThatLostIt) {
  for (const std::uint8_t path : {std::uint8_t{0}, std::uint8_t{1}}) {
    Spraying2 parts;
    (void)parts.sprayed().begun();
    parts.write(1, path);
    parts.lose(0);
    EXPECT_NE(parts.sprayed().next_path(false, parts.now), path);
    EXPECT_NE(parts.sprayed().next_path(true, parts.now), path) << "whatever comes behind it";
  }
}

// --- probes ---

TEST(SprayedRequests, TheNewestPacketProbes) {
  Spraying2 parts;
  parts.send(3);
  (void)parts.sprayed().begun();
  const auto packets = parts.probe(1);
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].bth.psn, Psn{1002});
  EXPECT_EQ(packets[0].bxth.path, 1U);
  EXPECT_TRUE(packets[0].bxth.retransmitted);
  EXPECT_TRUE(packets[0].bth.ack_request);
  EXPECT_TRUE(parts.carries(packets[0], 2 * parts.kMtu));
  EXPECT_EQ(parts.count(Counter::kPathProbed), 1U);
  EXPECT_EQ(parts.scoreboard.entry(2).transmissions, 1U) << "it serves the path alone";
}

TEST(SprayedRequests, NoRequestForManyResponsesProbes) {
  Spraying2 parts;
  parts.ask(17);
  (void)parts.sprayed().begun();
  EXPECT_THAT(parts.probe(1), IsEmpty());
  EXPECT_FALSE(parts.added);
  // Its last executed response is re-requested instead.
  parts.scoreboard.set_cumulative(17, parts.now);
  const auto packets = parts.probe(1);
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].bth.psn, Psn{1016});
  EXPECT_EQ(packets[0].reth.length, parts.kMtu);
}

TEST(SprayedRequests, ARequestForAFewProbesAsItIs) {
  Spraying2 parts;
  parts.ask(4);
  (void)parts.sprayed().begun();
  const auto packets = parts.probe(1);
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].bth.psn, Psn{1000});
  EXPECT_EQ(packets[0].reth.length, 4 * parts.kMtu);
}

TEST(SprayedRequests, WithNothingInFlightTheNextPacketTakesThatPath) {
  Spraying2 parts;
  (void)parts.sprayed().begun();
  EXPECT_THAT(parts.probe(1), IsEmpty());
  EXPECT_FALSE(parts.sprayed().probe_due(parts.now));
}

TEST(SprayedRequests, MemoryThatIsGoneIsReportedByTheRegularTransmission) {
  Spraying2 parts;
  parts.send(1);
  (void)parts.sprayed().begun();
  parts.remove_region();
  EXPECT_THAT(parts.probe(1), IsEmpty());
  EXPECT_FALSE(parts.fault.is_set());
}

}  // namespace
}  // namespace brdma::qp
