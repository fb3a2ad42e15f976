// The text form of NETWORK: accepted and refused values, and each value prints as it is read.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "fabric/network.h"

namespace brdma::fabric {
namespace {

TEST(FabricNetwork, ValuesAreRead) {
  NetworkConfig config;
  for (const auto& [name, value] : {std::pair{"loss", "1%"}, {"burst-loss", "0.5%,20"}, {"reorder", "5%,8"},
                                    {"duplicate", "20ppm"},  {"corrupt", ".01%"},       {"delay", "1.5ms"},
                                    {"jitter", "10us"},      {"rate", "2.5gbit"},       {"queue", "256kb"},
                                    {"paths", "4"},          {"skew", "100us"},         {"path-loss", "0,1%,0,100%"},
                                    {"impair", "all"},       {"ecn", "20kb,80kb,10%"},  {"random-drop", "4kb,8kb,100%"},
                                    {"buffer", "2mb,0.5"},   {"classes", "strict,4,1"}, {"dscp", "46=0,26=1"},
                                    {"edn", "roce"},         {"ecn-to-rtt", "20us"},    {"mtu", "1024"},
                                    {"seed", "42"}}) {
    EXPECT_EQ(set_option(config, name, value), std::nullopt) << name;
  }
  const ImpairmentConfig& faults = config.link.impairments;
  EXPECT_EQ(faults.loss_ppm, 10'000u);
  EXPECT_EQ(faults.burst_loss_ppm, 5'000u);
  EXPECT_EQ(faults.burst_length_mean, 20u);
  EXPECT_EQ(faults.reorder_ppm, 50'000u);
  EXPECT_EQ(faults.reorder_depth, 8u);
  EXPECT_EQ(faults.duplicate_ppm, 20u);
  EXPECT_EQ(faults.corrupt_ppm, 100u);
  EXPECT_EQ(config.link.delay, 1500_us);
  EXPECT_EQ(faults.jitter, 10_us);
  ASSERT_TRUE(config.link.rate);
  EXPECT_EQ(config.link.rate->bps(), 2'500'000'000u);
  EXPECT_EQ(config.link.queue_bytes, 262'144u);
  EXPECT_EQ(config.link.paths, 4u);
  EXPECT_EQ(config.link.skew, 100_us);
  EXPECT_EQ(config.link.path_loss_ppm, (std::array<std::uint32_t, kLinkPathsMax>{0, 10'000, 0, 1'000'000}));
  EXPECT_EQ(config.impaired, Impaired::kAll);
  EXPECT_EQ(config.link.marking, (MarkingConfig{20 * 1024, 80 * 1024, 100'000}));
  ASSERT_EQ(set_option(config, "ecn", "50us,200us,10%"), std::nullopt);
  EXPECT_EQ(config.link.marking, (MarkingConfig{50'000, 200'000, 100'000, MarkedBy::kDelay}));
  ASSERT_EQ(set_option(config, "ecn", "40%,80%,10%"), std::nullopt);
  EXPECT_EQ(config.link.marking, (MarkingConfig{400'000, 800'000, 100'000, MarkedBy::kOccupancy}));
  EXPECT_EQ(config.link.random_drop, (MarkingConfig{4 * 1024, 8 * 1024, 1'000'000}));
  EXPECT_EQ(config.buffer, (SharedBufferConfig{2 * 1024 * 1024, 500}));
  const TrafficClasses& classes = config.link.classes;
  EXPECT_EQ(classes.count, 3u);
  EXPECT_EQ(classes.weights[0], 0u);
  EXPECT_EQ(classes.weights[1], 4u);
  EXPECT_EQ(classes.class_of(46), 0);
  EXPECT_EQ(classes.class_of(26), 1);
  EXPECT_EQ(classes.class_of(0), 2);
  EXPECT_EQ(config.edn, EdnForm::kRoce);
  EXPECT_EQ(config.ecn_to_rtt, (MarkTranslation{.increment = {.longest = 20_us}}));
  EXPECT_EQ(config.mtu, 1024u);
  EXPECT_EQ(config.seed, 42u);
}

// A switch's treatment of packets and the speed of its links are independent: two networks that differ only in the
// first can be compared.
TEST(FabricNetwork, NothingThatTheSwitchDoesChangesTheUplink) {
  NetworkConfig plain;
  ASSERT_EQ(set_option(plain, "rate", "1gbit"), std::nullopt);
  ASSERT_EQ(set_option(plain, "queue", "64kb"), std::nullopt);
  EXPECT_EQ(plain.uplink_config().rate, Bandwidth::from_bps(1'000'000'000));
  EXPECT_EQ(plain.uplink_config().queue_bytes, 65'536u);
  for (const auto& [name, value] : {std::pair{"ecn", "20kb,80kb,10%"},
                                    {"random-drop", "20kb,80kb,10%"},
                                    {"buffer", "1mb"},
                                    {"classes", "2,1"},
                                    {"edn", "roce"},
                                    {"edn", "icmp"},
                                    {"switch-rate", "2mpps"},
                                    {"ecn-to-rtt", "20us"}}) {
    NetworkConfig config = plain;
    ASSERT_EQ(set_option(config, name, value), std::nullopt) << name;
    EXPECT_EQ(config.uplink_config(), plain.uplink_config()) << name << ' ' << value;
  }
}

TEST(FabricNetwork, TheUplinkHasTheLinksRateItsOwnOrNone) {
  NetworkConfig config;
  EXPECT_EQ(get_option(config, "uplink"), "same");
  EXPECT_FALSE(config.uplink_config().rate);
  ASSERT_EQ(set_option(config, "rate", "1gbit"), std::nullopt);
  ASSERT_EQ(set_option(config, "uplink", "2gbit"), std::nullopt);
  EXPECT_EQ(config.uplink_config().rate, Bandwidth::from_bps(2'000'000'000));
  EXPECT_EQ(get_option(config, "uplink"), "2gbit");
  EXPECT_TRUE(set_option(config, "uplink", "fast"));
  EXPECT_EQ(get_option(config, "uplink"), "2gbit");
  ASSERT_EQ(set_option(config, "uplink", "off"), std::nullopt);
  EXPECT_FALSE(config.uplink_config().rate);
  EXPECT_EQ(get_option(config, "uplink"), "off");
  ASSERT_EQ(set_option(config, "uplink", "same"), std::nullopt);
  EXPECT_EQ(config.uplink_config().rate, Bandwidth::from_bps(1'000'000'000));
}

TEST(FabricNetwork, ANetworksTextSaysWhatIsNotDefault) {
  NetworkConfig config;
  EXPECT_EQ(network_text(config), "");
  for (const auto& [name, value] :
       {std::pair{"rate", "25gbit"}, {"uplink", "off"}, {"delay", "5us"}, {"edn", "icmp"}}) {
    ASSERT_EQ(set_option(config, name, value), std::nullopt);
  }
  EXPECT_EQ(network_text(config), "delay=5us;rate=25gbit;uplink=off;edn=icmp");
  config.seed = 7;
  EXPECT_EQ(network_text(config), "delay=5us;rate=25gbit;uplink=off;edn=icmp") << "another run of the same network";
}

TEST(FabricNetwork, EachValuePrintsInAFormThatIsReadBack) {
  NetworkConfig config;
  for (const auto& [name, value] : {std::pair{"loss", "1%"},
                                    {"loss", "0.05%"},
                                    {"loss", "5ppm"},
                                    {"loss", "12.5%"},
                                    {"loss", "100%"},
                                    {"loss", "0"},
                                    {"burst-loss", "0.1%,20"},
                                    {"burst-loss", "0"},
                                    {"reorder", "5%,3"},
                                    {"delay", "50us"},
                                    {"delay", "0"},
                                    {"delay", "1500ns"},
                                    {"rate", "10gbit"},
                                    {"rate", "2500mbit"},
                                    {"rate", "off"},
                                    {"queue", "256kb"},
                                    {"queue", "1500b"},
                                    {"paths", "8"},
                                    {"skew", "20us"},
                                    {"path-loss", "0"},
                                    {"path-loss", "5%"},
                                    {"path-loss", "0,0,5%"},
                                    {"path-loss", "1%,2%,3%,4%,5%,6%,7%,8%"},
                                    {"mtu", "2048"},
                                    {"seed", "7"},
                                    {"ecn", "20kb,80kb,0.5%"},
                                    {"ecn", "50us,200us,10%"},
                                    {"ecn", "0,10s,100%"},
                                    {"ecn", "40%,100%,0.5%"},
                                    {"ecn", "0,0,100%"},
                                    {"ecn", "off"},
                                    {"random-drop", "0,1500b,1%"},
                                    {"random-drop", "12.5%,50%,1%"},
                                    {"buffer", "2mb,8"},
                                    {"buffer", "300kb,0.125"},
                                    {"buffer", "off"},
                                    {"switch-rate", "1kpps"},
                                    {"switch-rate", "2500kpps"},
                                    {"switch-rate", "16gpps"},
                                    {"switch-rate", "off"},
                                    {"classes", "1"},
                                    {"classes", "strict,strict,64,1,1,1,1,2"},
                                    {"dscp", "off"},
                                    {"dscp", "0=1,8=0,63=7"},
                                    {"edn", "icmp"},
                                    {"ecn-to-rtt", "2us"},
                                    {"ecn-to-rtt", "1s"},
                                    {"ecn-to-rtt", "auto"},
                                    {"ecn-to-rtt", "auto,rule=fixed,window=255"},
                                    {"ecn-to-rtt", "20us,rule=stepped,levels=2,rewrite=ts"},
                                    {"ecn-to-rtt", "20us,rule=probabilistic,levels=255,pmax=12.5%"},
                                    {"ecn-to-rtt", "off"},
                                    {"impair", "roce"}}) {
    ASSERT_EQ(set_option(config, name, value), std::nullopt) << name << ' ' << value;
    EXPECT_EQ(get_option(config, name), value);
  }
}

TEST(FabricNetwork, WrongValuesAreRefusedAndChangeNothing) {
  for (const auto& [name, value] : {std::pair{"loss", "1"},
                                    {"loss", ""},
                                    {"loss", "%"},
                                    {"loss", "101%"},
                                    {"loss", "-1%"},
                                    {"loss", "1 %"},
                                    {"loss", "0.00001%"},
                                    {"loss", "1e2%"},
                                    {"loss", "99999999999999999999%"},
                                    {"burst-loss", "1%,0"},
                                    {"burst-loss", "1%,"},
                                    {"burst-loss", "1%,2%"},
                                    {"reorder", "5%,1001"},
                                    {"reorder", "5,3"},
                                    {"delay", "50"},
                                    {"delay", "50 us"},
                                    {"delay", "0.5ns"},
                                    {"delay", "11s"},
                                    {"jitter", "2s"},
                                    {"rate", "10"},
                                    {"rate", "1bit"},
                                    {"rate", "401gbit"},
                                    {"queue", "100"},
                                    {"queue", "2000mb"},
                                    {"paths", "0"},
                                    {"paths", "9"},
                                    {"paths", "2kb"},
                                    {"skew", "100"},
                                    {"skew", "11s"},
                                    {"path-loss", "1%,,1%"},
                                    {"path-loss", "1%,"},
                                    {"path-loss", "101%"},
                                    {"path-loss", "0,0,0,0,0,0,0,0,0"},
                                    {"mtu", "9000"},
                                    {"mtu", "04096"},
                                    {"impair", "tcp"},
                                    {"ecn", "80kb,20kb,1%"},
                                    {"ecn", "1kb,2kb"},
                                    {"ecn", "1kb,2kb,101%"},
                                    {"ecn", "1kb,2ms,10%"},
                                    {"ecn", "10%,2ms,10%"},
                                    {"ecn", "200us,50us,10%"},
                                    {"ecn", "50us,11s,10%"},
                                    {"ecn", "50us,999999999999s,10%"},
                                    {"ecn", "50%,101%,10%"},
                                    {"ecn", "1kb,1025mb,10%"},
                                    {"ecn", "1kb,2kb,1%,"},
                                    {"random-drop", ""},
                                    {"buffer", "1kb"},
                                    {"buffer", "1mb,0"},
                                    {"buffer", "1mb,65"},
                                    {"buffer", "1mb,"},
                                    {"switch-rate", "1000"},
                                    {"switch-rate", "999pps"},
                                    {"switch-rate", "17gpps"},
                                    {"switch-rate", "1gbit"},
                                    {"classes", ""},
                                    {"classes", "0"},
                                    {"classes", "65"},
                                    {"classes", "1,,1"},
                                    {"classes", "1,1,1,1,1,1,1,1,1"},
                                    {"dscp", "64=0"},
                                    {"dscp", "1"},
                                    {"dscp", "1=8"},
                                    {"dscp", "1=0,"},
                                    {"edn", "tcp"},
                                    {"ecn-to-rtt", "20"},
                                    {"ecn-to-rtt", "1001ms"},
                                    {"ecn-to-rtt", "999999999999s"},
                                    {"ecn-to-rtt", "20us,"},
                                    {"ecn-to-rtt", "20us,fixed"},
                                    {"ecn-to-rtt", "20us,rule=linear"},
                                    {"ecn-to-rtt", "20us,rule"},
                                    {"ecn-to-rtt", "20us,window=0"},
                                    {"ecn-to-rtt", "20us,window=256"},
                                    {"ecn-to-rtt", "20us,levels=1"},
                                    {"ecn-to-rtt", "20us,levels=256"},
                                    {"ecn-to-rtt", "20us,pmax=101%"},
                                    {"ecn-to-rtt", "20us,rewrite=both"},
                                    {"ecn-to-rtt", "20us,window=4,window=8"},
                                    {"ecn-to-rtt", "20us,more=1"},
                                    {"ecn-to-rtt", "rule=fixed"},
                                    {"ecn-to-rtt", "off,rule=fixed"},
                                    {"seed", "x"},
                                    {"sed", "1"}}) {
    NetworkConfig config;
    const auto error = set_option(config, name, value);
    ASSERT_TRUE(error) << name << ' ' << value;
    EXPECT_NE(error->find(name), std::string::npos) << *error;
    EXPECT_EQ(config, NetworkConfig{}) << name << ' ' << value;
  }
}

// Just beyond the range, beyond 64 bits, and beyond them once the unit is applied.
TEST(FabricNetwork, ANumberBeyondItsRangeIsRefusedAndTheRangeShown) {
  struct Option {
    std::string name, before, after;  // of the number
    std::string beyond, range;
  };
  for (const Option& each : std::vector<Option>{{"loss", "", "%", "101", "at most 100%"},
                                                {"burst-loss", "1%,", "", "10001", "1 to 10000"},
                                                {"reorder", "1%,", "", "1001", "1 to 1000"},
                                                {"delay", "", "s", "11", "at most 10s"},
                                                {"jitter", "", "s", "2", "at most 1s"},
                                                {"rate", "", "gbit", "401", "8kbit to 400gbit"},
                                                {"uplink", "", "gbit", "401", "8kbit to 400gbit"},
                                                {"queue", "", "mb", "1025", "1500 to 1024mb"},
                                                {"paths", "", "", "9", "1 to 8"},
                                                {"skew", "", "s", "11", "at most 10s"},
                                                {"path-loss", "1%,", "%", "101", "at most 100%"},
                                                {"ecn", "0,", "mb,1%", "1025", "at most 1024mb"},
                                                {"ecn", "0,", "s,1%", "11", "10s"},
                                                {"random-drop", "0,", "mb,1%", "1025", "at most 1024mb"},
                                                {"buffer", "", "mb", "1025", "1500 to 1024mb"},
                                                {"buffer", "1mb,", "", "65", "0.001 to 64"},
                                                {"switch-rate", "", "gpps", "17", "1kpps to 16gpps"},
                                                {"classes", "1,", "", "65", "1 to 64"},
                                                {"dscp", "", "=0", "64", "0 to 63"},
                                                {"dscp", "1=", "", "8", "0 to 7"},
                                                {"ecn-to-rtt", "", "s", "2", "at most 1s"},
                                                {"ecn-to-rtt", "1us,window=", "", "256", "1 to 255"},
                                                {"link-state", "50%,", "%", "101", "at most 100%"},
                                                {"seed", "", "", "1000000000001", "at most 1000000000000"}}) {
    for (const std::string& number : {each.beyond, std::string{"9223372036854775808"}, std::string{"999999999999"},
                                      std::string{"18446744073709551617"}, std::string(200, '9')}) {
      if (each.name == "seed" && number == "999999999999") continue;
      NetworkConfig config;
      const auto error = set_option(config, each.name, each.before + number + each.after);
      ASSERT_TRUE(error) << each.name << ' ' << number;
      EXPECT_NE(error->find(each.range), std::string::npos) << *error;
      EXPECT_EQ(config, NetworkConfig{}) << each.name << ' ' << number;
    }
  }
}

TEST(FabricNetwork, QueuesNeedARateAndTranslationNeedsMarks) {
  for (const auto& [name, value] :
       {std::pair{"ecn", "20kb,80kb,10%"}, {"random-drop", "20kb,80kb,10%"}, {"buffer", "1mb"}, {"classes", "2,1"}}) {
    NetworkConfig config;
    ASSERT_EQ(set_option(config, name, value), std::nullopt);
    ASSERT_TRUE(check_network(config)) << name;
    EXPECT_EQ(check_network(config)->find(name), 0u);
    ASSERT_EQ(set_option(config, "rate", "1gbit"), std::nullopt);
    EXPECT_EQ(check_network(config), std::nullopt) << name;
  }
  NetworkConfig config;
  ASSERT_EQ(set_option(config, "ecn-to-rtt", "20us"), std::nullopt);
  EXPECT_TRUE(check_network(config));
}

TEST(FabricNetwork, PartsOfTheBufferNeedABuffer) {
  for (const std::string_view name : {"ecn", "random-drop"}) {
    NetworkConfig config;
    ASSERT_EQ(set_option(config, "rate", "1gbit"), std::nullopt);
    ASSERT_EQ(set_option(config, name, "50us,200us,10%"), std::nullopt);
    EXPECT_EQ(check_network(config), std::nullopt);
    ASSERT_EQ(set_option(config, name, "40%,80%,10%"), std::nullopt);
    ASSERT_TRUE(check_network(config));
    EXPECT_EQ(check_network(config)->find(name), 0u);
    ASSERT_EQ(set_option(config, "buffer", "2mb"), std::nullopt);
    EXPECT_EQ(check_network(config), std::nullopt);
  }
}

// tests design ER-11: D of memory, ports and rate, where no value is set.
TEST(FabricNetwork, DIsGivenOrFollowsFromTheMemory) {
  NetworkConfig config;
  const auto rate = Bandwidth::from_bps(1'000'000'000);
  EXPECT_FALSE(increment_of(config, 4, rate));
  ASSERT_EQ(set_option(config, "ecn-to-rtt", "20us,rule=fixed"), std::nullopt);
  EXPECT_EQ(increment_of(config, 4, rate), (IncrementConfig{.rule = IncrementRule::kFixed, .longest = 20_us}));
  EXPECT_TRUE(increment_of(config, 4, std::nullopt)) << "a value needs no rate";
  ASSERT_EQ(set_option(config, "ecn-to-rtt", "auto,rule=fixed"), std::nullopt);
  ASSERT_EQ(set_option(config, "queue", "125000"), std::nullopt);
  const auto by_queue = increment_of(config, 4, rate);
  EXPECT_EQ(by_queue, (IncrementConfig{.rule = IncrementRule::kFixed, .longest = 1_ms})) << "a full queue of one port";
  ASSERT_EQ(set_option(config, "buffer", "125000,0.5"), std::nullopt);
  EXPECT_EQ(increment_of(config, 4, rate)->longest, 250_us);
  EXPECT_FALSE(increment_of(config, 4, std::nullopt)) << "no queue forms";
  ASSERT_EQ(set_option(config, "buffer", "1000mb"), std::nullopt);
  EXPECT_EQ(increment_of(config, 1, rate)->longest, kLongestIncrement);
}

TEST(FabricNetwork, EveryOptionHasAValueAndIsDescribed) {
  const NetworkConfig defaults;
  for (const NetworkOption& option : network_options()) {
    NetworkConfig config;
    EXPECT_EQ(set_option(config, option.name, get_option(defaults, option.name)), std::nullopt) << option.name;
    EXPECT_EQ(config, defaults) << option.name;
    EXPECT_FALSE(option.help.empty());
  }
}

}  // namespace
}  // namespace brdma::fabric
