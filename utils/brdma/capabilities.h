// capabilities.h - capabilities of this version, known without a daemon.
#pragma once

#include <string_view>
#include <vector>

#include "output.h"

namespace brdma {

// modes, versions, largest values: {"modes":[...],"wire_version":1,...}
[[nodiscard]] Json device_capabilities();
// One object for each setting whose key has this prefix ("recovery."): key, default, min and max or words, and the
// scope of a change at run time.
[[nodiscard]] std::vector<Json> setting_capabilities(std::string_view prefix);

}  // namespace brdma
