// The switch treats packets between two hosts as configured, counts them, and is repeatable by its seed.

#include <gmock/gmock.h>

#include <cmath>

#include "lab_fixture.h"

namespace brdma::lab_test {
namespace {

using Network = LabTest;

// Five standard deviations around the expected count.
void expect_near_chance(long long count, long long of, double chance) {
  const double mean = static_cast<double>(of) * chance;
  EXPECT_NEAR(static_cast<double>(count), mean, 5 * std::sqrt(mean * (1 - chance)) + 1);
}

long long judged(const nlohmann::json& link) {
  return link.at("offered").get<long long>() - link.at("exempt").get<long long>();
}

TEST_P(Network, LossIsWhatWasAskedForAndTheSeedRepeatsIt) {
  std::vector<long long> lost;
  for (const char* seed : {"7", "7", "8"}) {
    up({"--loss", "2%", "--seed", seed});
    Values seen = send_stream({});
    const nlohmann::json link = link_to("h2");
    EXPECT_EQ(judged(link), 10'000);
    expect_near_chance(link.at("lost"), 10'000, 0.02);
    EXPECT_EQ(seen["received"] + link.at("lost").get<long long>(), 10'000);
    EXPECT_EQ(seen["late"] + seen["duplicates"] + seen["broken"] + seen["one_bit"], 0);
    lost.push_back(link.at("lost"));
    ASSERT_EQ(run(lab("down")).exit_code, 0);
    is_up_ = false;
  }
  EXPECT_EQ(lost[0], lost[1]);
  EXPECT_NE(lost[0], lost[2]);  // for these two seeds; it could be by chance for others
}

TEST_P(Network, BatchesAreJudgedPacketByPacket) {
  up({"--loss", "5%"});
  Values seen = send_stream({.count = 20'000, .size = 1'000, .batch = 40});
  const nlohmann::json link = link_to("h2");
  EXPECT_EQ(judged(link), 20'000);
  expect_near_chance(link.at("lost"), 20'000, 0.05);
  EXPECT_EQ(seen["received"] + link.at("lost").get<long long>(), 20'000);
  EXPECT_EQ(seen["late"] + seen["duplicates"] + seen["broken"] + seen["one_bit"], 0);
}

TEST_P(Network, BurstsLoseNeighbours) {
  up({"--burst-loss", "0.5%,10"});
  (void)send_stream({});
  const nlohmann::json link = link_to("h2");
  EXPECT_EQ(link.at("lost"), 0);
  EXPECT_NEAR(link.at("burst_lost").get<double>(), 10'000 * 0.048, 250);  // 50 bursts of 10 in 10 050 packets
}

TEST_P(Network, DuplicatesArriveTwice) {
  up({"--duplicate", "10%"});
  Values seen = send_stream({.count = 5'000});
  const nlohmann::json link = link_to("h2");
  expect_near_chance(link.at("duplicated"), 5'000, 0.1);
  EXPECT_EQ(seen["duplicates"], link.at("duplicated"));
  EXPECT_EQ(seen["received"], 5'000 + seen["duplicates"]);
}

TEST_P(Network, ReorderedPacketsComeLateAndNothingElseDoes) {
  up({"--reorder", "5%,4"});
  Values seen = send_stream({});
  const nlohmann::json link = link_to("h2");
  expect_near_chance(link.at("reordered"), 10'000, 0.05);
  EXPECT_EQ(seen["received"], 10'000);
  // A held packet may keep its place if the packets that overtake it are held too, or come late: a sender without a
  // core.
  EXPECT_LE(seen["late"], link.at("reordered"));
  EXPECT_GE(seen["late"], link.at("reordered").get<long long>() / 2);
}

TEST_P(Network, JitterKeepsOrder) {
  up({"--delay", "300us", "--jitter", "250us"});
  Values seen = send_stream({.batch = 5});
  EXPECT_EQ(seen["received"], 10'000);
  EXPECT_EQ(seen["late"], 0);
}

TEST_P(Network, CorruptionFlipsOneBitAndStillArrives) {
  up({"--corrupt", "100%"});
  for (const Stream& stream : {Stream{.count = 500}, Stream{.count = 2'000, .size = 1'000, .batch = 20},
                               Stream{.address = "fd77::2", .count = 500}}) {
    Values seen = send_stream(stream);
    EXPECT_EQ(seen["received"], stream.count);
    EXPECT_EQ(seen["one_bit"], seen["received"]);
    EXPECT_EQ(seen["broken"], 0);
  }
}

TEST_P(Network, OnlyRoceIsImpairedUnlessAllIsAsked) {
  up({"--loss", "100%"});
  const Stream other{.port = 5'001, .count = 200};
  EXPECT_EQ(send_stream(other)["received"], 200);
  set({"--impair", "all", "--loss", "50%"});
  Values seen = send_stream({.port = 5'001, .count = 2'000});
  EXPECT_NEAR(static_cast<double>(seen["received"]), 1'000, 150);
}

TEST_P(Network, SettingsChangeWhileItRuns) {
  up({"--loss", "0"});
  EXPECT_EQ(send_stream({.count = 500})["received"], 500);
  set({"--loss", "20%"});
  EXPECT_EQ(show().at("network").at("loss"), "20%");
  expect_near_chance(2'000 - send_stream({.count = 2'000})["received"], 2'000, 0.2);
  set({"--loss", "0"});
  EXPECT_EQ(send_stream({.count = 500})["received"], 500);
}

TEST_P(Network, DelayIsMetOnceInEachDirection) {
  up({"--delay", "2ms"});
  Command echo{traffic("h2", {"echo", "4791"})};
  ASSERT_TRUE(echo.wait_for_output("ready"));
  Values times = values(run(traffic("h1", {"ping", "10.77.0.2", "4791", "50"})));
  EXPECT_EQ(times["lost"], 0);
  EXPECT_GE(times["min_us"], 4'000);
  // The shortest of 50: it excludes a busy machine's delays, but includes a slow one's wakeups of the programs in
  // between (0.65 ms seen). An extra delay would be 2 ms.
  EXPECT_LT(times["min_us"], 5'000);
}

TEST_P(Network, SourcePortsTakeThePathsInTurn) {
  up({"--paths", "3", "--skew", "6ms", "--path-loss", "0,100%"});
  Command echo{traffic("h2", {"echo", "4791"})};
  ASSERT_TRUE(echo.wait_for_output("ready"));
  // The answers go to another port than RoCE's: path 0.
  const auto ping = [&](int source_port, int count) {
    return values(
        run(traffic("h1", {"ping", "10.77.0.2", "4791", std::to_string(count), std::to_string(source_port)})));
  };
  constexpr long long kFirstPath = 1'500;  // the second takes 3 ms longer, and waking the programs 0.7 where it is slow
  EXPECT_LT(ping(40'000, 50)["min_us"], kFirstPath);
  EXPECT_EQ(ping(40'001, 2)["lost"], 2);
  Values third = ping(40'002, 20);
  EXPECT_EQ(third["lost"], 0);
  EXPECT_GE(third["min_us"], 6'000);
  EXPECT_LT(ping(40'000, 50)["min_us"], kFirstPath);
  EXPECT_LT(ping(40'003, 50)["min_us"], kFirstPath);
  const nlohmann::json link = show().at("links").at(1);
  ASSERT_EQ(link.at("paths").size(), 3u);
  EXPECT_EQ(link.at("paths").at(1).at("offered"), 2);
  EXPECT_EQ(link.at("paths").at(1).at("lost"), 2);
  EXPECT_EQ(link.at("paths").at(2).at("forwarded"), 20);
  EXPECT_EQ(link.at("to_host").at("lost"), 2);
  set({"--paths", "1"});
  EXPECT_LT(ping(40'002, 50)["min_us"], kFirstPath);
}

TEST_P(Network, RateSpacesPacketsAndTheQueueDropsTheRest) {
  // 4042 bytes at 100 Mbit/s take 323 us; 1000 of them 323 ms. They are sent in a fifth of that, or as fast as a busy
  // machine lets the sender: the queue of 1 MB (259 packets) takes the excess over the rate, and the rest is dropped.
  up({"--rate", "100mbit", "--queue", "1mb"});
  Values seen = send_stream({.count = 1'000, .size = 4'000, .gap_us = 60});
  const nlohmann::json total = show().at("total");
  EXPECT_EQ(seen["received"] + total.at("queue_dropped").get<long long>(), 1'000);
  constexpr long long kQueue = 260, kEach = 323, kSlack = 10;
  EXPECT_LE(seen["received"], kQueue + seen["sent_us"] / kEach + kSlack);
  const double expected_us = static_cast<double>(seen["received"] - 1) * 4'042 * 8 / 100;
  // The unit tests check exact values; here a busy machine may make the switch late at either end.
  EXPECT_GE(static_cast<double>(seen["span_us"]), expected_us * 0.8);
  EXPECT_LE(static_cast<double>(seen["span_us"]), expected_us * 1.4);
}

TEST_P(Network, Ipv6IsForwardedToo) {
  up({"--loss", "3%"});
  Values seen = send_stream({.address = "fd77::2", .count = 8'000, .size = 1'000, .batch = 20});
  const nlohmann::json link = link_to("h2");
  expect_near_chance(link.at("lost"), 8'000, 0.03);
  EXPECT_EQ(seen["received"] + link.at("lost").get<long long>(), 8'000);
  EXPECT_EQ(seen["broken"], 0);
}

INSTANTIATE_TEST_SUITE_P(Lab, Network, testing::Values(User::kSelf, User::kNobody), user_name);

}  // namespace
}  // namespace brdma::lab_test
