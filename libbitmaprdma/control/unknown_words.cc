#include "control/unknown_words.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "control/definitions.h"
#include "control/nearest_word.h"

namespace brdma::control {
namespace {

constexpr std::string_view kPrefix = "BRDMA_";
constexpr std::string_view kOfTests = "BRDMA_TEST";
// What utils/build, tests/run and its lanes read: whoever exports them runs programs, too.
constexpr std::array<std::string_view, 9> kOfScripts{"BRDMA_BUILD_DIR", "BRDMA_WAY_OPEN",   "BRDMA_WAY_INSIDE",
                                                     "BRDMA_FIGURES",   "BRDMA_SINCE",      "BRDMA_SEEDS",
                                                     "BRDMA_FORGERIES", "BRDMA_KILL_POINT", "BRDMA_MAPPED_ROOT"};

bool is_known(std::string_view variable) {
  if (variable.starts_with(kOfTests)) return true;
  if (std::find(kOfScripts.begin(), kOfScripts.end(), variable) != kOfScripts.end()) return true;
  const auto all = definitions();
  return std::any_of(all.begin(), all.end(), [variable](const Definition& one) { return one.variable == variable; });
}

}  // namespace

std::string no_such_setting(std::string_view key) {
  const bool with_table = key.find('.') != key.npos;
  if (const Definition* const whole = find_definition(key); whole != nullptr && !with_table) {
    return "there is no setting " + std::string(key) + ": did you mean '" + std::string(whole->key) + "'?";
  }
  NearestWord nearest{key};
  for (const Definition& definition : definitions()) {
    nearest.offer(with_table ? definition.key : definition.key.substr(definition.key.find('.') + 1));
  }
  return "there is no setting " + std::string(key) + nearest.question();
}

std::vector<std::string> unknown_variables(const char* const* environment) {
  std::vector<std::string> sentences;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry{*environment};
    const std::string_view variable = entry.substr(0, entry.find('='));
    if (!variable.starts_with(kPrefix) || is_known(variable)) continue;
    NearestWord nearest{variable};
    for (const Definition& definition : definitions()) nearest.offer(definition.variable);
    sentences.push_back("the variable " + std::string(variable) + " is no setting" + nearest.question());
  }
  return sentences;
}

std::vector<std::string> unknown_variables() {
  return ::getauxval(AT_SECURE) != 0 ? std::vector<std::string>{} : unknown_variables(::environ);
}

}  // namespace brdma::control
