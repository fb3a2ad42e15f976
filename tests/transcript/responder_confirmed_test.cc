// ATOMIC WRITE and FLUSH at the responder: executed in order, answered by a READ response without data; a duplicate is
// answered and not executed again.
#include "support/responder_script.h"

namespace brdma {
namespace {

using test::kScriptVa;
using wire::RcOp;
using Script = test::ResponderScript;

constexpr std::uint32_t kAccess = kAccessRemoteWrite | kAccessFlushGlobal;

class Confirmed : public testing::TestWithParam<bool> {
 protected:
  static test::ScriptOptions options(std::uint32_t access = kAccess) {
    return {.bitmap_agreed = GetParam(), .access = access};
  }
  static std::string answer(std::uint32_t psn) {
    const std::string text = "read_only " + std::to_string(psn) + " 0B";
    return GetParam() ? "bitmap " + text + " index=0" : text;
  }
  static wire::Packet atomic_write(Script& rx, std::uint32_t psn, std::uint64_t offset = 0, std::size_t bytes = 8) {
    auto p = rx.packet(RcOp::kAtomicWrite, psn, bytes);
    p.reth = {kScriptVa + offset, p.reth.rkey, 8};
    return p;
  }
  static wire::Packet flush(Script& rx, std::uint32_t psn, wire::Feth feth = {wire::kFlushGlobal, wire::kFlushRange},
                            std::uint32_t length = 100) {
    auto p = rx.packet(RcOp::kFlush, psn);
    p.reth = {kScriptVa, p.reth.rkey, length};
    p.feth = feth;
    return p;
  }
  template <class Make>
  static void expect_refused(Make make, const std::string& nak, std::uint32_t access = kAccess) {
    Script rx{options(access)};
    const test::Bytes before = rx.region_bytes;
    rx.at(0_us).gets(make(rx));
    rx.sends({GetParam() ? "b" + nak + " base=1000 msn=0" : nak + " 1000 msn=0"});
    EXPECT_TRUE(rx.failed);
    EXPECT_EQ(rx.region_bytes, before);
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, Confirmed, testing::Values(true, false),
                         [](const auto& kind) { return kind.param ? "Bitmap" : "Standard"; });

TEST_P(Confirmed, AnAnswerEachInOrder) {
  Script rx{options()};
  rx.at(0_us).gets(rx.data(1000)).gets(atomic_write(rx, 1001, 64)).gets(flush(rx, 1002));
  rx.reports({answer(1001), answer(1002)});
  EXPECT_TRUE(rx.holds(64, 1001, 8));
  rx.counts(Counter::kAtomicWriteRequests, 1).counts(Counter::kFlushRequests, 1);
}

TEST_P(Confirmed, ADuplicateIsAnsweredAndNotDoneAgain) {
  Script rx{options()};
  const auto write = atomic_write(rx, 1000);
  rx.at(0_us).gets(write).gets(flush(rx, 1001)).reports({answer(1000), answer(1001)});
  rx.region_bytes[0] = std::byte{0xAA};  // the application continues to change it
  rx.gets(write).gets(flush(rx, 1001)).reports({answer(1000), answer(1001)});
  EXPECT_EQ(rx.region_bytes[0], std::byte{0xAA});
  rx.gets(write).gets(write).reports({answer(1000)});  // one response is in flight
  rx.counts(Counter::kAtomicWriteRequests, 1).counts(Counter::kFlushRequests, 1).drops(DropReason::kDuplicate, 1);
}

TEST_P(Confirmed, ComingEarlyTheyWaitForTheirTurn) {
  Script rx{options()};
  rx.at(0_us).gets(atomic_write(rx, 1001, 8)).gets(flush(rx, 1002)).reports({});
  EXPECT_FALSE(rx.holds(8, 1001, 8));
  rx.gets(rx.write(1000, 0, 16)).reports({answer(1001), answer(1002)});
  EXPECT_TRUE(rx.holds(0, 1000, 8) && rx.holds(8, 1001, 8));
  rx.counts(Counter::kHeldPackets, 2);
}

TEST_P(Confirmed, TooManyAtATimeAreNotReady) {
  Script rx{options()};
  for (std::uint32_t i = 0; i < 200; ++i) rx.at(0_us).gets(flush(rx, 1000 + i));
  rx.counts(Counter::kSentRnr, 1);
  EXPECT_FALSE(rx.failed);
}

TEST_P(Confirmed, WhatIsNotAllowed) {
  const std::string invalid = "nak_invalid", access = "nak_access";
  expect_refused([](Script& rx) { return atomic_write(rx, 1000, 0, 4); }, invalid);
  expect_refused([](Script& rx) { return atomic_write(rx, 1000, 0, 16); }, invalid);
  expect_refused([](Script& rx) { return atomic_write(rx, 1000, 4); }, invalid);
  const auto long_write = [](Script& rx) {
    auto p = atomic_write(rx, 1000);
    p.reth.length = 16;
    return p;
  };
  expect_refused(long_write, invalid);
  expect_refused([](Script& rx) { return atomic_write(rx, 1000); }, invalid, kAccessFlushGlobal);
  expect_refused([](Script& rx) { return atomic_write(rx, 1000, test::kScriptRegion); }, access);

  expect_refused([](Script& rx) { return flush(rx, 1000); }, invalid, kAccessRemoteWrite);
  expect_refused([](Script& rx) { return flush(rx, 1000, {0, 0}); }, invalid);
  expect_refused([](Script& rx) { return flush(rx, 1000, {8, 0}); }, invalid);
  expect_refused([](Script& rx) { return flush(rx, 1000, {wire::kFlushGlobal, 2}); }, invalid);
  expect_refused([](Script& rx) { return flush(rx, 1000, {wire::kFlushPersistent, 0}); }, invalid);
  const auto beyond = static_cast<std::uint32_t>(test::kScriptRegion + 1);
  expect_refused([&](Script& rx) { return flush(rx, 1000, {wire::kFlushGlobal, 0}, beyond); }, access);
  const auto of_nothing = [](Script& rx) {
    auto p = flush(rx, 1000, {wire::kFlushGlobal, wire::kFlushRegion});
    p.reth.rkey ^= 1;
    return p;
  };
  expect_refused(of_nothing, access);
}

// A WRITE's MIDDLE packet was placed over the word before the word's own turn: it was posted later, and stays.
TEST(ConfirmedEarly, DoesNotOverwriteWhatCameAfterIt) {
  Script rx{{.access = kAccess}};
  rx.at(0_us).gets(rx.write(1002, 1, 600, 0));  // bytes 256 to 511
  auto word = rx.packet(RcOp::kAtomicWrite, 1000, 8);
  word.reth = {kScriptVa + 256, word.reth.rkey, 8};
  rx.gets(word);
  EXPECT_TRUE(rx.holds(256, 1002));
  rx.gets(rx.write(1001, 0, 600)).gets(rx.write(1003, 2, 600));
  EXPECT_TRUE(rx.holds(0, 1001) && rx.holds(256, 1002) && rx.holds(512, 1003, 88));
}

}  // namespace
}  // namespace brdma
