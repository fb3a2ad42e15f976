// brdma perf: contents of messages, mixes of flow sizes, the plan and the frames that a peer sends.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "values/frame.h"
#include "values/message.h"
#include "values/plan.h"
#include "values/samples.h"

namespace brdma::perf {
namespace {

std::vector<std::byte> sealed(std::size_t size, std::uint64_t number, bool with_crc) {
  std::vector<std::byte> message(size);
  fill_pattern(message, 1);
  seal(message, number, with_crc);
  return message;
}

TEST(PerfMessage, IsWholeAtAnySize) {
  for (const std::size_t size : {1, 7, 8, 12, 15, 16, 17, 4095, 4096, 4097, 4103, 4112, 65'536, 100'001}) {
    for (const bool with_crc : {false, true}) {
      const auto message = sealed(size, 77, with_crc);
      EXPECT_EQ(check(message, 77, true, with_crc).flaw, Flaw::kNone) << size;
      EXPECT_EQ(check(message, 78, true, with_crc).flaw, Flaw::kNumber) << size;
    }
  }
}

TEST(PerfMessage, EveryChangedByteIsFoundByCrc) {
  for (std::size_t at = 0; at < 5000; ++at) {
    auto message = sealed(5000, 3, true);
    message[at] ^= std::byte{1};
    EXPECT_NE(check(message, 3, true, true).flaw, Flaw::kNone) << at;
  }
}

TEST(PerfMessage, APageOfAnotherMessageIsFoundWithoutCrc) {
  auto message = sealed(3 * kPageBytes, 3, false);
  const auto other = sealed(3 * kPageBytes, 2, false);
  std::copy(other.begin() + kPageBytes, other.begin() + 2 * kPageBytes, message.begin() + kPageBytes);
  EXPECT_EQ(check(message, 3, true, false).flaw, Flaw::kPage);
}

TEST(PerfMessage, OnlyCrcsThatAreThereCount) {
  EXPECT_TRUE(check(sealed(100, 3, true), 3, true, true).by_crc);
  EXPECT_EQ(check(sealed(100, 3, false), 3, true, true).flaw, Flaw::kCrc);
  EXPECT_FALSE(check(sealed(15, 3, true), 3, true, true).by_crc);
  EXPECT_FALSE(check(sealed(100, 3, true), 3, true, false).by_crc);
}

TEST(PerfMessage, APartIsCheckedUpToItsLastWholePage) {
  auto message = sealed(2 * kPageBytes, 3, true);
  EXPECT_EQ(check(std::span{message}.first(kPageBytes + 100), 3, false, true).flaw, Flaw::kNone);
  message[50] ^= std::byte{1};
  EXPECT_EQ(check(std::span{message}.first(kPageBytes + 100), 3, false, true).flaw, Flaw::kCrc);
}

TEST(PerfSizeMix, DrawsWhatTheFileSays) {
  const SizeMix mix =
      SizeMix::parse("# sampling: step: exactly\nbytes,cumulative_probability\n10,0.25\n1000,1\n", "mix");
  EXPECT_EQ(mix.mean(), 752.5);
  Random random{1};
  int small = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t bytes = mix.draw(random);
    ASSERT_TRUE(bytes == 10 || bytes == 1000);
    small += bytes == 10 ? 1 : 0;
  }
  EXPECT_NEAR(small, 2500, 200);
}

TEST(PerfSizeMix, InterpolatesBetweenRows) {
  const SizeMix mix = SizeMix::parse("0,0\n1000,1\n", "mix");
  EXPECT_EQ(mix.mean(), 500);
  Random random{1};
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) sum += static_cast<double>(mix.draw(random));
  EXPECT_NEAR(sum / 10'000, 500, 15);
}

TEST(PerfSizeMix, NamesTheLineThatIsWrong) {
  struct Case {
    const char *text, *what;
  };
  for (const Case& each : std::vector<Case>{{"10,0.5\n", "must be 1"},
                                            {"", "must be 1"},
                                            {"10,0.5\n5,1\n", "line 2: rows must not decrease"},
                                            {"10,0.5\n20,0.4\n30,1\n", "line 2: rows must not decrease"},
                                            {"10;1\n", "line 1: expected bytes"},
                                            {"ten,1\n", "line 1: expected a number"},
                                            {"-1,1\n", "line 1: expected a number"},
                                            {"10,nan\n", "line 1: expected a probability"},
                                            {"10,1.5\n", "line 1: expected a probability"},
                                            {"2199023255552,1\n", "line 1: expected a number"}}) {
    try {
      (void)SizeMix::parse(each.text, "mix");
      ADD_FAILURE() << each.text;
    } catch (const Misuse& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(each.what)) << each.text;
    }
  }
}

TEST(PerfPlan, ComesBackFromJson) {
  Plan plan;
  plan.operation = Operation::kRead;
  plan.mode = Mode::kFct;
  plan.size = 4097;
  plan.clients = 3;
  plan.sleeping = true;
  plan.seed = ~std::uint64_t{0};
  EXPECT_EQ(to_json(plan_from_json(to_json(plan))), to_json(plan));
}

TEST(PerfPlan, OfAPeerIsRefusedOutOfRange) {
  const auto refused = [](const char* key, const Json& value) {
    Json json = to_json(Plan{});
    json[key] = value;
    EXPECT_THROW((void)plan_from_json(json), RunError) << key << " " << value;
    json.erase(key);
    EXPECT_THROW((void)plan_from_json(json), RunError) << key;
  };
  for (const char* const key : {"size", "depth", "queue_pairs", "clients", "crc_every"}) {
    refused(key, 0);
    refused(key, -1);
    refused(key, std::uint64_t{1} << 40);
    refused(key, "8");
  }
  refused("load", 257);
  refused("version", 2);
  refused("operation", "erase");
  refused("mode", 3);
  refused("sleeping", 1);
  refused("rdma_cm", nullptr);
  refused("seed", -1);
  EXPECT_THROW((void)plan_from_json(Json::array()), RunError);
}

TEST(PerfPlan, IsRefusedWhereItNeedsTooMuchMemory) {
  Plan plan;
  plan.size = 1u << 20;
  plan.depth = 1024;
  EXPECT_NO_THROW(require_valid(plan));
  plan.queue_pairs = 2;
  EXPECT_THROW(require_valid(plan), RunError);
}

TEST(PerfPlan, LanesDoNotOverlap) {
  Plan plan;
  plan.mode = Mode::kLatency;
  plan.size = 9;
  plan.load = 2;
  const std::vector<Lane> lanes = lanes_of(plan);
  ASSERT_EQ(lanes.size(), 3u);
  EXPECT_EQ(lanes[0].role, Role::kPingPong);
  for (std::size_t i = 1; i < lanes.size(); ++i) {
    EXPECT_EQ(lanes[i].role, Role::kStream);
    EXPECT_GE(lanes[i].offset, lanes[i - 1].offset + lanes[i - 1].slots * lanes[i - 1].slot_bytes);
  }
  EXPECT_GE(memory_of(lanes), lanes[2].offset + lanes[2].slots * lanes[2].slot_bytes);
}

TEST(PerfFrame, ComesInAnyPortions) {
  const std::string bytes = frame_of({{"a", 1}}) + frame_of({{"b", 2}});
  FrameReader reader;
  std::vector<Json> got;
  for (const char byte : bytes) {
    reader.push({&byte, 1});
    while (auto json = reader.next()) got.push_back(*json);
  }
  EXPECT_EQ(got, (std::vector<Json>{{{"a", 1}}, {{"b", 2}}}));
}

TEST(PerfFrame, OfAPeerIsBounded) {
  using namespace std::string_literals;
  for (const std::string& bytes : {"\0\1\0\1"s, "GET / HTTP/1.1\r\n\r\n"s, "\0\0\0\2[]"s, "\0\0\0\1x"s, "\0\0\0\0"s}) {
    FrameReader reader;
    reader.push(bytes);
    EXPECT_THROW((void)reader.next(), RunError) << bytes;
  }
  FrameReader reader;
  reader.push(std::string(FrameReader::kWaitingMax, '\0'));
  EXPECT_THROW(reader.push("x"), RunError);
  EXPECT_THROW((void)frame_of({{"a", std::string(kFrameMax, 'a')}}), RunError);
  // Nesting costs no stack.
  FrameReader deep;
  const std::string nested = "{\"a\":" + std::string(60'000, '[');
  deep.push("\0\0"s + static_cast<char>(nested.size() >> 8) + static_cast<char>(nested.size() & 0xFF) + nested);
  EXPECT_THROW((void)deep.next(), RunError);
}

}  // namespace
}  // namespace brdma::perf
