// control/definitions.h - the one table of settings: key, variable, range, meaning, and member. config.cc loads by it;
// tests/unit/control/control_config_test.cc checks docs/reference/settings.md against it, tests/reference writes it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "control/config.h"

namespace brdma::control {

// Whole numbers in [min, max]; in settings whose unit is a time, microseconds.
struct NumberSetting {
  std::uint64_t min, max;
  bool power_of_two;
  std::uint64_t (*get)(const Settings&);
  void (*set)(Settings&, std::uint64_t);
};
// One of several words; the value is the word's index.
struct ChoiceSetting {
  std::span<const std::string_view> words;
  std::size_t (*get)(const Settings&);
  void (*set)(Settings&, std::size_t);
};
struct TextSetting {
  std::string Settings::*member;
  enum class Form : std::uint8_t { kPath, kEndpoint, kName } form = Form::kPath;  // users of the last two check further
};

// Reach of a change at run time (brdma recovery set).
enum class Applies : std::uint8_t {
  kNewQueuePairs,  // those made from then on
  kNow,            // running queue pairs too
  kNewPrograms,    // nothing that runs: files and variables only
};
[[nodiscard]] std::string_view name(Applies applies);  // "new queue pairs", "now", "new programs"

struct Definition {
  std::string_view key;       // "table.name" of the TOML file
  std::string_view variable;  // "BRDMA_..."
  std::string_view meaning;
  std::variant<NumberSetting, ChoiceSetting, TextSetting> kind;
  Applies applies = Applies::kNewQueuePairs;
};

[[nodiscard]] std::span<const Definition> definitions();
// By key, with or without its table ("recovery.depth_max", "depth_max"); null: none.
[[nodiscard]] const Definition* find_definition(std::string_view key);
// The reason why `key` cannot be set: it is shown by management and set by verbs only. Empty: it can be set, or is
// unknown.
[[nodiscard]] std::string_view given_by_verbs(std::string_view key);
[[nodiscard]] std::string allowed_text(const Definition& definition);
[[nodiscard]] std::string value_text(const Definition& definition, const Settings& settings);
// Writes `text` into `settings` if it is valid; else changes nothing.
[[nodiscard]] bool assign(const Definition& definition, std::string_view text, Settings& settings);

}  // namespace brdma::control
