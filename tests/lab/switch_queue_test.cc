// The switch's queues over real sockets: marks, classes, shared memory, random drop; and their display. All as counts
// that add up: the machine's speed changes how many, not whether.

#include <gmock/gmock.h>

#include "lab_fixture.h"

namespace brdma::lab_test {
namespace {

constexpr int kEct0 = 2;

// Beside the datagrams some packets of the kernels' own come by (multicast, neighbours), and meet the same queue.
void expect_all_but_few(long long ours, long long counted) {
  EXPECT_GE(counted, ours);
  EXPECT_LE(counted, ours + 30);
}

class SwitchQueue : public LabTest {
 protected:
  // 1,000 datagrams of 4,000 bytes in a fifth of the time that 100 Mbit/s take for them: a queue forms.
  static Stream burst(int traffic_class = 0) {
    return {.count = 1'000, .size = 4'000, .traffic_class = traffic_class, .gap_us = 60};
  }
};

TEST_P(SwitchQueue, LongQueuesAreMarkedOnPacketsWhoseSenderKnowsEcn) {
  for (const char* address : {"10.77.0.2", "fd77::2"}) {
    up({"--rate", "100mbit", "--uplink", "off", "--queue", "8mb", "--ecn", "100kb,100kb,100%"});
    Stream stream = burst(kEct0);
    stream.address = address;
    Values seen = send_stream(stream);
    const nlohmann::json all = show();
    EXPECT_EQ(seen["received"], 1'000);
    EXPECT_EQ(seen["broken"] + seen["one_bit"], 0);
    EXPECT_GT(seen["marked"], 300);
    EXPECT_EQ(seen["marked"], all.at("ecn").at("set"));
    expect_all_but_few(seen["marked"], all.at("links").at(1).at("to_host").at("marked"));
    EXPECT_GE(all.at("links").at(1).at("queue").at("longest"), 100 * 1024);
    Values unable = send_stream(burst(0));
    EXPECT_EQ(unable["marked"], 0);
    EXPECT_GT(show().at("ecn").at("not_able"), 300);
    ASSERT_EQ(run(lab("down")).exit_code, 0);
    is_up_ = false;
  }
}

// tests design ER-7: by delay and by occupancy, chosen while the lab is up.
TEST_P(SwitchQueue, DelayAndOccupancyMarkAsWell) {
  up({"--rate", "100mbit", "--uplink", "off", "--queue", "8mb", "--buffer", "16mb,8", "--ecn", "5s,5s,100%"});
  EXPECT_EQ(send_stream(burst(kEct0))["marked"], 0) << "the queue holds 0.32 s";
  for (const char* curve : {"8ms,8ms,100%", "0.5%,0.5%,100%"}) {  // 100 kB, and 80 kB of the memory
    set({"--ecn", curve});
    const long long before = show().at("ecn").at("set");
    Values seen = send_stream(burst(kEct0));
    EXPECT_GT(seen["marked"], 300) << curve;
    EXPECT_EQ(seen["marked"], show().at("ecn").at("set").get<long long>() - before) << curve;
  }
  set({"--ecn", "90%,90%,100%"});
  EXPECT_EQ(send_stream(burst(kEct0))["marked"], 0) << "4 MB of 16";
}

TEST_P(SwitchQueue, ClassesAreChosenByDscpAndTheOthersTakeTheLast) {
  up({"--rate", "100mbit", "--uplink", "off", "--queue", "400kb", "--classes", "strict,3,1", "--dscp", "46=0,10=1"});
  std::vector<long long> came;
  for (const int dscp : {46, 10, 0}) came.push_back(send_stream(burst(dscp << 2))["received"]);
  const nlohmann::json queue = show().at("links").at(1).at("queue");
  ASSERT_EQ(queue.at("classes").size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const nlohmann::json& counted = queue.at("classes").at(i);
    expect_all_but_few(1'000, came[i] + counted.at("dropped").get<long long>());
    EXPECT_GT(counted.at("dropped"), 100) << i;
    // Beside them the receiver's reports go through the last class, in the other direction.
    EXPECT_GE(counted.at("packets"), came[i]) << i;
    EXPECT_GT(counted.at("longest"), 300 * 1024) << i;
    EXPECT_LE(counted.at("longest"), 400 * 1024) << i;
  }
}

TEST_P(SwitchQueue, SharedMemoryAndRandomDropLoseWhatTheyCount) {
  up({"--rate", "100mbit", "--uplink", "off", "--queue", "8mb", "--buffer", "800kb,1"});
  Values seen = send_stream(burst());
  nlohmann::json all = show();
  expect_all_but_few(1'000, seen["received"] + all.at("total").at("buffer_dropped").get<long long>());
  EXPECT_GT(all.at("total").at("buffer_dropped"), 100);
  EXPECT_GT(all.at("buffer").at("most"), 380 * 1024);  // alone: half of it
  EXPECT_LE(all.at("buffer").at("most"), 405 * 1024);
  EXPECT_EQ(all.at("buffer").at("used"), 0);
  set({"--buffer", "off", "--random-drop", "40kb,8mb,100%"});
  seen = send_stream(burst());
  all = show();
  expect_all_but_few(1'000, seen["received"] + all.at("total").at("random_dropped").get<long long>());
  EXPECT_GT(all.at("total").at("random_dropped"), 20);
}

// tests design WT-8
TEST_P(SwitchQueue, TheSwitchsOwnRateDropsWhatItCannotProcess) {
  up({"--switch-rate", "2kpps"});
  Stream stream = burst();
  stream.count = 3'000;  // in 0.18 s: 360 are processed meanwhile, and 1,024 wait
  Values seen = send_stream(stream);
  const nlohmann::json all = show();
  const nlohmann::json& processing = all.at("processing");
  const nlohmann::json& flow = all.at("flows").at("busiest").at(0);
  EXPECT_GT(flow.at("dropped"), 500);
  EXPECT_EQ(seen["received"] + flow.at("dropped").get<long long>(), 3'000);
  EXPECT_GE(processing.at("dropped"), flow.at("dropped")) << "packets of the kernels' own as well";
  EXPECT_EQ(processing.at("longest"), 1'024);
  set({"--switch-rate", "off"});
  EXPECT_EQ(send_stream(burst())["received"], 1'000);
}

TEST_P(SwitchQueue, FlowsAreCountedAndTopShowsQueues) {
  up({"--rate", "1gbit", "--uplink", "off", "--ecn", "100kb,200kb,10%"});
  Values seen = send_stream({.count = 500});
  const nlohmann::json flows = show().at("flows");
  const nlohmann::json& busiest = flows.at("busiest").at(0);
  EXPECT_EQ(busiest.at("source"), "10.77.0.1");
  EXPECT_EQ(busiest.at("destination"), "10.77.0.2");
  EXPECT_EQ(busiest.at("destination_port"), 4791);
  EXPECT_EQ(busiest.at("packets"), seen["received"]);
  EXPECT_EQ(busiest.at("bytes"), seen["received"] * 242);
  const Outcome once = run(lab("top", {"-j", "--count", "2", "--interval", "20"}));
  EXPECT_EQ(once.exit_code, 0) << once.err;
  const nlohmann::json first = nlohmann::json::parse(once.out.substr(0, once.out.find('\n')));
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first.at(1).at("host"), "h2");
  EXPECT_GT(first.at(1).at("queue_longest"), 0);
  const Outcome text = run(lab("top", {"--count", "1", "--interval", "20"}));
  EXPECT_NE(text.out.find("queue, bytes"), std::string::npos) << text.out;
}

INSTANTIATE_TEST_SUITE_P(Lab, SwitchQueue, testing::Values(User::kSelf, User::kNobody), user_name);

}  // namespace
}  // namespace brdma::lab_test
