// Look-up of the queue pair behind a datagram service: replies, refusals, losses, repetitions and forgeries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cm/lookup.h"

namespace brdma::cm {
namespace {

constexpr std::uint64_t kService = 0x0111'1C06;
constexpr IpAddress kAddressA = IpAddress::v4(10, 0, 0, 1), kAddressB = IpAddress::v4(10, 0, 0, 2);
constexpr Endpoints kEndpointsA{kAddressA, kAddressB}, kEndpointsB{kAddressB, kAddressA};
using Kind = LookupEvent::Kind;

class Lookups : public testing::Test {
 protected:
  static Config config(std::uint16_t prefix) {
    Config config;
    config.id_prefix = prefix;
    config.seed = prefix;
    return config;
  }
  void SetUp() override { ASSERT_TRUE(b_.listen(kService, 2).ok()); }

  // Carries the side's messages, but for the first `lost` of them.
  void carry_from_a(unsigned lost = 0) {
    for (OutgoingMad out; a_box_.poll(out);) {
      const auto mad = wire::parse_cm(out.mad);
      if (lost > 0) {
        --lost;
      } else {
        b_.handle(kEndpointsB, mad->transaction, std::get<wire::CmSidrReq>(mad->message));
      }
    }
  }
  void carry_from_b(unsigned lost = 0) {
    for (OutgoingMad out; b_box_.poll(out);) {
      const auto mad = wire::parse_cm(out.mad);
      if (lost > 0) {
        --lost;
      } else {
        a_.handle(kEndpointsA, mad->transaction, std::get<wire::CmSidrRep>(mad->message));
      }
    }
  }
  CommId ask() {
    wire::CmSidrReq req;
    req.service_id = kService;
    req.private_data[215] = std::byte{7};
    return a_.ask(kEndpointsA, req, now_).value();
  }

  Instant now_ = Instant::from_ns(1'000'000'000);
  Outbox a_box_, b_box_;
  Lookup a_{config(0xA), a_box_}, b_{config(0xB), b_box_};
};

TEST_F(Lookups, AnswerAndItsLoss) {
  const CommId question = ask();
  carry_from_a(1);
  EXPECT_FALSE(b_.poll_event());
  now_ = now_ + 20_ms;
  a_.handle_timeout(now_);
  carry_from_a();
  const auto request = b_.poll_event();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->kind, Kind::kRequest);
  EXPECT_EQ(std::get<wire::CmSidrReq>(request->message).private_data[215], std::byte{7});
  ASSERT_TRUE(b_.answer(request->id, {.status = sidr_status::kValid, .qpn = 0x123, .qkey = 0x01234567}, now_).ok());
  EXPECT_EQ(b_.answer(request->id, {}, now_).error(), EINVAL) << "once";
  carry_from_b(1);
  now_ = now_ + 40_ms;
  a_.handle_timeout(now_);
  carry_from_a();  // repeated: the same answer, and no second request
  EXPECT_FALSE(b_.poll_event());
  carry_from_b();
  const auto reply = a_.poll_event();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->kind, Kind::kReply);
  EXPECT_EQ(reply->id, question);
  const auto& rep = std::get<wire::CmSidrRep>(reply->message);
  EXPECT_EQ(rep.qpn, 0x123u);
  EXPECT_EQ(rep.service_id, kService);
  EXPECT_FALSE(a_.next_timeout());
  b_.handle_timeout(now_ + 2_s);
  EXPECT_FALSE(b_.next_timeout()) << "forgotten after a while";
}

TEST_F(Lookups, NobodyListensThere) {
  b_.stop_listening(kService);
  ask();
  carry_from_a();
  carry_from_b();
  const auto reply = a_.poll_event();
  ASSERT_TRUE(reply);
  EXPECT_EQ(std::get<wire::CmSidrRep>(reply->message).status, sidr_status::kUnsupported);
}

TEST_F(Lookups, NobodyAnswers) {
  ask();
  while (const auto next = a_.next_timeout()) {
    now_ = *next;
    a_.handle_timeout(now_);
    carry_from_a(99);
  }
  const auto event = a_.poll_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, Kind::kUnreachable);
  EXPECT_EQ(a_.counters().resent, 11u);
}

TEST_F(Lookups, WaitingRequestsAreBounded) {
  for (int i = 0; i < 3; ++i) ask();
  carry_from_a();
  EXPECT_TRUE(b_.poll_event());
  const auto second = b_.poll_event();
  ASSERT_TRUE(second);
  EXPECT_FALSE(b_.poll_event());
  EXPECT_EQ(b_.counters().backlog_full, 1u);
  b_.destroy(second->id, now_);  // rejected, which makes room
  carry_from_b();
  const auto rejected = a_.poll_event();
  ASSERT_TRUE(rejected);
  EXPECT_EQ(std::get<wire::CmSidrRep>(rejected->message).status, sidr_status::kRejected);
  now_ = now_ + 20_ms;
  a_.handle_timeout(now_);
  carry_from_a();
  EXPECT_TRUE(b_.poll_event());
}

TEST_F(Lookups, RequestsThatWaitCountInTheBacklogOfALaterListener) {
  for (int i = 0; i < 2; ++i) ask();
  carry_from_a();
  const auto first = b_.poll_event();
  ASSERT_TRUE(first);
  ASSERT_TRUE(b_.poll_event());
  b_.stop_listening(kService);
  ASSERT_TRUE(b_.listen(kService, 2).ok());
  ask();
  carry_from_a();
  EXPECT_FALSE(b_.poll_event()) << "two wait already";
  ASSERT_TRUE(b_.answer(first->id, {.status = sidr_status::kValid}, now_).ok());
  for (int i = 0; i < 2; ++i) ask();
  carry_from_a();
  EXPECT_TRUE(b_.poll_event());
  EXPECT_FALSE(b_.poll_event());
}

TEST_F(Lookups, ForgedAnswersChangeNothing) {
  const CommId question = ask();
  OutgoingMad out;
  ASSERT_TRUE(a_box_.poll(out));
  const auto mad = wire::parse_cm(out.mad);
  const Endpoints stranger{kAddressA, IpAddress::v4(10, 0, 0, 3)};
  a_.handle(stranger, mad->transaction, wire::CmSidrRep{.request_id = question});
  a_.handle(kEndpointsA, mad->transaction + 1, wire::CmSidrRep{.request_id = question});
  a_.handle(kEndpointsA, mad->transaction, wire::CmSidrRep{.request_id = question + 1});
  EXPECT_FALSE(a_.poll_event());
  EXPECT_TRUE(a_.next_timeout());
  a_.destroy(question, now_);
  EXPECT_FALSE(a_.next_timeout());
}

}  // namespace
}  // namespace brdma::cm
