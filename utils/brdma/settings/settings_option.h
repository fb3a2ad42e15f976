// settings/settings_option.h - settings as options of a command that starts programs: --recovery gobackn,
// --age-max-us 80.
#pragma once

#include <string>

#include "words.h"

namespace brdma {

// If `word` is the option of a setting: takes its value, puts it into the environment of the program to be started, and
// returns true. Throws UsageError for a bad value: the program itself would only warn.
bool take_setting(const std::string& word, Words& words);

}  // namespace brdma
