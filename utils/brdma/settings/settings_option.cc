#include "settings/settings_option.h"

#include <cstdlib>

#include "control/definitions.h"

namespace brdma {
namespace {

// BRDMA_AGE_MAX_US -> --age-max-us
std::string option_of(std::string_view variable) {
  std::string option = "--";
  for (const char c : variable.substr(sizeof "BRDMA_" - 1)) {
    const bool upper = c >= 'A' && c <= 'Z';
    option += c == '_' ? '-' : static_cast<char>(upper ? c - 'A' + 'a' : c);
  }
  return option;
}

}  // namespace

bool take_setting(const std::string& word, Words& words) {
  for (const control::Definition& definition : control::definitions()) {
    if (option_of(definition.variable) != word) continue;
    const std::string value = words.take_value(word);
    control::Settings scratch;
    if (!control::assign(definition, value, scratch)) {
      throw UsageError(word + " '" + value + "': expected " + control::allowed_text(definition));
    }
    setenv(std::string{definition.variable}.c_str(), value.c_str(), 1);
    return true;
  }
  return false;
}

}  // namespace brdma
