// capabilities.h - what this version can do: known without asking anybody.
#pragma once

#include <string_view>
#include <vector>

#include "output.h"

namespace brdma {

// modes, versions, largest values: {"modes":[...],"wire_version":1,...}
[[nodiscard]] Json device_capabilities();
// One object a setting whose key begins so ("recovery."): key, default, min and max or words, and what a change at run
// time reaches.
[[nodiscard]] std::vector<Json> setting_capabilities(std::string_view prefix);

}  // namespace brdma
