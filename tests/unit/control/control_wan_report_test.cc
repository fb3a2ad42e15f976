// Reports of links from processes to brdmad, as JSON and back.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/address_text.h"
#include "control/report.h"
#include "control/wan_report.h"

namespace brdma::control {
namespace {

recovery::LinkReport report() {
  return {.local = IpAddress::v4(10, 77, 2, 2),
          .peer = IpAddress::v4(10, 77, 1, 1),
          .qpn = 0xABCD,
          .congested = 1,
          .links = {{.hop = 1,
                     .over_limits = true,
                     .switch_id = 2,
                     .port = 3,
                     .speed = 4,
                     .link_rate = ~std::uint64_t{0},
                     .queue = 6,
                     .queue_limit = 7,
                     .drops = 8,
                     .timestamp = 0,
                     .switch_speed = 9}}};
}

TEST(WanReport, ComesBackAsItWas) {
  const auto parsed = parse_link_report(link_report_json(report()));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->local, report().local);
  EXPECT_EQ(parsed->peer, report().peer);
  EXPECT_EQ(parsed->qpn, 0xABCDu);
  EXPECT_EQ(parsed->congested, 1u);
  ASSERT_EQ(parsed->links.size(), 1u);
  EXPECT_EQ(link_report_json(*parsed), link_report_json(report()));
}

// A process may be of another version, or hostile.
TEST(WanReport, WhatIsNotWholeIsNone) {
  const Json whole = link_report_json(report());
  for (const auto& [key, value] : whole.items()) {
    Json without = whole, other = whole;
    without.erase(key);
    other[key] = nullptr;
    EXPECT_FALSE(parse_link_report(without)) << key;
    EXPECT_FALSE(parse_link_report(other)) << key;
  }
  for (const auto& [key, value] : whole["links"][0].items()) {
    Json without = whole, other = whole;
    without["links"][0].erase(key);
    other["links"][0][key] = -1;
    EXPECT_EQ(parse_link_report(without).has_value(), key == "switch_speed") << key;  // older ones do not state it
    EXPECT_FALSE(parse_link_report(other)) << key;
  }
  Json too_large = whole;
  too_large["links"][0]["hop"] = 256;
  EXPECT_FALSE(parse_link_report(too_large));
  EXPECT_FALSE(parse_link_report(Json::array()));
  EXPECT_FALSE(parse_link_report(nullptr));
}

TEST(WanReport, Addresses) {
  for (const char* text : {"10.77.1.1", "fd77:0:0:1::1", "::", "255.255.255.255"}) {
    const auto address = parse_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address_text(*address), text);
  }
  for (const char* text : {"", "10.77.1", "10.77.1.256", "host", "fd77::1%eth0"})
    EXPECT_FALSE(parse_address(text)) << text;
  EXPECT_FALSE(destination_of({{"destination", 7}}));
  EXPECT_FALSE(destination_of(Json::array()));
}

}  // namespace
}  // namespace brdma::control
