// The word that a mistyped one was meant to be: distances worked out by hand, both sides of the limit.
#include <gtest/gtest.h>

#include "control/nearest_word.h"

namespace brdma {
namespace {

TEST(NearestWord, ADistanceCountsWhatIsInsertedRemovedReplacedAndSwapped) {
  struct Case {
    const char *from, *to;
    std::size_t distance;
  };
  for (const Case& each : {Case{"", "", 0},
                           {"qp", "qp", 0},
                           {"QP", "qp", 0},
                           {"", "qp", 2},
                           {"qp", "", 2},
                           {"depthmax", "depth_max", 1},
                           {"deepth", "depth", 1},
                           {"depht", "depth", 1},
                           {"widow", "window", 1},
                           {"wimdow", "window", 1},
                           {"kitten", "sitting", 3}}) {
    EXPECT_EQ(word_distance(each.from, each.to), each.distance) << each.from << " " << each.to;
    EXPECT_EQ(word_distance(each.to, each.from), each.distance) << each.to << " " << each.from;
  }
}

std::string nearest(std::string_view word, std::initializer_list<std::string_view> candidates) {
  NearestWord kept{word};
  for (const std::string_view candidate : candidates) kept.offer(candidate);
  return kept.found();
}

TEST(NearestWord, TheNearestIsKeptAndOfEqualOnesTheFirst) {
  EXPECT_EQ(nearest("recovry", {"resource", "recovery", "dev"}), "recovery");
  EXPECT_EQ(nearest("shov", {"shop", "show"}), "shop");
  EXPECT_EQ(nearest("show", {"shop", "show"}), "show");
}

TEST(NearestWord, NoneIsNamedThatIsTooFar) {
  EXPECT_EQ(nearest("abcxyz", {"abcdef"}), "");        // 3 of 6: more than a third
  EXPECT_EQ(nearest("abcdxy", {"abcdef"}), "abcdef");  // 2 of 6
  EXPECT_EQ(nearest("nosuch", {"dev", "link", "statistic"}), "");
  EXPECT_EQ(nearest("", {"dev"}), "");
  EXPECT_EQ(nearest("zz", {"qp"}), "");
  EXPECT_EQ(nearest(std::string(65, 'a'), {std::string(65, 'a')}), "");
}

TEST(NearestWord, TheQuestionIsEmptyWhereNoneIsNear) {
  NearestWord kept{"statistics"};
  EXPECT_EQ(kept.question(), "");
  kept.offer("statistic");
  EXPECT_EQ(kept.question(), ": did you mean 'statistic'?");
}

}  // namespace
}  // namespace brdma
