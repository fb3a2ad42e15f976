// settings/settings_report.h - every setting and the source of its value.
#pragma once

#include <string_view>

#include "output.h"

namespace brdma {

// Settings whose key begins with `prefix`. Exit code 1 when a file or variable has a bad value. Unknown BRDMA_
// variables are warnings on standard error.
[[nodiscard]] int print_settings(std::string_view prefix, const OutputStyle& style);

}  // namespace brdma
