// The memory table against a std::map of live regions: keys are right or refused, bounds are exact, nothing survives
// its removal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "memory/memory_table.h"
#include "support/seeds.h"

namespace brdma::memory {
namespace {

// In wide arithmetic and in the order of checks that the header promises.
Fault expected(const MemoryRegion* region, const ProtectionDomain* pd, std::uint64_t address, std::uint64_t length,
               std::uint32_t needed) {
  if (length == 0) return Fault::kNone;
  if (region == nullptr) return Fault::kBadKey;
  if (region->pd != pd) return Fault::kWrongDomain;
  if ((needed & ~region->access) != 0) return Fault::kNoPermission;
  using Wide = unsigned __int128;
  const bool inside = address >= region->iova && Wide{address} + length <= Wide{region->iova} + region->length;
  return inside ? Fault::kNone : Fault::kOutOfBounds;
}

std::uint64_t near(std::uint64_t centre, Random& random) { return centre + random.below(9) - 4; }

TEST(MemoryTableProperty, EqualsAMapOfRegions) {
  test::for_each_seed(100, [](Random& random) {
    MemoryTable table{SecretRandom{random.next(), "keys"}};
    std::vector<ProtectionDomain*> domains{table.alloc_pd(), table.alloc_pd()};
    std::map<std::uint32_t, MemoryRegion*> live;
    std::set<std::uint32_t> keys;
    constexpr std::uint32_t kAccess[] = {0, 1, 1 | 2, 1 | 4, 1 | 8, 1 | 2 | 4 | 8, 4};
    constexpr std::uint32_t kNeeded[] = {0, 1, 2, 4, 8};
    const auto pick_region = [&]() -> MemoryRegion* {
      if (live.empty()) return nullptr;
      return std::next(live.begin(), static_cast<std::ptrdiff_t>(random.below(live.size())))->second;
    };
    for (int step = 0; step < 600; ++step) {
      const auto choice = random.below(10);
      if (choice < 2) {
        ProtectionDomain* pd = domains[random.below(2)];
        const std::uint64_t length = random.below(4) == 0 ? random.below(3) : random.next() >> random.below(64);
        const std::uint64_t iova = random.below(3) == 0 ? 0 - length - random.below(3) : random.next();
        const std::uint64_t address = 0x1000;
        const bool fits =
            length <= 1 || length - 1 <= std::numeric_limits<std::uint64_t>::max() - std::max(iova, address);
        auto added = table.add(pd, address, length, iova, kAccess[random.below(7)]);
        ASSERT_EQ(added.ok(), fits || length == 0) << length << " at " << iova;
        if (!added.ok()) continue;
        ASSERT_NE(added.value()->key, 0u);
        ASSERT_TRUE(live.emplace(added.value()->key, added.value()).second) << "key given twice";
        keys.insert(added.value()->key);
      } else if (choice == 2) {
        MemoryRegion* region = pick_region();
        if (region == nullptr) continue;
        live.erase(region->key);
        ASSERT_TRUE(table.remove(region).ok());
      } else {
        const MemoryRegion* region = pick_region();
        std::uint32_t key = region != nullptr ? region->key : 0;
        if (random.below(6) == 0) key = static_cast<std::uint32_t>(random.next());
        if (random.below(6) == 0 && !keys.empty()) key = *keys.lower_bound(*keys.begin());
        const auto found = live.find(key);
        const MemoryRegion* aimed = found == live.end() ? nullptr : found->second;
        const std::uint64_t address = region == nullptr ? random.next()
                                      : random.below(2) ? near(region->iova, random)
                                                        : near(region->iova + region->length, random);
        const std::uint64_t length = region == nullptr ? 1
                                     : random.below(2) ? random.below(6)
                                                       : near(region->length, random);
        const std::uint32_t needed = kNeeded[random.below(5)];
        const ProtectionDomain* pd = domains[random.below(2)];
        std::byte* bytes = nullptr;
        const Fault fault = table.resolve(Accessor{pd}, key, address, length, needed, &bytes);
        ASSERT_EQ(fault, expected(aimed, pd, address, length, needed)) << "step " << step;
        if (fault == Fault::kNone && length > 0) {
          ASSERT_EQ(reinterpret_cast<std::uintptr_t>(bytes), aimed->address + (address - aimed->iova));
        } else {
          ASSERT_EQ(bytes, nullptr);
        }
      }
      ASSERT_EQ(table.regions(), live.size());
    }
    for (const auto& [key, region] : live) {
      ASSERT_EQ(table.dealloc_pd(region->pd).error(), EBUSY);
      ASSERT_TRUE(table.remove(region).ok());
    }
    for (ProtectionDomain* pd : domains) ASSERT_TRUE(table.dealloc_pd(pd).ok());
  });
}

// A window's binding, as the test records it.
struct Bound {
  const MemoryRegion* lender = nullptr;
  std::uint64_t from = 0, first = 0, length = 0;  // its addresses begin at `from`, at the lender's `first`
  std::uint32_t access = 0, qpn = 0;
};

TEST(MemoryTableProperty, WindowsLendWhatTheyAreBoundTo) {
  test::for_each_seed(100, [](Random& random) {
    MemoryTable table{SecretRandom{random.next(), "keys"}};
    ProtectionDomain* const domains[2] = {table.alloc_pd(), table.alloc_pd()};
    std::vector<MemoryRegion*> regions;
    for (int i = 0; i < 4; ++i) {
      regions.push_back(table.add(domains[i % 2], 0x10000, 4096, 0x4000 + 0x1000 * random.below(3), 1 | 16).value());
    }
    struct Window {
      MemoryRegion* window;
      std::uint32_t key;
      Bound bound;
    };
    std::vector<Window> windows;
    for (int i = 0; i < 6; ++i) {
      MemoryRegion* const window = table.add_window(domains[i % 2], i % 3 == 0).value();
      windows.push_back({window, window->key, {}});
    }
    const auto who = [&] {
      return Accessor{domains[random.below(2)], static_cast<std::uint32_t>(random.below(2)) + 5};
    };
    for (int step = 0; step < 500; ++step) {
      Window& each = windows[random.below(windows.size())];
      const bool type2 = each.window->type2, bound = each.bound.lender != nullptr;
      const Accessor accessor = who();
      const auto choice = random.below(8);
      if (choice < 3) {
        const MemoryRegion* const lender = regions[random.below(regions.size())];
        const Binding to{.key = (each.key & ~0xFFu) | static_cast<std::uint32_t>(random.below(256)),
                         .lkey = lender->key,
                         .address = lender->iova + random.below(4096) - random.below(2) * 100,
                         .length = random.below(6) == 0 ? 0 : random.below(3000),
                         .access = static_cast<std::uint32_t>(random.below(8) << 1 | random.below(2) << 5)};
        const bool inside = to.address >= lender->iova && to.address - lender->iova + to.length <= 4096;
        const bool expected = accessor.pd == each.window->pd && (!type2 || (!bound && to.length != 0)) &&
                              (to.length == 0 || (inside && lender->pd == each.window->pd));
        ASSERT_EQ(table.bind(accessor, to), expected) << "step " << step;
        if (!expected) continue;
        each.key = to.key;
        each.bound = {};
        if (to.length == 0) continue;
        each.bound = {.lender = lender,
                      .from = (to.access & 32) != 0 ? 0 : to.address,
                      .first = to.address - lender->iova,
                      .length = to.length,
                      .access = to.access & 14,
                      .qpn = accessor.qpn};
      } else if (choice == 3) {
        const bool expected = bound && type2 && accessor.pd == each.window->pd && accessor.qpn == each.bound.qpn;
        ASSERT_EQ(table.invalidate(accessor, each.key), expected);
        if (expected) each.bound = {};
      } else if (choice == 4 && random.below(10) == 0) {
        table.forget_queue_pair(accessor.qpn);
        for (Window& other : windows) {
          if (other.window->type2 && other.bound.qpn == accessor.qpn) other.bound = {};
        }
      } else if (choice == 5) {
        MemoryRegion* const region = regions[random.below(regions.size())];
        const auto lent = std::any_of(windows.begin(), windows.end(),
                                      [region](const Window& other) { return other.bound.lender == region; });
        ASSERT_EQ(region->windows > 0, lent);
        if (lent) {
          ASSERT_EQ(table.remove(region).error(), EBUSY);
        }
      } else {
        const std::uint64_t address = near(each.bound.from + random.below(2) * each.bound.length, random);
        const std::uint64_t length = 1 + random.below(8);
        const std::uint32_t needed = std::uint32_t{1} << random.below(4);
        std::byte* bytes = nullptr;
        const Fault fault = table.resolve(accessor, each.key, address, length, needed, &bytes);
        using Wide = unsigned __int128;
        const bool inside =
            address >= each.bound.from && Wide{address} + length <= Wide{each.bound.from} + each.bound.length;
        const bool expected = bound && accessor.pd == each.window->pd && (!type2 || accessor.qpn == each.bound.qpn) &&
                              (needed & each.bound.access) != 0 && inside;
        ASSERT_EQ(fault == Fault::kNone, expected) << "step " << step;
        if (expected) {
          ASSERT_EQ(reinterpret_cast<std::uintptr_t>(bytes), 0x10000 + each.bound.first + (address - each.bound.from));
        }
      }
    }
    for (const Window& each : windows) ASSERT_TRUE(table.remove_window(each.window).ok());
    for (MemoryRegion* region : regions) ASSERT_TRUE(table.remove(region).ok());
    for (ProtectionDomain* pd : domains) ASSERT_TRUE(table.dealloc_pd(pd).ok());
  });
}

}  // namespace
}  // namespace brdma::memory
