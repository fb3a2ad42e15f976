// A part that is made at its first write: read before that, and while other objects are still initialised.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

#include "base/lazy.h"

namespace brdma {
namespace {

// Its destructor is not constexpr, as in the parts that are kept this way.
struct Part {
  std::vector<int> numbers;
  std::size_t limit = 7;
  Part() = default;
  explicit Part(std::size_t start) : limit(start) {}
  ~Part() { limit = 0; }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  [[nodiscard]] std::size_t allocated_bytes() const { return numbers.capacity() * sizeof(int); }
};

TEST(Lazy, ReadsAsEmptyUntilItIsMade) {
  Lazy<Part> part;
  EXPECT_EQ(part->limit, 7u);
  EXPECT_TRUE(part->numbers.empty());
  EXPECT_EQ(part.if_made(), nullptr);
  EXPECT_EQ(part.allocated_bytes(), 0u);
}

TEST(Lazy, IsMadeOnceWithTheFirstArguments) {
  Lazy<Part> part;
  part.made(std::size_t{3}).numbers.push_back(1);
  part.made(std::size_t{4}).numbers.push_back(2);
  EXPECT_EQ(part->limit, 3u);
  EXPECT_EQ(part->numbers.size(), 2u);
  EXPECT_GE(part.allocated_bytes(), sizeof(Part) + 2 * sizeof(int));
  Lazy<Part> other;
  EXPECT_EQ(other->limit, 7u);
  EXPECT_TRUE(other->numbers.empty());
}

// Not destroyed when the program ends: objects destroyed after it may still read it.
struct ReadsAtTheEnd {
  ~ReadsAtTheEnd() {
    if (Lazy<Part> {} -> limit != 7) std::abort();
  }
};
const ReadsAtTheEnd reads_at_the_end;

}  // namespace
}  // namespace brdma
