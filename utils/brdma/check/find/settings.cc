// Findings about settings: variables and files.

#include <algorithm>
#include <array>
#include <string_view>

#include "check/finding.h"

namespace brdma::check {
namespace {

// Of this project's scripts, not of the library.
constexpr std::array<std::string_view, 9> kScriptVariables{"BRDMA_BUILD_DIR", "BRDMA_WAY_OPEN",   "BRDMA_WAY_INSIDE",
                                                           "BRDMA_BARE_TAR",  "BRDMA_SINCE",      "BRDMA_FIGURES",
                                                           "BRDMA_TESTS",     "BRDMA_KILL_POINT", "BRDMA_COUNTED"};

constexpr std::string_view kNoSetting = ": there is no setting ";

Finding unknown(const std::string& where, const std::string& name, const std::string& near) {
  return {"setting_unknown", Severity::kError, where + ": there is no setting " + name,
          near.empty() ? "take it out; 'brdma system show config' lists all" : "did you mean " + near + "?"};
}

std::vector<std::string> known_keys(const Configuration& configuration) {
  std::vector<std::string> keys;
  for (const Setting& setting : configuration.settings) keys.push_back(setting.key);
  return keys;
}

}  // namespace

std::string nearest(const std::string& word, std::span<const std::string> words) {
  std::string best;
  std::size_t best_distance = word.size() / 3 + 1;
  for (const std::string& candidate : words) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j < row.size(); ++j) {
        const std::size_t changed = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

Found find_setting_unknown(const Facts& facts) {
  const Configuration& configuration = facts.configuration;
  for (const Variable& variable : configuration.own) {
    const auto is = [&variable](const auto& name) { return name == variable.name; };
    if (std::ranges::any_of(configuration.known_variables, is) || std::ranges::any_of(kScriptVariables, is)) continue;
    return unknown("the environment", variable.name, nearest(variable.name, configuration.known_variables));
  }
  for (const std::string& error : configuration.errors) {
    const std::size_t at = error.find(kNoSetting);
    if (at == std::string::npos) continue;
    const std::string name = error.substr(at + kNoSetting.size());
    return unknown(error.substr(0, at), name, nearest(name, known_keys(configuration)));
  }
  return std::nullopt;
}

Found find_setting_value(const Facts& facts) {
  for (const std::string& error : facts.configuration.errors) {
    if (error.find(kNoSetting) != std::string::npos) continue;
    return Finding{"setting_value", Severity::kError, error,
                   "correct it; until then the value of the layer below is in force"};
  }
  return std::nullopt;
}

}  // namespace brdma::check
