// Messages between members and controller: each is read as it was written, and malformed ones are refused.
#include "controller-session/messages.h"

#include <gtest/gtest.h>

#include <string>

namespace brdma::session {
namespace {

const fabric::Prefix kPrefix = fabric::Prefix::v4(IpAddress::v4(10, 77, 2, 0), 24);

// A read message, as text again.
std::string again(const Message& message) {
  const Parsed parsed = parse_message(message_text(message));
  EXPECT_TRUE(parsed.ok) << parsed.error << ": " << message_text(message);
  EXPECT_EQ(parsed.message.index(), message.index());
  return message_text(parsed.message);
}

TEST(Messages, ComeOutAsTheyWentIn) {
  const ctl::LinkReport report{false, 1, 2, 3, 4, 5, ~std::uint64_t{0}};
  SwitchGreeting of_switch;
  of_switch.hello = {
      "s1", 9, {{"p", "s2", "q", {Bandwidth::from_bps(8000), 10_ms}, 3}}, {kPrefix}, {{kPrefix, {"p", "q.2"}}}, 4};
  HostGreeting of_host;
  of_host.hello = {"h1", {IpAddress::v4(10, 77, 1, 1), *parse_address("fd77::1")}};
  const ctl::FlowEnds flow{IpAddress::v4(1, 2, 3, 4), *parse_address("fd77::2")};
  for (const Message& message :
       {Message{Alive{}}, Message{of_switch}, Message{of_host}, Message{Welcome{}}, Message{RoutesInstalled{7, true}},
        Message{LinkReports{{{"p", report}}}}, Message{ActiveFeedback{{"p", report}, {flow}}},
        Message{PassiveFeedback{flow, {{1, 2, report}}}}, Message{Routes{8, {{kPrefix, {"p"}}}}},
        Message{ControlPacket{IpAddress::v4(10, 0, 0, 1), 3}}}) {
    EXPECT_EQ(again(message), message_text(message));
  }
}

TEST(Messages, WhatIsWrongIsRefused) {
  EXPECT_TRUE(parse_message(R"({"type":"alive","more":1})").ok);
  for (const char* text : {"",
                           "{",
                           "[]",
                           "null",
                           R"({"type":1})",
                           R"({"type":"other"})",
                           R"({"type":"welcome"})",
                           R"({"type":"welcome","version":-1})",
                           R"({"type":"welcome","version":4294967296})",
                           R"({"type":"welcome","version":1.5})",
                           R"({"type":"hello","version":2,"role":"host","id":"h","addresses":[]})",
                           R"({"type":"hello","version":1,"role":"king","id":"h","addresses":[]})",
                           R"({"type":"hello","version":1,"role":"host","id":"","addresses":[]})",
                           R"({"type":"hello","version":1,"role":"host","id":"a b","addresses":[]})",
                           R"({"type":"hello","version":1,"role":"host","id":"h","addresses":["10.0.0"]})",
                           R"({"type":"installed","epoch":1,"installed":1})",
                           R"({"type":"routes","epoch":1,"routes":{}})",
                           R"({"type":"routes","epoch":1,"routes":[{"prefix":"10.0.0.0/33","ports":[]}]})",
                           R"({"type":"routes","epoch":1,"routes":[{"prefix":"10.0.0.0","ports":[]}]})",
                           R"({"type":"routes","epoch":1,"routes":[1]})",
                           R"({"type":"control","destination":7,"congested_links":1})"}) {
    EXPECT_FALSE(parse_message(text).ok) << text;
  }
  std::string many = R"({"type":"control","destination":"10.0.0.1","congested_links":1,"x":")";
  many += std::string(kMessageMax, 'x') + "\"}";
  EXPECT_FALSE(parse_message(many).ok);
  Routes routes{1, {}};
  routes.routes.resize(kRoutesMax + 1, {kPrefix, {"p"}});
  EXPECT_FALSE(parse_message(message_text(routes)).ok);
}

TEST(Messages, PrefixesAndAddresses) {
  EXPECT_EQ(prefix_text(kPrefix), "10.77.2.0/24");
  EXPECT_EQ(prefix_text(*parse_prefix("fd77::/64")), "fd77::/64");
  EXPECT_EQ(prefix_text(*parse_prefix("0.0.0.0/0")), "0.0.0.0/0");
  EXPECT_FALSE(parse_prefix("fd77::/129"));
  EXPECT_FALSE(parse_prefix("/8"));
  EXPECT_FALSE(parse_prefix("10.0.0.0/"));
  EXPECT_FALSE(parse_prefix("10.0.0.0/8x"));
}

}  // namespace
}  // namespace brdma::session
