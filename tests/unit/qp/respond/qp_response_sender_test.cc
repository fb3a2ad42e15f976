// Responses in progress leave (qp/respond/response_sender.h): READ responses, results of atomics. Refusals:
// response_refusals.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "qp/state/local_path.h"
#include "serving_parts.h"
#include "trace/events.h"
#include "wire/local_reference.h"

namespace brdma::qp {
namespace {

using Kind = Response::Kind;
using testing::ElementsAre;
using testing::IsEmpty;
using wire::RcOp;

// --- READ responses ---

TEST(ResponseSender, AReadsDataIsCutAtTheMtu) {
  Serving responder;
  responder.push(responder.read(1003, 2 * kMtu + 100));
  const auto packets = responder.poll();
  ASSERT_EQ(packets.size(), 3U);
  constexpr RcOp kOps[] = {RcOp::kReadResponseFirst, RcOp::kReadResponseMiddle, RcOp::kReadResponseLast};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const wire::Packet& packet = packets[i];
    EXPECT_EQ(packet.op, kOps[i]);
    EXPECT_TRUE(packet.bitmap);
    EXPECT_EQ(packet.bth.dest_qpn, 18U);
    EXPECT_EQ(packet.bth.psn, Psn{1003 + i});
    EXPECT_EQ(packet.aeth.syndrome, wire::kSyndromeAck);
    EXPECT_EQ(packet.aeth.msn, Serving::kMsn);
    EXPECT_EQ(packet.bxth.source_qpn, 17U);
    EXPECT_EQ(packet.bxth.token, kToken);
    EXPECT_EQ(packet.bxth.msn, kMessage);
    EXPECT_EQ(packet.bxth.packet_index, i);
    EXPECT_EQ(packet.bxth.timestamp, wire::timestamp_of(responder.now));
    EXPECT_FALSE(packet.bxth.retransmitted);
    EXPECT_EQ(packet.payload.size(), i < 2 ? kMtu : 100U);
    EXPECT_TRUE(responder.is_data(packet.payload, i * kMtu));
  }
  EXPECT_TRUE(responder.added);
  EXPECT_TRUE(responder.resources.empty());
  EXPECT_EQ(responder.count(Counter::kSentDataPackets), 3U);
}

TEST(ResponseSender, AShortReadIsOnePacket) {
  for (const std::uint32_t bytes : {0u, 1u, 100u, kMtu}) {
    Serving responder;
    responder.push(responder.read(1003, bytes));
    const auto packets = responder.poll();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].op, RcOp::kReadResponseOnly);
    EXPECT_EQ(packets[0].payload.size(), bytes);
    EXPECT_TRUE(responder.is_data(packets[0].payload, 0));
  }
}

// Only MIDDLE packets of bitmap mode have an AETH, so that all full responses are of one size.
TEST(ResponseSender, AStandardReadsMiddlePacketsEndABatch) {
  Serving responder;
  responder.push(Serving::standard(responder.read(1003, 4 * kMtu)));
  const auto first = responder.poll();
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].op, RcOp::kReadResponseFirst);
  EXPECT_EQ(first[1].op, RcOp::kReadResponseMiddle);
  EXPECT_FALSE(first[0].bitmap || first[1].bitmap);
  EXPECT_TRUE(responder.is_data(first[1].payload, kMtu));
  const auto second = responder.poll();
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].op, RcOp::kReadResponseMiddle);
  EXPECT_TRUE(responder.is_data(second[0].payload, 2 * kMtu));
  EXPECT_EQ(responder.poll().at(0).op, RcOp::kReadResponseLast);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(ResponseSender, ALongReadTakesSeveralBatches) {
  for (const std::uint32_t mtu : {256u, kMtu}) {  // payloads of 256 bytes are copied
    Serving responder;
    responder.mtu = mtu;
    responder.push(responder.read(1000, 10 * mtu));
    std::uint32_t next = 0;
    for (const std::size_t packets_of_it : {8u, 2u}) {
      const auto packets = responder.poll();
      ASSERT_EQ(packets.size(), packets_of_it);
      for (const wire::Packet& packet : packets) {
        EXPECT_EQ(packet.bth.psn, Psn{1000 + next});
        EXPECT_EQ(packet.bxth.packet_index, next);
        EXPECT_EQ(packet.bxth.msn, kMessage);
        EXPECT_EQ(packet.op, next == 0   ? RcOp::kReadResponseFirst
                             : next == 9 ? RcOp::kReadResponseLast
                                         : RcOp::kReadResponseMiddle);
        EXPECT_EQ(packet.payload.size(), mtu);
        EXPECT_TRUE(responder.is_data(packet.payload, std::size_t{next} * mtu));
        ++next;
      }
    }
    EXPECT_EQ(responder.count(Counter::kSentDataPackets), 10U);
    EXPECT_TRUE(responder.resources.empty());
  }
}

TEST(ResponseSender, APacketThatDoesNotFitWaits) {
  Serving responder;
  responder.config.segments_max = 1;
  responder.push(responder.read(1003, 2 * kMtu));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1003U));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1004U));
  EXPECT_TRUE(responder.resources.empty());
}

TEST(ResponseSender, ResponsesLeaveInTheOrderOfTheirRequests) {
  Serving responder;
  responder.push(responder.read(1003, 2 * kMtu));
  responder.push(Serving::atomic(1005, 42));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1003U, 1004U, 1005U));
}

// --- sent again ---

TEST(ResponseSender, OneSentAgainIsMarkedAndNotCountedAsNew) {
  Serving responder;
  responder.push(Serving::again(responder.read(1003, 4 * kMtu)));
  const auto packets = responder.poll();
  ASSERT_EQ(packets.size(), 4U);
  for (const wire::Packet& packet : packets) EXPECT_TRUE(packet.bxth.retransmitted);
  EXPECT_EQ(responder.count(Counter::kSentDataPackets), 0U);
  EXPECT_EQ(responder.count(Counter::kRetransmittedEdn), 0U) << "no switch has reported it";
}

TEST(ResponseSender, EachPacketSentAgainIsLogged) {
  Serving responder;
  const Response read = responder.read(1003, 4 * kMtu);
  log_response(responder.log, responder.identity, read, /*is_read=*/true, kMtu, responder.now);
  responder.push(Serving::again(read, /*unasked=*/true));
  (void)responder.poll();
  EXPECT_EQ(responder.count(Counter::kRetransmittedEdn), 4U);
  for (std::uint32_t psn = 1003; psn < 1007; ++psn) {
    EXPECT_TRUE(responder.repeated().have_just_left(Psn{psn}, 1, responder.now)) << psn;
  }
}

TEST(ResponseSender, TheFirstTransmissionIsNoRepetition) {
  Serving responder;
  const Response read = responder.read(1003, kMtu);
  log_response(responder.log, responder.identity, read, /*is_read=*/true, kMtu, responder.now);
  responder.push(read);
  (void)responder.poll();
  const wire::Edn report{.first = Psn{1003}, .last = Psn{1003}, .responses = true};
  EXPECT_EQ(responder.repeated().on_report(report, responder.now), kMtu) << "it may leave again at once";
}

// --- by reference ---

struct Local : Serving {
  static constexpr std::uint64_t kKey = 0x1111;
  Local() {
    identity.local = &path;
    Response response = read(1003, 4 * kMtu);
    response.by_reference = true;
    push(response);
  }
  LocalPath path{environment.pools.beacons, LocalClaim{}, {kKey, 1}};
};

TEST(ResponseSender, AReferenceNamesTheData) {
  Local responder;
  const auto packets = responder.poll();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].op, RcOp::kReadResponseOnly);
  EXPECT_EQ(packets[0].bth.psn, Psn{1003});
  EXPECT_TRUE(packets[0].bxth.by_reference());
  const auto reference = wire::parse_reference(packets[0].payload);
  ASSERT_TRUE(reference.has_value());
  EXPECT_EQ(reference->key, Local::kKey);
  const LocalPiece whole{reinterpret_cast<std::uintptr_t>(responder.bytes.data()), 4 * kMtu};
  ASSERT_EQ(reference->pieces().size(), 1U);
  EXPECT_EQ(reference->pieces().front(), whole);
  EXPECT_EQ(responder.count(Counter::kByReference), 1U);
  EXPECT_EQ(responder.count(Counter::kSentDataPackets), 1U);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(ResponseSender, AReferenceThatDoesNotFitWaits) {
  Local responder;
  responder.config.segments_max = 1;
  const Response second = responder.resources.front();
  responder.push(second);
  EXPECT_EQ(responder.poll().size(), 1U);
  EXPECT_EQ(responder.resources.size(), 1U);
}

TEST(ResponseSender, AReferenceToMemoryThatIsGoneIsRefused) {
  Local responder;
  responder.remove_region();
  EXPECT_THAT(responder.poll_psns(), IsEmpty());
  responder.expect_refused(1003);
}

TEST(ResponseSender, WithoutAnAgreementAReferenceIsDropped) {
  Local responder;
  responder.identity.local = nullptr;
  EXPECT_THAT(responder.poll_psns(), IsEmpty());
  EXPECT_FALSE(responder.added);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(ResponseSender, AReferenceSentAgainIsLogged) {
  Local responder;
  responder.resources.front().replay = responder.resources.front().unasked = true;
  (void)responder.poll();
  EXPECT_EQ(responder.count(Counter::kSentDataPackets), 0U);
  EXPECT_EQ(responder.count(Counter::kRetransmittedEdn), 1U);
}

// --- atomics ---

TEST(ResponseSender, AnAtomicsResultLeaves) {
  Serving responder;
  responder.push(Serving::atomic(1005, 42));
  const auto packets = responder.poll();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].op, RcOp::kAtomicAcknowledge);
  EXPECT_TRUE(packets[0].bitmap);
  EXPECT_EQ(packets[0].bth.psn, Psn{1005});
  EXPECT_EQ(packets[0].aeth.msn, 5U);
  EXPECT_EQ(packets[0].bxth.msn, kMessage);
  EXPECT_EQ(packets[0].atomic_original, 42U);
  EXPECT_EQ(responder.count(Counter::kSentDataPackets), 1U);
}

TEST(ResponseSender, AnAtomicsResultThatDoesNotFitWaits) {
  Serving responder;
  responder.config.segments_max = 1;
  responder.push(Serving::atomic(1005, 42));
  responder.push(Serving::atomic(1006, 43));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1005U));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1006U));
}

TEST(ResponseSender, AnAtomicsResultSentAgainIsLogged) {
  Serving responder;
  responder.push(Serving::again(Serving::atomic(1005, 42), /*unasked=*/true));
  EXPECT_TRUE(responder.poll().at(0).bxth.retransmitted);
  EXPECT_EQ(responder.count(Counter::kSentDataPackets), 0U);
  EXPECT_EQ(responder.count(Counter::kRetransmittedEdn), 1U);
}

// --- several paths ---

TEST(ResponseSender, EachPacketNamesItsPathAndThoseBeforeItThere) {
  Serving responder;
  responder.make_paths();
  responder.push(responder.read(1000, 4 * kMtu));
  const auto packets = responder.poll(/*naks_too=*/true, /*path=*/1);
  ASSERT_EQ(packets.size(), 4U);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(packets[i].bxth.path, 1);
    EXPECT_EQ(packets[i].bxth.before.distance, i == 0 ? 0 : 1);
    EXPECT_EQ(packets[i].bxth.before.run, std::max(i, 1u));
  }
}

TEST(ResponseSender, ABatchThatHasLeftIsNoted) {
  Serving responder;
  responder.make_paths();
  responder.push(responder.read(1000, kMtu));
  EXPECT_EQ(responder.paths->choose({}, std::nullopt, responder.now), 0);
  (void)responder.poll();
  EXPECT_EQ(responder.paths->choose({}, std::nullopt, responder.now), 1) << "the other path's turn";
  responder.push(Serving::nak(1009));
  (void)responder.poll(/*naks_too=*/true, /*path=*/1);
  EXPECT_EQ(responder.paths->choose({}, std::nullopt, responder.now), 1) << "nothing has left";
}

TEST(ResponseSender, AStandardResponseIsNoneOfThePaths) {
  Serving responder;
  responder.make_paths();
  responder.push(Serving::standard(responder.read(1000, kMtu)));
  (void)responder.poll();
  responder.push(responder.read(1001, kMtu));
  EXPECT_EQ(responder.poll().at(0).bxth.before.distance, 0) << "nothing of bitmap mode was before it";
}

// Three batches in a row were lost on the second path alone: a probe is one packet.
TEST(ResponseSender, APathThatIsSetAsideGetsAProbe) {
  Serving responder;
  responder.make_paths();
  for (std::uint32_t batch = 0; batch < 6; ++batch) {
    responder.push(responder.read(990 + batch, kMtu));
    (void)responder.poll(/*naks_too=*/true, static_cast<std::uint8_t>(batch % 2));
  }
  for (const std::uint32_t psn : {991u, 993u, 995u}) responder.sprayed().on_rerequest(Psn{psn}, 1, responder.now);
  responder.push(responder.read(1000, 4 * kMtu));
  EXPECT_THAT(responder.poll_psns(/*naks_too=*/true, /*path=*/1), ElementsAre(1000U));
  EXPECT_THAT(responder.poll_psns(/*naks_too=*/true, /*path=*/0), ElementsAre(1001U, 1002U, 1003U));
}

// --- trace ---

class Watcher : public trace::Sink {
 public:
  void record(Instant /*when*/, std::uint32_t qpn, const trace::Event& event) override {
    EXPECT_EQ(qpn, 17U);
    if (const auto* const packet = std::get_if<trace::PacketSent>(&event)) seen.push_back(*packet);
  }
  std::vector<trace::PacketSent> seen;
};

TEST(ResponseSender, EachPacketIsTraced) {
  Serving responder;
  Watcher watcher;
  responder.environment.telemetry.sink = &watcher;
  responder.push(responder.read(1000, 4 * kMtu + 100));
  responder.push(Serving::again(Serving::atomic(1005, 42)));
  (void)responder.poll();
  (void)responder.poll();
  constexpr RcOp kOps[] = {RcOp::kReadResponseFirst,  RcOp::kReadResponseMiddle, RcOp::kReadResponseMiddle,
                           RcOp::kReadResponseMiddle, RcOp::kReadResponseLast,   RcOp::kAtomicAcknowledge};
  ASSERT_EQ(watcher.seen.size(), 6U);
  for (std::uint32_t i = 0; i < 6; ++i) {
    const trace::PacketSent& packet = watcher.seen[i];
    EXPECT_EQ(packet.opcode, wire::opcode_of(kOps[i], /*bitmap=*/true));
    EXPECT_EQ(packet.psn, Psn{1000 + i});
    EXPECT_EQ(packet.bytes, i < 4 ? kMtu : i == 4 ? 100U : 8U);
    EXPECT_EQ(packet.retransmission, i == 5);
  }
}

}  // namespace
}  // namespace brdma::qp
