// The text form of topologies: its contents, and errors by line.
#include "topology/topology_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/prefix_text.h"

namespace brdma::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kTwo = R"(
[[switch]]
name = "s1"
[[switch]]
name = "s2"
[[host]]
switch = "s1"
[[host]]
switch = "s2"
rate = "1gbit"
[[link]]
between = ["s1", "s2"]
delay = "10ms"
cost = 3
)";

std::string error_of(const std::string& text) {
  try {
    (void)parse_topology(text, "file");
  } catch (const TopologyError& error) {
    return error.what();
  }
  return {};
}

TEST(TopologyFile, SaysWhatThereIs) {
  const auto topology = parse_topology(std::string{kTwo} + R"(
[[route]]
switch = "s1"
prefix = "10.77.0.0/16"
via = ["s2"]
[routing]
shortest = false
[network]
mtu = 1024
loss = "1%"
)",
                                       "file");
  EXPECT_THAT(topology.switches, ElementsAre("s1", "s2"));
  ASSERT_EQ(topology.hosts.size(), 2u);
  EXPECT_EQ(topology.hosts[1].at, 1u);
  EXPECT_THAT(topology.hosts[1].options, ElementsAre(fabric::OptionValue{"rate", "1gbit"}));
  ASSERT_EQ(topology.links.size(), 1u);
  EXPECT_EQ(topology.links[0].cost, 3u);
  EXPECT_THAT(topology.links[0].options, ElementsAre(fabric::OptionValue{"delay", "10ms"}));
  ASSERT_EQ(topology.routes.size(), 1u);
  EXPECT_EQ(topology.routes[0].prefix, fabric::Prefix::v4(IpAddress::v4(10, 77, 0, 0), 16));
  EXPECT_THAT(topology.routes[0].ports, ElementsAre(1u));
  EXPECT_FALSE(topology.shortest_routes);
  EXPECT_EQ(topology.network.size(), 2u);
}

TEST(TopologyFile, SaysWhatIsWrongAndWhere) {
  const std::string two = kTwo;
  const auto with = [&two](const char* more) { return error_of(two + more); };
  EXPECT_EQ(error_of(two), "");
  EXPECT_THAT(error_of(""), HasSubstr("no [[switch]]"));
  EXPECT_THAT(error_of("[[switch]]\nname = \"s1\"\n"), HasSubstr("no [[host]]"));
  EXPECT_THAT(error_of("x = = 1"), HasSubstr("file:1: "));
  EXPECT_THAT(with("[[swich]]\n"), HasSubstr("file:15: unknown 'swich'"));
  EXPECT_THAT(with("[[switch]]\nname = \"s1\"\n"), HasSubstr("two switches"));
  for (const char* name : {"h1", "", "1", "s-1", "s.2", "aaaaaaaaaaaaaaaa"}) {
    EXPECT_THAT(error_of("[[switch]]\nname = \"" + std::string{name} + "\"\n"), HasSubstr("needs a name")) << name;
  }
  EXPECT_THAT(with("[[host]]\nswitch = \"s3\"\n"), HasSubstr("no switch 's3'"));
  EXPECT_THAT(with("[[host]]\n"), HasSubstr("needs the name of a switch"));
  EXPECT_THAT(with("[[host]]\nswitch = \"s1\"\npaths = \"2\"\n"), HasSubstr("'paths' is no option of a host's link"));
  EXPECT_THAT(with("[[link]]\nbetween = [\"s1\", \"s2\"]\nuplink = \"off\"\n"),
              HasSubstr("'uplink' is no option of a link"));
  EXPECT_THAT(with("[[host]]\nswitch = \"s1\"\nuplink = \"fast\"\n"), HasSubstr("off or same"));
  EXPECT_EQ(with("[[host]]\nswitch = \"s1\"\nuplink = \"2gbit\"\n"), "");
  EXPECT_THAT(with("[[link]]\nbetween = [\"s1\", \"s1\"]\n"), HasSubstr("to itself"));
  EXPECT_THAT(with("[[link]]\nbetween = [\"s1\"]\n"), HasSubstr("needs between"));
  EXPECT_THAT(with("[[link]]\nbetween = [\"s1\", \"s2\"]\ncost = 0\n"), HasSubstr("cost"));
  EXPECT_THAT(with("[[link]]\nbetween = [\"s1\", \"s2\"]\ndelay = \"5\"\n"), HasSubstr("delay '5'"));
  EXPECT_THAT(with("[[link]]\nbetween = [\"s1\", \"s2\"]\necn = \"20kb,80kb,10%\"\n"), HasSubstr("rate"));
  EXPECT_THAT(with("[[route]]\nswitch = \"s1\"\nprefix = \"10.77.2.1/24\"\nvia = [\"s2\"]\n"), HasSubstr("prefix"));
  EXPECT_THAT(with("[[route]]\nswitch = \"s1\"\nprefix = \"10.77.2.0/24\"\nvia = [\"s3\"]\n"),
              HasSubstr("no such port"));
  EXPECT_THAT(with("[[route]]\nswitch = \"s1\"\nprefix = \"10.77.2.0/24\"\nvia = []\n"), HasSubstr("via"));
  EXPECT_THAT(with("[routing]\nshortest = \"no\"\n"), HasSubstr("true or false"));
  EXPECT_THAT(error_of("# Köln\n[[switch]]\nstraße = 1\n"), HasSubstr(":3: a character outside ASCII"));
  EXPECT_THAT(error_of(std::string(kTextMax + 1, '#')), HasSubstr("longer than"));
}

TEST(TopologyFile, PrefixesAreReadAsTheyArePrinted) {
  for (const char* text : {"10.77.2.0/24", "0.0.0.0/0", "10.1.2.3/32", "fd77:0:0:2::/64", "::/0", "fd77::1/128"}) {
    const auto prefix = parse_prefix(text);
    ASSERT_TRUE(prefix) << text;
    EXPECT_EQ(print_prefix(*prefix), text);
  }
  EXPECT_EQ(parse_prefix("10.1.2.3"), parse_prefix("10.1.2.3/32"));
  for (const char* text :
       {"", "/24", "10.77.2.0/33", "10.77.2.0/", "10.77.2.0/a", "10.77.2.1/24", "fd77::/129", "s2"}) {
    EXPECT_FALSE(parse_prefix(text)) << text;
  }
}

}  // namespace
}  // namespace brdma::topology
