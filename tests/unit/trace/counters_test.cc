// Every counter of the list moves in a scenario that checks its value: one of counter_scenarios.cc, where nothing else
// moves, or a test of another file, which is searched for in that file (counter_tests.h).
#include <gmock/gmock.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "counter_scenarios.h"
#include "counter_tests.h"

namespace brdma::test {
namespace {

class CounterScenarios : public testing::TestWithParam<CounterScenario> {};

TEST_P(CounterScenarios, MoveWhatTheySayAndNothingElse) { EXPECT_EQ("\n" + GetParam().run(), GetParam().expected); }
INSTANTIATE_TEST_SUITE_P(All, CounterScenarios,
                         testing::ValuesIn(counter_scenarios().begin(), counter_scenarios().end()),
                         [](const auto& info) { return std::string{info.param.name}; });

std::string name(Counter counter) { return std::string{kCounterNames[static_cast<std::size_t>(counter)]}; }

// Counters to which a scenario's text gives a value.
std::set<std::string> in_scenarios() {
  std::set<std::string> found;
  for (const CounterScenario& scenario : counter_scenarios()) {
    std::istringstream words{std::string{scenario.expected}};
    for (std::string word; words >> word;) found.insert(word.substr(0, word.find('=')));
  }
  return found;
}

// The body of a test; empty: that file has no such test.
std::string body_of(const CounterTest& test) {
  std::ifstream file{BRDMA_TESTS_DIR "/" + std::string{test.file}};
  std::ostringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::regex head{"\\nTEST(_F|_P)?\\(" + std::string{test.suite} + ", " + std::string{test.name} + "\\)"};
  std::smatch found;
  if (!std::regex_search(all, found, head)) return {};
  const auto begin = static_cast<std::size_t>(found.position() + found.length());
  return all.substr(begin, all.find("\n}", begin) - begin);
}

// One of its statements expects a value of the counter.
bool expects(const CounterTest& test) {
  std::istringstream body{body_of(test)};
  const std::regex counter{"Counter::" + std::string{test.counter} + "\\b"};
  const std::regex expectation{"EXPECT_|ASSERT_|counts\\("};
  for (std::string statement; std::getline(body, statement, ';');) {
    if (std::regex_search(statement, counter) && std::regex_search(statement, expectation)) return true;
  }
  return false;
}

// Enumerators by the names of counters.
std::string counter_of(std::string_view enumerator) {
#define BRDMA_X(name, text, help) \
  if (enumerator == #name) return #text;
  BRDMA_COUNTERS(BRDMA_X)
#undef BRDMA_X
  return {};
}

TEST(CounterTests, ExpectTheCounterThatTheyAreListedFor) {
  for (const CounterTest& test : kCounterTests) {
    EXPECT_NE(counter_of(test.counter), "") << test.counter << " is no counter";
    EXPECT_TRUE(expects(test)) << test.file << ": " << test.suite << "." << test.name << " expects no value of "
                               << test.counter;
  }
}

TEST(CounterTests, AndScenariosCoverTheList) {
  std::set<std::string> covered = in_scenarios();
  for (const CounterTest& test : kCounterTests) covered.insert(counter_of(test.counter));
  for (std::size_t i = 0; i < kCounterCount; ++i) {
    EXPECT_TRUE(covered.contains(name(static_cast<Counter>(i))))
        << name(static_cast<Counter>(i))
        << " moves in no scenario: add one to counter_scenarios.cc, or a line to counter_tests.h";
  }
}

// A test elsewhere is listed only for counters without a scenario.
TEST(CounterTests, AreListedForWhatNoScenarioHas) {
  const std::set<std::string> here = in_scenarios();
  for (const CounterTest& test : kCounterTests) EXPECT_FALSE(here.contains(counter_of(test.counter))) << test.counter;
}

}  // namespace
}  // namespace brdma::test
