// Indices of GIDs: an address keeps its index for life. And the reports of brdmad and its programs about them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/random.h"
#include "io/netdev/gid_tables.h"

namespace brdma::io {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr IpAddress kHole{}, kDefault{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xFF, 0xFE, 0, 9, 1}};

IpAddress numbered(unsigned number) {
  return IpAddress::v4(10, 9, static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number));
}

std::vector<IpAddress> first_of(const GidTable& table, std::size_t count) {
  return {table.slots().begin(), table.slots().begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(GidTable, AddressesKeepTheirIndicesWhileOthersComeAndGo) {
  const IpAddress a = numbered(1), b = numbered(2), c = numbered(3), d = numbered(4);
  GidTable table;
  table.update(kDefault, std::vector{a, b});
  EXPECT_THAT(first_of(table, 4), ElementsAre(kDefault, a, b, kHole));
  table.update(kDefault, std::vector{c, a, b});  // as the kernel may list them
  EXPECT_THAT(first_of(table, 4), ElementsAre(kDefault, a, b, c));
  table.update(kDefault, std::vector{b, c});
  EXPECT_THAT(first_of(table, 4), ElementsAre(kDefault, kHole, b, c));
  table.update(kDefault, std::vector{b, c, d});
  EXPECT_THAT(first_of(table, 4), ElementsAre(kDefault, d, b, c));
  table.update(kDefault, {});
  EXPECT_THAT(first_of(table, 4), ElementsAre(kDefault, kHole, kHole, kHole));
  EXPECT_THAT(table.slots(), SizeIs(kGidSlotsMin));
}

TEST(GidTable, TheDefaultGidHasTheFirstSlotAndNoOther) {
  GidTable table;
  table.update(kDefault, std::vector{numbered(1), kDefault});
  EXPECT_THAT(first_of(table, 3), ElementsAre(kDefault, numbered(1), kHole));
  const IpAddress other_mac = numbered(99);
  table.update(other_mac, std::vector{numbered(1), kDefault});  // the former default is an address like another now
  EXPECT_THAT(first_of(table, 3), ElementsAre(other_mac, numbered(1), kDefault));
  GidTable without_mac;
  without_mac.update(std::nullopt, std::vector{numbered(1), numbered(2)});
  EXPECT_THAT(first_of(without_mac, 3), ElementsAre(numbered(1), numbered(2), kHole));
}

TEST(GidTable, GrowsByDoublingUpToWhatAnIndexHasRoomFor) {
  std::vector<IpAddress> addresses;
  GidTable table;
  std::size_t before = kGidSlotsMin;
  for (unsigned i = 1; i <= 300; ++i) {
    addresses.push_back(numbered(i));
    table.update(kDefault, addresses);
    const std::size_t now = table.slots().size();
    ASSERT_TRUE(now == before || now == 2 * before) << i;
    before = now;
  }
  EXPECT_THAT(table.slots(), SizeIs(kGidSlotsMax));
  EXPECT_EQ(table.slots()[255], numbered(255));
  addresses.erase(addresses.begin());
  table.update(kDefault, addresses);
  EXPECT_EQ(table.slots()[1], numbered(256)) << "the first that found no room";
  table.update(kDefault, {});
  EXPECT_THAT(table.slots(), SizeIs(kGidSlotsMax)) << "what programs have seen stays";
}

// Any sequence of events, against the rule itself.
TEST(GidTable, NoAddressEverMoves) {
  Random random(1, "gids");
  GidTable table;
  std::vector<IpAddress> there;
  for (int step = 0; step < 2'000; ++step) {
    const std::vector<IpAddress> before = table.slots();
    if (there.empty() || random.next() % 2 == 0) {
      const IpAddress fresh = numbered(static_cast<unsigned>(random.next() % 200));
      if (std::ranges::find(there, fresh) == there.end()) there.insert(there.begin(), fresh);
    } else {
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(random.next() % there.size()));
    }
    table.update(kDefault, there);
    ASSERT_EQ(table.slots()[0], kDefault);
    for (std::size_t i = 1; i < before.size(); ++i) {
      const bool stays = std::ranges::find(there, before[i]) != there.end();
      if (before[i].is_zero()) continue;
      ASSERT_EQ(table.slots()[i] == before[i], stays) << "step " << step;
    }
    for (const IpAddress& address : there) ASSERT_EQ(std::ranges::count(table.slots(), address), 1) << "step " << step;
  }
}

TEST(GidTable, OfAnotherProcessOnlyWhatIsSoIsTaken) {
  const IpAddress a = numbered(1), b = numbered(2), stranger = numbered(77);
  GidTable table(std::vector<IpAddress>{stranger, b, b, kDefault, stranger, a});
  table.update(kDefault, std::vector<IpAddress>{a, b});
  EXPECT_THAT(first_of(table, 7), ElementsAre(kDefault, b, kHole, kHole, kHole, a, kHole));
  const GidTable huge(std::vector<IpAddress>(10'000, a));
  EXPECT_THAT(huge.slots(), SizeIs(kGidSlotsMax));
}

Interface interface(std::uint32_t index, std::vector<IpAddress> addresses) {
  Interface one;
  one.index = index;
  one.has_mac = true;
  one.mac = {2, 0, 0, 0, 9, 1};
  one.addresses = std::move(addresses);
  return one;
}

TEST(GidTables, ATableBeginsWithAnAddressAndEndsWithTheInterface) {
  GidTables tables;
  update(tables, std::vector{interface(2, {}), interface(3, {numbered(1)})});
  EXPECT_FALSE(tables.contains(2));
  ASSERT_TRUE(tables.contains(3));
  EXPECT_EQ(tables[3].slots()[0], (IpAddress{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFE, 0, 9, 1}}));
  update(tables, std::vector{interface(2, {}), interface(3, {})});
  EXPECT_TRUE(tables.contains(3)) << "it was a device: it stays one";
  update(tables, std::vector{interface(2, {})});
  EXPECT_TRUE(tables.empty());
}

TEST(GidTables, AreReportedAsJson) {
  GidTables tables;
  update(tables, std::vector{interface(3, {numbered(1), numbered(2), kDefault})});
  update(tables, std::vector{interface(3, {numbered(2), kDefault})});
  const auto json = to_json(tables);
  EXPECT_EQ(json.dump(),
            R"([{"ifindex":3,"gids":["fe80::ff:fe00:901","","::ffff:10.9.0.2","fe80::200:ff:fe00:901"]}])");
  const GidTables again = gid_tables_from(json);
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again.at(3).slots(), tables[3].slots());
}

TEST(GidTables, WhatIsNotToBeUnderstoodIsLeftOut) {
  for (const char* text :
       {"null", "7", "{}", "[]", "[null]", "[[]]", R"([{"ifindex":3}])", R"([{"gids":[]}])",
        R"([{"ifindex":-1,"gids":[]}])", R"([{"ifindex":"3","gids":[]}])", R"([{"ifindex":3,"gids":7}])"}) {
    EXPECT_TRUE(gid_tables_from(nlohmann::ordered_json::parse(text)).empty()) << text;
  }
  const auto odd = gid_tables_from(nlohmann::ordered_json::parse(R"([{"ifindex":3,"gids":[7,"x","::1",null]}])"));
  EXPECT_THAT(first_of(odd.at(3), 4),
              ElementsAre(kHole, kHole, (IpAddress{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}), kHole));
}

}  // namespace
}  // namespace brdma::io
