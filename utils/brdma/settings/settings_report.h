// settings/settings_report.h - every setting and the source of its value.
#pragma once

#include <string_view>

#include "output.h"

namespace brdma {

// Settings whose key begins with `prefix`. Exit code 1 when a file or variable has a bad value.
[[nodiscard]] int print_settings(std::string_view prefix, const OutputStyle& style);

}  // namespace brdma
