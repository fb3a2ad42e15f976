// Duplicate requests: answered again if the answer may be lost, never executed again.
#include "support/responder_script.h"
#include "wire/read_copy.h"

namespace brdma {
namespace {

using Script = test::ResponderScript;

class Duplicate : public testing::TestWithParam<bool> {
 protected:
  static test::ScriptOptions options() {
    test::ScriptOptions options;
    options.bitmap_agreed = GetParam();
    return options;
  }
  static std::string kind() { return GetParam() ? "bitmap " : ""; }
  static std::string index(unsigned i) { return GetParam() ? " index=" + std::to_string(i) : ""; }
  Script rx{options()};
};
INSTANTIATE_TEST_SUITE_P(Kinds, Duplicate, testing::Values(true, false),
                         [](const auto& kind) { return kind.param ? "Bitmap" : "Standard"; });

TEST_P(Duplicate, IsAcknowledgedWithTheNewestPsnEvenUnrequested) {
  for (std::uint32_t i = 0; i < 5; ++i) rx.at(0_us).gets(rx.data(1000 + i));
  rx.at(100_us).reports({});
  rx.gets(rx.data(1001)).sends({GetParam() ? "back base=1005 msn=5" : "ack 1004 msn=5"});
  rx.counts(Counter::kDuplicateRequest, 1).drops(DropReason::kDuplicate, 1);
}

TEST_P(Duplicate, DoesNotTouchMemoryOrReceivesAgain) {
  rx.posts_receive(100).posts_receive(100);
  const auto write = rx.write(1000, 0, 16);
  const auto send = rx.send(1001, 0, 8);
  rx.at(0_us).gets(write).gets(send).completes({"1 ok 8"});
  rx.region_bytes[0] = std::byte{0xAA};  // the application continues to change it
  rx.gets(write).gets(send).completes({});
  EXPECT_EQ(rx.region_bytes[0], std::byte{0xAA});
}

TEST_P(Duplicate, ReadIsServedAgainAlsoATailOfIt) {
  rx.at(0_us)
      .gets(rx.read(1000, 700))
      .reports({kind() + "read_first 1000 256B" + index(0), kind() + "read_middle 1001 256B" + index(1),
                kind() + "read_last 1002 188B" + index(2)});
  rx.gets(rx.again(rx.read(1000, 700)))
      .reports({kind() + "read_first 1000 256B" + index(0), kind() + "read_middle 1001 256B" + index(1),
                kind() + "read_last 1002 188B" + index(2)});
  auto tail = rx.again(rx.read(1001, 444, 256));
  tail.bxth.packet_index = 1;
  rx.gets(tail).reports({kind() + "read_first 1001 256B" + index(1), kind() + "read_last 1002 188B" + index(2)});
  EXPECT_EQ(rx.payloads[6], rx.payloads[1]);
  rx.counts(Counter::kReadRequests, 1).counts(Counter::kSentDataPackets, 3);
}

TEST_P(Duplicate, ReadOfOneMissingResponseInTheMiddle) {
  rx.at(0_us).gets(rx.read(1000, 1000)).gets(rx.data(1004));
  rx.at(0_us).reports({kind() + "read_first 1000 256B" + index(0), kind() + "read_middle 1001 256B" + index(1),
                       kind() + "read_middle 1002 256B" + index(2), kind() + "read_last 1003 232B" + index(3)});
  auto missing = rx.again(rx.read(1002, 256, 512));
  missing.bxth.packet_index = 2;
  rx.gets(missing).reports({kind() + "read_only 1002 256B" + index(2)});
}

TEST_P(Duplicate, ReadThatReachesBeyondTheBaseIsNoDuplicate) {
  rx.at(0_us).gets(rx.data(1000)).gets(rx.again(rx.read(1000, 300))).at(10_us).reports({});
  rx.drops(DropReason::kOutOfWindow, 1);
}

TEST_P(Duplicate, ReadKeyIsCheckedAgain) {
  rx.at(0_us).gets(rx.read(1000, 100)).reports({kind() + "read_only 1000 100B" + index(0)});
  const auto read = rx.again(rx.read(1000, 100));
  ASSERT_TRUE(rx.table().remove(rx.region).ok());
  rx.gets(read).reports({}).drops(DropReason::kEarlyInvalid, 1);
  EXPECT_FALSE(rx.failed);
}

TEST_P(Duplicate, ReadWithAPendingResponseIsNotServedTwice) {
  rx.at(0_us).gets(rx.read(1000, 300)).gets(rx.again(rx.read(1000, 300)));
  rx.reports({kind() + "read_first 1000 256B" + index(0), kind() + "read_last 1001 44B" + index(1)});
  rx.drops(DropReason::kDuplicate, 1);
}

// A copy that tests its path has its echo though other packets follow it in the burst; the next acknowledgement has the
// echo of the newest packet again. A peer with one path always gets the echo of the newest.
TEST(DuplicateOnPaths, ACopyThatAsksKeepsItsEcho) {
  for (const std::uint32_t paths : {1u, 4u}) {
    Script rx;
    rx.identity.receiving_paths = paths;
    const auto on = [](std::uint8_t path, std::uint64_t timestamp, wire::Packet packet) {
      packet.bxth.path = path;
      packet.bxth.timestamp = timestamp;
      return packet;
    };
    rx.at(0_us).gets(on(0, 1000, rx.read(1000, 8))).forget();
    rx.gets(on(2, 2000, Script::asking(Script::again(rx.read(1000, 8))))).gets(on(0, 3000, rx.read(1001, 8))).forget();
    EXPECT_EQ(rx.last_ack.base, Psn{1002});
    EXPECT_TRUE(rx.last_ack.echo_valid);
    EXPECT_EQ(rx.last_ack.path, paths == 1 ? 0 : 2);
    EXPECT_EQ(rx.last_ack.ts_echo, paths == 1 ? 3000u : 2000u);
    rx.gets(on(0, 4000, Script::asking(rx.data(1002)))).forget();
    EXPECT_EQ(rx.last_ack.path, 0);
    EXPECT_EQ(rx.last_ack.ts_echo, 4000u);
  }
}

// A copy, or an original that comes behind it: a READ re-request is marked as such (docs/reference/wire.md).
TEST_P(Duplicate, ReadThatDoesNotAskAgainIsNotServedInBitmapMode) {
  rx.at(0_us).gets(rx.read(1000, 100)).reports({kind() + "read_only 1000 100B" + index(0)});
  const std::vector<std::string> once_more{"read_only 1000 100B"};
  rx.gets(rx.read(1000, 100)).reports(GetParam() ? std::vector<std::string>{} : once_more);
  auto copy = rx.again(rx.read(1000, 100));
  wire::mark_copy(copy);
  rx.gets(copy).reports(GetParam() ? std::vector<std::string>{} : once_more);
}

TEST_P(Duplicate, AtomicIsAnsweredFromItsResult) {
  rx.at(0_us).gets(rx.fetch_add(1000, 0, 5)).gets(rx.fetch_add(1001, 0, 5));
  rx.reports({kind() + "atomic 1000 original=0", kind() + "atomic 1001 original=5"});
  rx.gets(rx.fetch_add(1000, 0, 5)).gets(rx.fetch_add(1001, 0, 5));
  rx.reports({kind() + "atomic 1000 original=0", kind() + "atomic 1001 original=5"});
  std::uint64_t value = 0;
  std::memcpy(&value, rx.region_bytes.data(), 8);
  EXPECT_EQ(value, 10u);
  rx.counts(Counter::kAtomicRequests, 2);
}

TEST_P(Duplicate, AtomicTooLongAgoIsNeitherExecutedNorAnswered) {
  for (std::uint32_t i = 0; i < 17; ++i) rx.at(0_us).gets(rx.fetch_add(1000 + i, 0, 1));
  std::vector<std::string> answers;
  for (std::uint32_t i = 0; i < 17; ++i) {
    answers.push_back(kind() + "atomic " + std::to_string(1000 + i) + " original=" + std::to_string(i));
  }
  rx.reports(answers);
  rx.gets(rx.fetch_add(1000, 0, 1)).reports({}).drops(DropReason::kDuplicate, 1);
  rx.gets(rx.fetch_add(1001, 0, 1)).reports({kind() + "atomic 1001 original=1"});  // the sixteenth from the end
  std::uint64_t value = 0;
  std::memcpy(&value, rx.region_bytes.data(), 8);
  EXPECT_EQ(value, 17u);
}

TEST_P(Duplicate, FloodOfReadsIsBounded) {
  rx.at(0_us).gets(rx.read(1000, 8)).reports({kind() + "read_only 1000 8B" + index(0)});
  rx.gets(rx.read(1001, 8)).reports({kind() + "read_only 1001 8B" + index(0)});
  for (int i = 0; i < 100; ++i) rx.gets(rx.fetch_add(1000, 0, 1)).gets(rx.again(rx.read(1000 + i % 2, 8)));
  rx.reports({kind() + "read_only 1000 8B" + index(0), kind() + "read_only 1001 8B" + index(0)});
}

TEST_P(Duplicate, NewRequestsBeyondTheDepthGetAnRnrNak) {
  // 64 + 2 * 4 + 16 responses are kept; a requester that sends more without waiting gets an RNR NAK.
  for (std::uint32_t i = 0; i < 100; ++i) rx.at(0_us).gets(rx.read(1000 + i, 8));
  EXPECT_FALSE(rx.failed);
  rx.counts(Counter::kSentRnr, 1).counts(Counter::kReadRequests, 88);
}

}  // namespace
}  // namespace brdma
