// grammar/more.h - lists of other tables that help and manual pages print below an object's own rows.
#pragma once

#include <string>

namespace brdma::grammar {

[[nodiscard]] std::string event_types();           // the types of events
[[nodiscard]] std::string alarm_keys();            // keys of alarms, with their meaning
[[nodiscard]] std::string network_options_text();  // options of a lab's network; the topologies of the package

}  // namespace brdma::grammar
