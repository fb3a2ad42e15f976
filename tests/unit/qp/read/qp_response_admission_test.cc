// qp/read/response_admission.h: how many responses may be on their way to us, and how many one READ request asks for.
#include <gtest/gtest.h>

#include "qp/read/response_admission.h"

namespace brdma::qp {
namespace {

constexpr std::uint32_t kMtu = 1024;

struct Reader {
  Reader() {
    identity.recovery = &recovery;
    identity.attributes.path_mtu = PathMtu::k1024;
    identity.attributes.max_rd_atomic = 4;
    identity.bitmap_agreed = true;
    identity.peer_window = 1000;
  }
  [[nodiscard]] bool admits(std::uint32_t bytes) { return responses.admits_read(bytes, identity, share); }
  [[nodiscard]] std::uint32_t at_once() const { return responses.request_packets(identity, share); }
  void request(std::uint32_t packets) { responses.on_requested(packets, packets * kMtu); }

  PeerCredit share{.packets = 256, .bytes = 200 * 1024};
  RecoveryConfig recovery;
  Identity identity;
  ResponseAdmission responses;
  Instant now = Instant{} + 1_s;
};

TEST(ResponseAdmission, CountsWhatIsAwaited) {
  Reader reader;
  reader.request(4);
  reader.responses.on_requested(1, 8);  // an atomic
  EXPECT_EQ(reader.responses.messages(), 2U);
  EXPECT_EQ(reader.responses.packets(), 5U);
  EXPECT_EQ(reader.responses.bytes(), 4 * kMtu + 8);
  for (int i = 0; i < 4; ++i) reader.responses.on_response(kMtu, true);
  reader.responses.on_message_done();
  EXPECT_EQ(reader.responses.messages(), 1U);
  EXPECT_EQ(reader.responses.packets(), 1U);
  EXPECT_EQ(reader.responses.bytes(), 8U);
  reader.responses.on_response(8, false);
  reader.responses.on_message_done();
  EXPECT_EQ(reader.responses.bytes(), 0U);
  EXPECT_EQ(reader.responses.on_round_trip({50_us}, reader.now), 4 * kMtu) << "the result of an atomic is no data";
  EXPECT_EQ(reader.responses.on_round_trip({50_us}, reader.now), 0U) << "once";
}

TEST(ResponseAdmission, BytesAreLimitedByTheSocketsShareAndByTheCongestionWindow) {
  Reader by_congestion;
  EXPECT_TRUE(by_congestion.admits(1'000'000)) << "the first one always";
  by_congestion.request(60);
  EXPECT_TRUE(by_congestion.admits(4 * kMtu)) << "64 KiB at first";
  EXPECT_FALSE(by_congestion.admits(4 * kMtu + 1));

  Reader by_bytes;
  by_bytes.share.bytes = 40 * kMtu;
  by_bytes.request(39);
  EXPECT_TRUE(by_bytes.admits(kMtu));
  EXPECT_FALSE(by_bytes.admits(kMtu + 1));

  Reader by_packets;
  by_packets.share.packets = 10;
  by_packets.request(9);
  EXPECT_TRUE(by_packets.admits(0)) << "a response without data is a packet";
  by_packets.request(1);
  EXPECT_FALSE(by_packets.admits(0));
}

// Plain RoCE has no congestion window for responses.
TEST(ResponseAdmission, GoBackNKnowsTheSocketAlone) {
  Reader reader;
  reader.recovery.mode = RecoveryMode::kGoBackN;
  reader.request(64);
  EXPECT_TRUE(reader.admits(kMtu));
}

TEST(ResponseAdmission, SeveralRequestsFillTheLimit) {
  Reader reader;
  EXPECT_EQ(reader.at_once(), 64U / 3) << "a third of 64 KiB each";
  reader.identity.attributes.max_rd_atomic = 1;
  EXPECT_EQ(reader.at_once(), 64U);
  reader.identity.peer_window = 80;
  EXPECT_EQ(reader.at_once(), 10U) << "an eighth of the peer's window";
  reader.identity.bitmap_agreed = false;
  EXPECT_EQ(reader.at_once(), 64U) << "a standard peer states none";
  reader.share.packets = 8;
  EXPECT_EQ(reader.at_once(), 8U);
  reader.share.bytes = 100;
  EXPECT_EQ(reader.at_once(), 1U) << "never none";
}

TEST(ResponseAdmission, ForgetsWhatIsAwaitedAndKeepsThePath) {
  Reader reader;
  reader.request(10);
  reader.responses.congestion().on_acknowledgement(64 * 1024, {50_us}, true, reader.now);
  const std::uint64_t learnt = reader.responses.congestion().bytes();
  reader.responses.forget_flight();
  EXPECT_EQ(reader.responses.messages(), 0U);
  EXPECT_EQ(reader.responses.packets(), 0U);
  EXPECT_EQ(reader.responses.bytes(), 0U);
  EXPECT_EQ(reader.responses.congestion().bytes(), learnt);
  reader.responses.reset();
  EXPECT_EQ(reader.responses.congestion().bytes(), 64U * 1024);
}

}  // namespace
}  // namespace brdma::qp
