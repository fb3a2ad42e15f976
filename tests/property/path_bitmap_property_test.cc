// tests design BR-29. The bitmap of a path against a std::set of 64-bit sequence numbers, and its memory: several
// share a pool, as those of a queue pair do, and return unused segments.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "bitmap/path_bitmap.h"
#include "support/seeds.h"

namespace brdma::bitmap {
namespace {

Psn psn_of(std::int64_t seq) { return Psn{static_cast<std::uint32_t>(seq)}; }

struct Path {
  Path(const WindowShape& shape, SegmentPool& pool) : bitmap(shape, pool) {}
  PathBitmap bitmap;
  std::set<std::int64_t> model;
};

void expect_same(const Path& path, std::int64_t base, std::uint32_t window, Random& random) {
  ASSERT_EQ(path.bitmap.empty(), path.model.empty());
  if (path.model.empty()) return;
  ASSERT_EQ(path.bitmap.newest(), psn_of(*path.model.rbegin()));
  for (int i = 0; i < 4; ++i) {
    const std::int64_t probe = base + static_cast<std::int64_t>(random.below(window));
    ASSERT_EQ(path.bitmap.has(psn_of(probe)), path.model.contains(probe)) << probe - base;
    const auto beyond = std::distance(path.model.upper_bound(probe), path.model.end());
    const auto most = static_cast<std::uint32_t>(random.below(random.below(2) == 0 ? 10 : window));
    ASSERT_EQ(path.bitmap.beyond(psn_of(probe), most), std::min(most, static_cast<std::uint32_t>(beyond)));
  }
}

WindowShape random_shape(Random& random, std::uint32_t window) {
  const auto power = [&random](unsigned from, unsigned to) { return 1u << (from + random.below(to - from + 1)); };
  return {.window = window, .base = power(6, 9), .extension = power(6, 11), .segment = power(6, 10)};
}

TEST(PathBitmapProperty, EqualsASet) {
  test::for_each_seed(100, [](Random& random) {
    const auto window = static_cast<std::uint32_t>(1 + random.below(random.below(2) != 0 ? 90 : 5000));
    const WindowShape shape = random_shape(random, window);
    SegmentPool pool;
    {
      std::vector<Path> paths;
      for (std::uint64_t left = 1 + random.below(4); left > 0; --left) paths.emplace_back(shape, pool);
      std::int64_t base = (1 << 24) - static_cast<std::int64_t>(random.below(3000));
      for (int step = 0; step < 400; ++step) {
        SCOPED_TRACE("step " + std::to_string(step));
        Path& path = paths[random.below(paths.size())];
        const auto offset = static_cast<std::uint32_t>(random.below(window));
        const auto count =
            static_cast<std::uint32_t>(1 + random.below(std::min(window - offset, random.below(8) == 0 ? 300u : 8u)));
        switch (random.below(8)) {
          default:
            path.bitmap.receive(psn_of(base), psn_of(base + offset), count);
            for (std::uint32_t i = 0; i < count; ++i) path.model.insert(base + offset + i);
            break;
          case 6:
          case 7:  // the base of the window passes on all paths
            for (Path& each : paths) {
              each.bitmap.forget(psn_of(base), count);
              each.model.erase(each.model.begin(), each.model.lower_bound(base + count));
            }
            base += count;
            break;
          case 5:
            if (random.below(10) != 0) break;
            path.bitmap.clear();
            path.model.clear();
            break;
        }
        for (const Path& each : paths) {
          ASSERT_NO_FATAL_FAILURE(expect_same(each, base, window, random));
          if (!each.model.empty()) continue;
          ASSERT_LE(each.bitmap.allocated_bytes(), 64u + 16 * 16) << "nothing is marked";
        }
      }
    }
    ASSERT_EQ(pool.used_bytes(), 0u);
  });
}

}  // namespace
}  // namespace brdma::bitmap
