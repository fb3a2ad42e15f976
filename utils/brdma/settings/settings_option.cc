#include "settings/settings_option.h"

#include <cstdlib>

#include "control/definitions.h"
#include "grammar/table.h"

namespace brdma {

bool take_setting(const std::string& word, Words& words) {
  for (const control::Definition& definition : control::definitions()) {
    if (grammar::option_of_variable(definition.variable) != word) continue;
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
