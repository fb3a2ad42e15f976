// base/function_ref.h
#include <gtest/gtest.h>

#include "base/function_ref.h"

namespace brdma {
namespace {

int twice(FunctionRef<int(int)> function) { return function(1) + function(2); }

TEST(FunctionRef, CallsWhatItRefersTo) {
  int calls = 0;
  EXPECT_EQ(twice([&](int value) { return value + ++calls; }), 6);
  EXPECT_EQ(calls, 2);
  const auto constant = [](int value) { return value; };
  EXPECT_EQ(twice(constant), 3);
  FunctionRef<int(int)> passed_on = constant;
  EXPECT_EQ(twice(passed_on), 3);
}

TEST(FunctionRef, AResultMayBeIgnored) {
  int seen = 0;
  const auto set = [&](int value) { return seen = value; };
  const FunctionRef<void(int)> function = set;
  EXPECT_EQ(seen, 0);
  function(7);
  EXPECT_EQ(seen, 7);
}

}  // namespace
}  // namespace brdma
