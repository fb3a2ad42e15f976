// control/report.h: queue pairs, gaps and duplicates as JSON, key by key. tests design BR-36, BR-42
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/report.h"

namespace brdma::control {
namespace {

constexpr std::int64_t kUnix = 1'700'000'000'000'000'000;
const Instant kNow = Instant::from_ns(5'000'000);

TEST(ControlReport, AGapThatWaits) {
  qp::OpenGap gap;
  gap.start = Psn{1002};
  gap.length = 2;
  gap.first_seen = kNow - 40_us;
  gap.depth = 5;
  gap.stalls = true;
  gap.stalled = 30_us;
  EXPECT_EQ(
      gap_json(7, gap, kNow, kUnix).dump(),
      R"({"lqpn":7,"direction":"request","psn":1002,"packets":2,"state":"waiting","cause":null,)"
      R"("first_seen_unix_ns":1699999999999960000,"age_us":40.0,"depth":5,"stall_us":30.0,"named":0,"path":null})");
}

TEST(ControlReport, AGapThatCountsAsLost) {
  qp::OpenGap gap;
  gap.response = gap.promoted = gap.path_known = true;
  gap.start = Psn{0xFF'FFFF};
  gap.length = 1;
  gap.first_seen = kNow;
  gap.cause = recovery::LossCause::kRequested;
  gap.path = 3;
  gap.feedbacks = 4;
  EXPECT_EQ(gap_json(7, gap, kNow, kUnix).dump(),
            R"({"lqpn":7,"direction":"response","psn":16777215,"packets":1,"state":"promoted","cause":"requested",)"
            R"("first_seen_unix_ns":1700000000000000000,"age_us":0.0,"depth":0,"stall_us":null,"named":4,"path":3})");
}

TEST(ControlReport, ADuplicate) {
  const qp::Duplicate duplicate{kNow - 1_us, 9, Psn{5}, 2, true, false};
  EXPECT_EQ(duplicate_json(duplicate, kNow, kUnix).dump(),
            R"({"lqpn":9,"direction":"request","psn":5,"state":"done","arrived_unix_ns":1699999999999999000,)"
            R"("age_us":1.0,"path":2})");
}

TEST(ControlReport, LimitsOfBothDirectionsAndPathBitmaps) {
  QueuePairReport report;
  report.limits = {9, 60_us, 90_us};
  report.response_limits = {10, 70_us, 100_us};
  report.receive_paths = {{.path = 0, .packets = 20, .marked = 3, .newest = 1012, .depth_max = 1, .bytes = 640},
                          {.path = 1, .in_use = false}};
  const auto statistics = queue_pair_statistics_json(report);
  for (const auto& object : {queue_pair_json(report), statistics}) {
    EXPECT_EQ(object["depth_limit"], 9);
    EXPECT_EQ(object["age_limit_us"], 60.0);
    EXPECT_EQ(object["stall_limit_us"], 90.0);
    EXPECT_EQ(object["response_depth_limit"], 10);
    EXPECT_EQ(object["response_age_limit_us"], 70.0);
    EXPECT_EQ(object["response_stall_limit_us"], 100.0);
  }
  EXPECT_EQ(statistics["receive_paths"].dump(),
            R"([{"path":0,"in_use":true,"rcvd_pkts":20,"marked":3,"highest":1012,"depth_limit":1,"bytes":640},)"
            R"({"path":1,"in_use":false,"rcvd_pkts":0,"marked":0,"highest":null,"depth_limit":0,"bytes":0}])");
  EXPECT_FALSE(statistics.contains("response_paths"));
}

TEST(ControlReport, WhatVerbsGiveIsRefusedWithThatReason) {
  for (const char* key : {"start_psn", "recovery.start_psn"}) {
    EXPECT_NE(check_changes({{key, 5}}).find("the program gives it, by ibv_modify_qp"), std::string::npos);
  }
  EXPECT_EQ(check_changes({{"recovery.ffm_threshold", 5}}), "");
  EXPECT_NE(check_changes({{"recovery.ffm_threshold", 0}}), "");
}

}  // namespace
}  // namespace brdma::control
