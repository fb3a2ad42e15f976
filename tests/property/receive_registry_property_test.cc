// The receive registry and the escape channel against sets and maps: random operations of random sizes, packets in any
// order, duplicates, packets that no operation expects. tests design RR-8 to RR-13.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"
#include "registry/escape_channel.h"
#include "registry/receive_registry.h"
#include "support/seeds.h"

namespace brdma::registry {
namespace {

struct Model {
  std::uint64_t address = 0;
  std::uint16_t packets = 1;
  std::set<std::uint64_t> here;
};

constexpr std::uint8_t kShift = 10;

void run(Random& random) {
  ReceiveRegistry registry;
  std::map<std::uint8_t, Model> model;
  std::uint8_t next = 0, oldest = 0;
  std::set<std::uint8_t> complete;
  for (int step = 0; step < 3000; ++step) {
    const auto under_way = static_cast<std::uint8_t>(next - oldest);
    if (under_way < 120 && (model.empty() || random.below(20) == 0)) {
      const OperationStart start{.address = random.next() >> 16,
                                 .packets = static_cast<std::uint16_t>(1 + random.below(255)),
                                 .packet_shift = kShift,
                                 .number = next};
      ASSERT_TRUE(registry.begin(start));
      ASSERT_FALSE(registry.begin(start));
      model[next] = {start.address, start.packets, {0}};
      if (start.packets == 1) complete.insert(next);
      ++next;
    }
    if (random.below(8) == 0) {  // a number that is not registered
      const auto wild = static_cast<std::uint8_t>(random.next());
      if (!model.contains(wild)) {
        ASSERT_EQ(registry.receive(wild, random.next(), 3), Match::kNone);
      }
    }
    auto at = model.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random.below(model.size())));
    auto& [number, operation] = *at;
    const std::uint64_t bit = random.below(operation.packets + 2u);
    const std::uint64_t address = operation.address + (bit << kShift) + (random.below(30) == 0 ? 1 : 0);
    const Match match = registry.receive(number, address, operation.packets);
    if (bit >= operation.packets || ((address - operation.address) & ((1u << kShift) - 1)) != 0) {
      ASSERT_EQ(match, Match::kOutside);
    } else if (!operation.here.insert(bit).second) {
      ASSERT_EQ(match, Match::kDuplicate);
    } else if (operation.here.size() == operation.packets) {
      ASSERT_EQ(match, Match::kComplete);
      complete.insert(number);
    } else {
      ASSERT_EQ(match, Match::kNew);
    }
    if (random.below(4) == 0) {  // fill the oldest, which then is executed
      Model& first = model.at(oldest);
      for (std::uint64_t i = 0; i < first.packets; ++i) {
        registry.receive(oldest, first.address + (i << kShift), first.packets);
        first.here.insert(i);
      }
      complete.insert(oldest);
    }
    while (complete.contains(oldest) && random.below(3) != 0) {
      registry.release(oldest);
      model.erase(oldest);
      complete.erase(oldest);
      ++oldest;
    }
    ASSERT_EQ(registry.size(), model.size());
    std::uint8_t expected = oldest;
    while (complete.contains(expected)) ++expected;
    const auto completed = registry.completed();
    ASSERT_EQ(completed.next, expected);
    for (std::uint8_t i = 0; i < 8; ++i) {
      ASSERT_EQ((completed.beyond & (0x80u >> i)) != 0, complete.contains(static_cast<std::uint8_t>(expected + 1 + i)));
    }
  }
}

TEST(ReceiveRegistryProperty, AgreesWithSets) { test::for_each_seed(30, run); }

TEST(EscapeChannelProperty, KeepsItsBounds) {
  test::for_each_seed(30, [](Random& random) {
    EscapeChannel channel(50'000);
    std::map<std::uint32_t, EscapedPacket> model;
    Instant now = Instant::from_ns(0);
    std::uint32_t psn = 0;
    for (int step = 0; step < 2000; ++step) {
      now = now + Duration::from_ns(static_cast<std::int64_t>(random.below(2000)));
      const EscapedPacket packet{Psn{psn}, static_cast<std::uint8_t>(random.below(6)),
                                 static_cast<std::uint32_t>(random.below(4097)), now};
      std::uint64_t bytes = 0;
      for (const auto& [key, kept] : model) bytes += kept.bytes;
      ASSERT_EQ(channel.bytes(), bytes);
      ASSERT_EQ(channel.has_room(packet.bytes), bytes + packet.bytes <= 50'000);
      if (channel.has_room(packet.bytes)) {
        channel.admit(packet);
        model[psn++] = packet;
      }
      const auto gone = [&](const EscapedPacket& out) { ASSERT_EQ(model.erase(out.psn.value()), 1u); };
      const auto which = static_cast<std::uint8_t>(random.below(6));
      if (random.below(10) == 0) {
        channel.take(which, gone);
        for (const auto& [key, kept] : model) ASSERT_NE(kept.operation, which);
      }
      if (random.below(5) == 0) {
        channel.expire(now, 20_us, gone);
        for (const auto& [key, kept] : model) ASSERT_LT(now - kept.since, 20_us);
      }
      ASSERT_EQ(channel.size(), model.size());
    }
  });
}

}  // namespace
}  // namespace brdma::registry
