// A program's answers to the daemon: checked byte by byte, kept while a caller waits, forwarded as text.
#include <gtest/gtest.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "control/json_text.h"
#include "queries/json_scanner.h"
#include "queries/lease_link.h"

namespace brdma::daemon {
namespace {

using Json = nlohmann::ordered_json;

bool well_formed(std::string_view text) {
  JsonScanner scanner;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto result = scanner.take(text[i]);
    if (result == JsonScanner::Result::kBad) return false;
    if (result == JsonScanner::Result::kComplete) return i + 1 == text.size();
  }
  return false;
}

TEST(JsonScanner, TakesWhatTheLibraryWrites) {
  for (const char* text :
       {"{}", R"({"id":1})", R"({"rows":[{"a":-0.5e-7,"b":null},{"c":[true,false,""]}],"cut":false})",
        R"({ "a" : [ ] , "b" : { "c" : 0 } })", R"({"a":"\u00e9\ud83d\ude00\n\"\\"})",
        R"({"a":1e+10,"b":10,"c":-3})"}) {
    EXPECT_TRUE(well_formed(text)) << text;
  }
}

TEST(JsonScanner, RefusesWhatAReaderWouldStumbleOver) {
  for (const char* text : {"[]",
                           "{",
                           "}",
                           "{]",
                           R"({"a"})",
                           R"({"a":})",
                           R"({"a":1,})",
                           R"({,"a":1})",
                           R"({"a":[1,]})",
                           R"({"a":[,]})",
                           R"({"a":01})",
                           R"({"a":1.})",
                           R"({"a":.5})",
                           R"({"a":-})",
                           R"({"a":1e})",
                           R"({"a":1e999})",
                           R"({"a":+1})",
                           R"({"a":tru})",
                           R"({"a":truee})",
                           R"({"a":"\x"})",
                           R"({"a":"\ud800"})",
                           R"({"a":"\udc00"})",
                           R"({"a":"\ud800\ud800"})",
                           R"({"a":"\ud800x"})",
                           "{\"a\":\"\x1b[2J\"}",
                           "{\"a\":\"\xff\"}",
                           R"({"a":1}])",
                           R"({a:1})",
                           R"({"a":1 2})",
                           R"({"a":"b" "c"})"}) {
    EXPECT_FALSE(well_formed(text)) << text;
  }
  const std::string deep = R"({"a":)" + std::string(JsonScanner::kDepthMax - 1, '[');
  const std::string out = std::string(JsonScanner::kDepthMax - 1, ']') + "}";
  EXPECT_TRUE(well_formed(deep + out));
  EXPECT_FALSE(well_formed(deep + "[" + "]" + out));
  EXPECT_FALSE(well_formed(R"({"a":)" + std::string(50'000, '[') + std::string(50'000, ']') + "}"));
}

// Everything it accepts, brdma's parser accepts.
TEST(JsonScanner, TakesNothingThatTheParserRefuses) {
  const std::string begin = R"({"rows":[{"a":-1.5e3,"b":null,"c":"x\u0041\ud83d\ude00"},[true,false]],"id":12})";
  constexpr std::string_view kBytes = "{}[]:,\"\\0123456789+-.eEutrfalsn dD ";
  Random random{20, "json"};
  unsigned taken = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text = begin;
    for (std::uint64_t changes = 1 + random.below(3); changes > 0; --changes) {
      const std::size_t at = random.below(text.size());
      const char byte = kBytes[random.below(kBytes.size())];
      switch (random.below(3)) {
        case 0:
          text[at] = byte;
          break;
        case 1:
          text.insert(at, 1, byte);
          break;
        default:
          text.erase(at, 1);
      }
    }
    if (!well_formed(text)) continue;
    ++taken;
    ASSERT_TRUE(Json::accept(text)) << text;
  }
  EXPECT_GT(taken, 1000u);
}

TEST(JsonText, BoundsDepthAndSize) {
  EXPECT_TRUE(control::parse_json(R"({"query":"version"})").is_object());
  EXPECT_FALSE(control::parse_json(std::string(50'000, '[')).is_object());
  EXPECT_FALSE(control::parse_json(R"({"a":)" + std::string(17, '[') + std::string(17, ']') + "}").is_object());
  EXPECT_FALSE(control::parse_json(R"({"a":[1,2,3]})", {.values_max = 4}).is_object());
  EXPECT_FALSE(control::parse_json(R"({"a":1})", {.bytes_max = 6}).is_object());
}

constexpr std::uint32_t kAlice = 1000, kOwn = 1;

class Link : public testing::Test {
 protected:
  std::uint64_t ask() {
    return link_.ask({{"do", "queue_pairs"}}, [this](std::optional<AnswerMembers> answer) {
      answer ? answers_.push_back(std::move(*answer)) : void(++ended_);
    });
  }
  static std::string with_id(std::uint64_t id, const std::string& members) {
    return "\n{" + members + R"("id":)" + std::to_string(id) + "}\n";
  }
  [[nodiscard]] int error() const {
    if (answers_.size() != 1) return -1;
    return Json::parse("{" + answers_[0] + "}")["error"]["errno"];
  }

  UserAccounts accounts_{Quotas{}, kOwn};
  std::string written_;
  int write_error_ = 0;
  LeaseLink link_{7,
                  [this](std::string_view text) {
                    if (write_error_ == 0) written_.append(text);
                    return write_error_;
                  },
                  BytesFor{accounts_, kAlice}};
  std::vector<AnswerMembers> answers_;
  int ended_ = 0;
};

TEST_F(Link, HandsOnWhatIsAnsweredHoweverItIsCut) {
  const std::string answer = with_id(ask(), R"("rows":[{"lqpn":5}],"cut":false,)");
  for (const char byte : answer) link_.take({&byte, 1});
  EXPECT_EQ(answers_, std::vector<std::string>{R"("rows":[{"lqpn":5}],"cut":false)"});
}

// A program could otherwise pass itself off as another.
TEST_F(Link, TheLeasesMembersAreNotTheProgramsToSay) {
  for (const char* forged : {R"("pid":1,)", R"("comm":"sshd","uid":0,"rows":[],)", R"("slot":3, "lease_id":4,)"}) {
    answers_.clear();
    link_.take(with_id(ask(), forged));
    ASSERT_EQ(answers_.size(), 1u);
    const Json said = Json::parse("{" + answers_[0] + "}");
    for (const char* member : {"pid", "comm", "uid", "slot", "lease_id", "id"}) EXPECT_FALSE(said.contains(member));
  }
  answers_.clear();
  link_.take(with_id(ask(), R"("\u0070id":1,)"));
  EXPECT_EQ(error(), EPROTO);
}

TEST_F(Link, AMalformedAnswerIsSaidAtOnceAndTheNextOneIsTaken) {
  ask();
  link_.take(
      "\n"
      R"({"id":1,"rows":[)" +
      std::string(50'000, '['));
  EXPECT_EQ(error(), EPROTO);
  link_.take("]]]\n");
  answers_.clear();
  link_.take(with_id(ask(), R"("rows":[],)"));
  EXPECT_EQ(answers_, std::vector<std::string>{R"("rows":[])"});
}

TEST_F(Link, AnEndlessAnswerIsNotKept) {
  ask();
  const std::string part(1 << 20, ' ');
  link_.take("\n{");
  for (int i = 0; i < 100 && answers_.empty(); ++i) link_.take(part);
  EXPECT_EQ(error(), ENOBUFS);
  EXPECT_TRUE(accounts_.hold(kAlice, UserAccounts::kBytesMax)) << "all was given back";
}

TEST_F(Link, WhatNobodyAskedForIsNotKept) {
  link_.take("\n{\"id\":1,\"rows\":[");
  for (int i = 0; i < 20; ++i) link_.take(std::string(1 << 20, '1'));
  EXPECT_TRUE(accounts_.hold(kAlice, UserAccounts::kBytesMax));
  link_.take("\n");
  accounts_.release(kAlice, UserAccounts::kBytesMax);
  link_.take(with_id(ask(), ""));
  EXPECT_EQ(answers_, std::vector<std::string>{""});
}

TEST_F(Link, AProgramThatHasEndedIsNotOneThatDoesNotRead) {
  ask();
  link_.end();
  EXPECT_EQ(ended_, 1);
  for (const int gone : {EPIPE, ECONNRESET}) {
    write_error_ = gone;
    ask();
  }
  EXPECT_EQ(ended_, 3);
  EXPECT_TRUE(answers_.empty());
  write_error_ = EAGAIN;
  ask();
  EXPECT_EQ(error(), EAGAIN);
}

// A worker that takes over may get the second half of an answer first.
TEST_F(Link, HalfALineIsNoAnswerOfAnAdoptedLease) {
  LeaseLink adopted{8, [](std::string_view) { return 0; }, BytesFor{accounts_, kAlice}, true};
  std::optional<AnswerMembers> said;
  const auto id =
      adopted.ask({{"do", "objects"}}, [&said](std::optional<AnswerMembers> answer) { said = std::move(answer); });
  adopted.take("{\"lqpn\":3}],\"cut\":false,\"id\":4}\n");
  EXPECT_FALSE(said.has_value());
  adopted.take(with_id(id, R"("qp":1,)"));
  EXPECT_EQ(said, R"("qp":1)");
}

TEST(Accounts, WhoSpendsTooMuchWaitsAndTheOthersDoNot) {
  using namespace std::chrono_literals;
  UserAccounts accounts{Quotas{}, kOwn};
  const auto now = UserAccounts::Clock::now();
  accounts.spend(kAlice, 10ms, now);
  EXPECT_EQ(accounts.pause(kAlice, now), 0ms) << "a little at once is free";
  accounts.spend(kAlice, 30ms, now);
  EXPECT_EQ(accounts.pause(kAlice, now), 100ms);
  EXPECT_EQ(accounts.pause(kAlice, now + 100ms), 0ms);
  for (const std::uint32_t uid : {0u, kOwn}) {
    accounts.spend(uid, 10s, now);
    EXPECT_EQ(accounts.pause(uid, now), 0ms);
  }
  for (int i = 0; i < 1000; ++i) accounts.spend(kAlice, 100ms, now);
  EXPECT_EQ(accounts.pause(kAlice, now), 900ms) << "no longer, whatever it was";
  EXPECT_LT(accounts.pause(1001, now), 50ms) << "others do not wait for her";
}

TEST(Accounts, QuotasOfOneUserAndOfAll) {
  Quotas quotas;
  quotas.connections = 3;
  quotas.connections_of_all = 5;
  UserAccounts accounts{quotas, kOwn};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(accounts.admit(kAlice, true));
  EXPECT_FALSE(accounts.admit(kAlice, true));
  EXPECT_TRUE(accounts.admit(1001, true) && accounts.admit(1001, true));
  EXPECT_FALSE(accounts.admit(1002, true)) << "a part is for root and the daemon's user";
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(accounts.admit(0, true));
  accounts.leave(kAlice);
  EXPECT_TRUE(accounts.admit(1002, true));
  EXPECT_TRUE(accounts.hold(kAlice, UserAccounts::kBytesMax));
  EXPECT_FALSE(accounts.hold(kAlice, 1));
  EXPECT_TRUE(accounts.hold(1001, 1));
}

}  // namespace
}  // namespace brdma::daemon
