// brdma perf: command line, results, comparison, picture.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "samples/diagram.h"
#include "values/compare.h"
#include "values/options.h"
#include "values/picture.h"
#include "values/results.h"
#include "values/samples.h"

namespace brdma::perf {
namespace {

Options parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "brdma-perf");
  return parse_options(static_cast<int>(words.size()), words.data());
}

TEST(PerfOptions, NoAddressIsAServer) {
  EXPECT_EQ(parsed({"write", "bw"}).kind, Options::Kind::kServer);
  EXPECT_FALSE(parsed({"write", "bw"}).serve_on);
  EXPECT_TRUE(parsed({"server"}).serve_on);
  const Options client = parsed({"send", "lat", "10.77.0.1"});
  EXPECT_EQ(client.kind, Options::Kind::kClient);
  EXPECT_EQ(client.address, "10.77.0.1");
  EXPECT_EQ(client.plan.operation, Operation::kSend);
  EXPECT_EQ(client.plan.mode, Mode::kLatency);
}

TEST(PerfOptions, TheModeMayBeLeftOut) {
  const Options client = parsed({"write", "10.77.0.1"});
  EXPECT_EQ(client.kind, Options::Kind::kClient);
  EXPECT_EQ(client.plan.mode, Mode::kBandwidth);
  EXPECT_EQ(client.address, "10.77.0.1");
}

TEST(PerfOptions, DefaultsFollowTheMode) {
  EXPECT_EQ(parsed({"write"}).plan.size, 65'536u);
  EXPECT_EQ(parsed({"write", "rate"}).plan.size, 8u);
  EXPECT_EQ(parsed({"atomic"}).plan.size, 8u);
  EXPECT_EQ(parsed({"write", "fct"}).plan.queue_pairs, 4u);
  EXPECT_EQ(parsed({"write", "lat"}).plan.depth, 1u);
  EXPECT_EQ(parsed({"write", "fct"}).sizes, "facebook_webserver");
  EXPECT_EQ(parsed({"write", "-s", "64M"}).plan.depth, 2u);
  EXPECT_EQ(parsed({"write", "rate"}).plan.crc_every, 4096u);
  EXPECT_EQ(parsed({"send", "rate"}).plan.crc_every, 16u);
}

TEST(PerfOptions, MisuseIsExitCodeTwo) {
  for (const auto& words : std::vector<std::vector<const char*>>{{},
                                                                 {"wrote"},
                                                                 {"write", "bandwidth"},
                                                                 {"write", "bw", "-s", "0"},
                                                                 {"write", "bw", "-s", "2G"},
                                                                 {"write", "bw", "-s", "x"},
                                                                 {"write", "bw", "-D", "1", "-n", "5"},
                                                                 {"write", "bw", "-D", "1", "--warmup", "1s"},
                                                                 {"write", "bw", "--interval", "1us"},
                                                                 {"write", "bw", "--sizes", "x"},
                                                                 {"write", "bw", "--load", "1"},
                                                                 {"write", "lat", "-q", "2"},
                                                                 {"write", "lat", "-t", "2"},
                                                                 {"atomic", "fct"},
                                                                 {"atomic", "bw", "-s", "16"},
                                                                 {"server", "bw"},
                                                                 {"write", "--compare", "a", "b"},
                                                                 {"--compare", "a"},
                                                                 {"write", "bw", "--depth", "9000"}}) {
    testing::internal::CaptureStderr();
    const Options options = parsed(words);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(options.kind, Options::Kind::kDone) << said;
    EXPECT_EQ(options.exit_code, 2) << said;
    EXPECT_NE(said, "");
  }
}

TEST(PerfQuantities, AreReadAsWritten) {
  EXPECT_EQ(parse_bytes("64K"), 65'536u);
  EXPECT_EQ(parse_bytes("1.5M"), 1'572'864u);
  EXPECT_EQ(parse_bytes("7"), 7u);
  EXPECT_EQ(parse_time("100us"), 100'000);
  EXPECT_EQ(parse_time("0.5"), kSecond / 2);
  EXPECT_EQ(parse_time("24000s"), 24'000 * kSecond);
  for (const char* const text : {"", "K", "-1", "1x", "1KB", "inf", "nan"})
    EXPECT_THROW((void)parse_bytes(text), Misuse) << text;
  for (const char* const text : {"", "s", "-1s", "0", "1m", "2d", "86401s"})
    EXPECT_THROW((void)parse_time(text), Misuse) << text;
}

// 30 intervals of 100 ms: three of warm-up, then 100 messages of 1000 bytes each; one stall of 50 ms.
Run a_run() {
  Run run{Plan{},
          "10.0.0.1",
          "dev0",
          "::1",
          "",
          4096,
          0,
          3 * kSecond,
          {},
          0,
          0,
          1.5,
          {10, 5, 0, 2'000'000},
          Recording{kSecond / 10},
          {}};
  for (int interval = 0; interval < 30; ++interval) {
    const int messages = interval < 3 ? 10 : 100 + interval % 2;
    for (int i = 0; i < messages; ++i) {
      const std::int64_t at = interval * (kSecond / 10) + (i + 1) * (kSecond / 10) / (messages + 1);
      run.recording.complete(at, 1, 1000);
      run.recording.sample({at, 10'000 + static_cast<std::uint64_t>(i), 1000});
      ++run.messages;
      run.bytes += 1000;
    }
  }
  return run;
}

TEST(PerfResults, TellWarmUpAndSteadyStateApart) {
  const Json r = results_of(a_run());
  EXPECT_NEAR(r.at("steady").at("from_s").get<double>(), 0.3, 1e-9);
  EXPECT_EQ(r.at("steady").at("found"), "series");
  EXPECT_NEAR(r.at("goodput").at("mbytes_s").get<double>(), 1.005, 0.001);
  EXPECT_LT(r.at("goodput").at("whole_run").get<double>(), 0.95);
  EXPECT_NEAR(r.at("rate").at("messages_s").get<double>(), 1005, 1);
  EXPECT_EQ(r.at("latency").at("count"), 27 * 100 + 14);
  EXPECT_NEAR(r.at("latency").at("percentiles").at(0).at("us").get<double>(), 10.05, 0.001);
  EXPECT_TRUE(r.at("flows").is_null());
  auto given = a_run();
  given.warmup = kSecond;
  EXPECT_NEAR(results_of(given).at("steady").at("from_s").get<double>(), 1.0, 1e-9);
}

TEST(PerfResults, HaveStableKeys) {
  const Json results = results_of(a_run());
  std::vector<std::string> keys;
  for (const auto& [key, value] : results.items()) keys.push_back(key);
  EXPECT_THAT(keys,
              testing::ElementsAre("bytes", "check", "clients", "completion", "cpu", "crc_every", "depth", "device",
                                   "elapsed_s", "every_us", "flows", "gid", "goodput", "intervals", "latency", "load",
                                   "load_queue_pairs", "messages", "mode", "mtu", "operation", "program", "queue_pairs",
                                   "rate", "seed", "server", "size", "sizes", "stall", "start", "steady", "version"));
}

TEST(PerfResults, AStallIsSeen) {
  Recording recording{kSecond / 10};
  recording.complete(kSecond / 10, 1, 1);
  recording.complete(kSecond, 1, 1);
  recording.complete(kSecond + 5, 1, 1);
  EXPECT_EQ(recording.longest_gap(), kSecond * 9 / 10);
  EXPECT_EQ(recording.gap_at(), kSecond / 10);
  EXPECT_EQ(recording.bytes().size(), 11u);
  EXPECT_EQ(recording.bytes()[5], 0u);
}

TEST(PerfResults, FlowsAreClassedBySize) {
  auto run = a_run();
  run.plan.mode = Mode::kFct;
  run.sizes = "mix";
  run.recording.sample({2 * kSecond, 5'000'000, 2'000'000});
  const Json r = results_of(run);
  ASSERT_EQ(r.at("flows").size(), 2u);
  EXPECT_EQ(r.at("flows").at(0).at("to_bytes"), 1000);
  EXPECT_EQ(r.at("flows").at(1).at("from_bytes"), 1'000'001);
  EXPECT_TRUE(r.at("flows").at(1).at("to_bytes").is_null());
  EXPECT_EQ(r.at("flows").at(1).at("max_us"), 5000);
  EXPECT_THAT(text_of(r), testing::HasSubstr("flows of 1000001 to more bytes"));
}

TEST(PerfResults, TooShortARunHasNoInterval) {
  auto run = a_run();
  run.elapsed = kSecond / 20;
  const Json r = results_of(run);
  EXPECT_TRUE(r.at("goodput").at("low").is_null());
  EXPECT_THAT(text_of(r), testing::HasSubstr("(? .. ?)"));
}

TEST(PerfCompare, SaysWhatIsBeyondNoise) {
  const Json a = results_of(a_run());
  const auto difference_of = [](const Json& comparison, const std::string& metric) {
    for (const Json& row : comparison.at("metrics")) {
      if (row.at("metric") == metric) return row.at("difference").get<std::string>();
    }
    return std::string{"missing"};
  };
  const Json same = compare(a, a);
  EXPECT_TRUE(same.at("differs").empty());
  for (const Json& row : same.at("metrics")) EXPECT_NE(row.at("difference"), "more") << row;
  Json b = a;
  b["size"] = 7;
  for (const char* const key : {"mbytes_s", "low", "high"}) b["goodput"][key] = b["goodput"][key].get<double>() * 2;
  for (Json& row : b["latency"]["percentiles"]) {
    for (const char* const key : {"us", "low", "high"}) {
      if (!row[key].is_null()) row[key] = row[key].get<double>() / 2;
    }
  }
  const Json other = compare(a, b);
  EXPECT_EQ(other.at("differs").at(0).at("key"), "size");
  EXPECT_EQ(difference_of(other, "goodput"), "more");
  EXPECT_EQ(difference_of(other, "rate"), "none");
  EXPECT_EQ(difference_of(other, "latency p50"), "less");
  EXPECT_THAT(compare_text(other), testing::HasSubstr("not the same size: A 65536, B 7"));
  EXPECT_THROW((void)compare(a, Json::object()), RunError);
  b["goodput"] = "much";
  EXPECT_THROW((void)compare(a, b), RunError);
}

TEST(PerfPicture, TicksAreRound) {
  EXPECT_THAT(samples::round_ticks(3, 8), testing::ElementsAre(0, 0.5, 1, 1.5, 2, 2.5, 3));
  EXPECT_THAT(samples::round_ticks(1050, 6), testing::ElementsAre(0, 200, 400, 600, 800, 1000));
  EXPECT_THAT(samples::round_ticks(0, 6), testing::ElementsAre(0));
  EXPECT_LE(samples::round_ticks(0.0123, 6).size(), 7u);
}

TEST(PerfPicture, ShowsBothPartsAndNothingThatIsNoNumber) {
  Json r = results_of(a_run());
  r["device"] = "<dev&0>";
  const std::string picture = picture_of(r, {10'000, 20'000, 30'000'000});
  EXPECT_THAT(picture, testing::HasSubstr("&lt;dev&amp;0&gt;"));
  EXPECT_THAT(picture, testing::HasSubstr("goodput, MB/s"));
  EXPECT_THAT(picture, testing::HasSubstr("latency: the part that took so long or longer"));
  EXPECT_THAT(picture, testing::Not(testing::HasSubstr("nan")));
  EXPECT_THAT(picture, testing::Not(testing::HasSubstr("inf")));
  EXPECT_THAT(picture, testing::EndsWith("</svg>\n"));
  r["intervals"]["mbytes_s"] = Json::array();
  EXPECT_THAT(picture_of(r, {}), testing::Not(testing::HasSubstr("polyline")));
}

}  // namespace
}  // namespace brdma::perf
