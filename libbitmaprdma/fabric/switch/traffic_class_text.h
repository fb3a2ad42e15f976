// fabric/switch/traffic_class_text.h - traffic classes as text, for the options of fabric/network.h.
//   classes  strict,4,1   up to 8: served first, or a weight of 1 to 64
//   dscp     46=0,26=1    which class has which DSCP; the others have the last. Or off: all have the last
// Each parse_ returns false, and changes nothing, for text of another form. Pure.
#pragma once

#include <string>
#include <string_view>

#include "fabric/switch/traffic_classes.h"

namespace brdma::fabric {

[[nodiscard]] bool parse_classes(TrafficClasses& classes, std::string_view text);
[[nodiscard]] std::string print_classes(const TrafficClasses& classes);
[[nodiscard]] bool parse_dscp(TrafficClasses& classes, std::string_view text);
[[nodiscard]] std::string print_dscp(const TrafficClasses& classes);

}  // namespace brdma::fabric
